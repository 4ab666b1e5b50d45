"""The optimisers of the fast engines: torch's update rules on plain tensors, in place.

torch.optim itself takes seconds to load its compiler on first use, longer than most fits of an estimator last. Adam is
torch's own fused kernel where there is one: a single pass over the weights where separate operations need ten.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from condiff.kernels.constants import EPSILON, FIRST_MOMENT, SECOND_MOMENT
from condiff.training.settings import Training

_RMSPROP_MOMENT = 0.99


class Optimiser:
    """The optimiser and schedule of the settings; the numbers are torch's up to rounding.

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
        return self.settings.learning_rate_at(self.epoch)

    @torch.no_grad()
    def step(self) -> None:
        """Update every parameter by its gradient, and clear that."""
        adam = self._fused_adam if hasattr(torch, "_fused_adam_") else self._adam
        moves = {"adam": adam, "adamax": self._adamax, "rmsprop": self._rmsprop, "sgd": self._sgd}
        move = moves[self.settings.optimiser]
        for parameter, mean, square in zip(self.parameters, self._means, self._squares, strict=True):
            gradient = parameter.grad
            if gradient is None:
                continue
            move(parameter, gradient, mean, square)
            parameter.grad = None
        self.epoch += 1

    def _fused_adam(self, parameter: Tensor, gradient: Tensor, mean: Tensor, square: Tensor) -> None:
        torch._fused_adam_(
            [parameter],
            [gradient],
            [mean],
            [square],
            [],
            [torch.tensor(float(self.epoch + 1), device=parameter.device)],
            lr=self.learning_rate,
            beta1=FIRST_MOMENT,
            beta2=SECOND_MOMENT,
            weight_decay=self.settings.weight_decay,
            eps=EPSILON,
            amsgrad=False,
            maximize=False,
        )

    def _adam(self, parameter: Tensor, gradient: Tensor, mean: Tensor, square: Tensor) -> None:
        self._decay(parameter, gradient)
        mean.lerp_(gradient, 1 - FIRST_MOMENT)
        square.mul_(SECOND_MOMENT).addcmul_(gradient, gradient, value=1 - SECOND_MOMENT)
        rate, root = adam_corrections(self.learning_rate, self.epoch)
        parameter.addcdiv_(mean, square.sqrt().mul_(root).add_(EPSILON), value=-rate)

    def _adamax(self, parameter: Tensor, gradient: Tensor, mean: Tensor, square: Tensor) -> None:
        self._decay(parameter, gradient)
        mean.lerp_(gradient, 1 - FIRST_MOMENT)
        torch.maximum(square.mul_(SECOND_MOMENT), gradient.abs_().add_(EPSILON), out=square)
        parameter.addcdiv_(mean, square, value=-self.learning_rate / (1 - FIRST_MOMENT ** (self.epoch + 1)))

    def _rmsprop(self, parameter: Tensor, gradient: Tensor, mean: Tensor, square: Tensor) -> None:
        self._decay(parameter, gradient)
        square.mul_(_RMSPROP_MOMENT).addcmul_(gradient, gradient, value=1 - _RMSPROP_MOMENT)
        parameter.addcdiv_(gradient, square.sqrt().add_(EPSILON), value=-self.learning_rate)

    def _sgd(self, parameter: Tensor, gradient: Tensor, mean: Tensor, square: Tensor) -> None:
        self._decay(parameter, gradient)
        # The first step's buffer is the gradient itself, which an empty one gives.
        mean.mul_(self.settings.momentum).add_(gradient)
        parameter.add_(mean, alpha=-self.learning_rate)

    def _decay(self, parameter: Tensor, gradient: Tensor) -> None:
        if self.settings.weight_decay:
            gradient.add_(parameter, alpha=self.settings.weight_decay)


def adam_corrections(learning_rate: float, epoch: int) -> tuple[float, float]:
    """What Adam multiplies a step and the root of the squares with, because its means began at zero."""
    return learning_rate / (1 - FIRST_MOMENT ** (epoch + 1)), 1 / math.sqrt(1 - SECOND_MOMENT ** (epoch + 1))
