"""Linear heads of many tasks, moved together by Adam: the gradient is written out, because autograd takes longer."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from condiff.kernels.constants import EPSILON, FIRST_MOMENT, SECOND_MOMENT


def adam(values: list[Tensor], gradients: Callable[[list[Tensor]], list[Tensor]], rate: float, steps: int) -> None:
    """Move ``values`` in place by ``steps`` of Adam (Kingma and Ba 2015), with torch's constants."""
    first, second = ([torch.zeros_like(value) for value in values] for _ in range(2))
    for shrink, root in adam_rates(rate, steps):
        for value, mean, square, gradient in zip(values, first, second, gradients(values), strict=True):
            mean.lerp_(gradient, 1 - FIRST_MOMENT)
            square.mul_(SECOND_MOMENT).addcmul_(gradient, gradient, value=1 - SECOND_MOMENT)
            value.addcdiv_(mean, square.sqrt().mul_(root).add_(EPSILON), value=-shrink)


def adam_rates(rate: float, steps: int) -> Iterator[tuple[float, float]]:
    """The rate of each step, and the factor of the second moment's root: what corrects the moments' beginning at 0."""
    for step in range(1, steps + 1):
        yield rate / (1 - FIRST_MOMENT**step), (1 - SECOND_MOMENT**step) ** -0.5


def cross_entropy_slope(chances: Tensor, one_hot: Tensor) -> Tensor:
    """The gradient by the logits, whose softmax is ``chances``, of the mean cross-entropy over a task's points."""
    return (chances - one_hot) / chances.shape[-2]


def entropy_slope(chances: Tensor, surprise: Tensor) -> Tensor:
    """The gradient by the logits of minus the mean over points of ``chances * surprise``, summed over classes.

    ``chances`` is the logits' softmax. With their logarithm as ``surprise`` it is the gradient of the answers' mean
    entropy; with that of the average answer, of the average's entropy; a sum of both gives the sum.
    """
    return chances * ((chances * surprise).sum(-1, keepdim=True) - surprise) / chances.shape[-2]
