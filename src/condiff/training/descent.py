"""The optimisers of the fast engines: torch's update rules on plain tensors, in place.

torch.optim itself takes seconds to load its compiler on first use, longer than most fits of an estimator last.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from condiff.training.settings import Training

_FIRST_MOMENT, _SECOND_MOMENT, _EPSILON = 0.9, 0.999, 1e-8


class Descent:
    """Adam or SGD with the schedule of the settings; the numbers are torch's up to rounding.

    Parameters
    ----------
    parameters
        Leaf tensors that require a gradient.
    settings
        Optimiser, learning rate, momentum, weight decay, milestones.
    """

    def __init__(self, parameters: Sequence[Tensor], settings: Training) -> None:
        self.parameters = list(parameters)
        self.settings = settings
        self.epoch = 0
        self._means = [torch.zeros_like(parameter) for parameter in self.parameters]
        self._squares = [torch.zeros_like(parameter) for parameter in self.parameters]

    @property
    def learning_rate(self) -> float:
        """That of the coming step."""
        passed = sum(milestone <= self.epoch for milestone in self.settings.milestones)
        return self.settings.learning_rate * self.settings.decay**passed

    @torch.no_grad()
    def step(self) -> None:
        """Update every parameter by its gradient, and clear that."""
        move = self._adam if self.settings.optimiser == "adam" else self._sgd
        for parameter, mean, square in zip(self.parameters, self._means, self._squares, strict=True):
            gradient = parameter.grad
            if gradient is None:
                continue
            if self.settings.weight_decay:
                gradient.add_(parameter, alpha=self.settings.weight_decay)
            move(parameter, gradient, mean, square)
            parameter.grad = None
        self.epoch += 1

    def _adam(self, parameter: Tensor, gradient: Tensor, mean: Tensor, square: Tensor) -> None:
        number = self.epoch + 1
        mean.lerp_(gradient, 1 - _FIRST_MOMENT)
        square.mul_(_SECOND_MOMENT).addcmul_(gradient, gradient, value=1 - _SECOND_MOMENT)
        scale = square.sqrt().div_(math.sqrt(1 - _SECOND_MOMENT**number)).add_(_EPSILON)
        parameter.addcdiv_(mean, scale, value=-self.learning_rate / (1 - _FIRST_MOMENT**number))

    def _sgd(self, parameter: Tensor, gradient: Tensor, mean: Tensor, square: Tensor) -> None:
        # The first step's buffer is the gradient itself, which an empty one gives.
        mean.mul_(self.settings.momentum).add_(gradient)
        parameter.add_(mean, alpha=-self.learning_rate)
