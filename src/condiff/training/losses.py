"""Losses of an output that is already a probability (or a value): no activation is applied here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from condiff.model import Head

if TYPE_CHECKING:
    from typing import Self

#: Of the diffused output of all nodes, (..., n, c): one number for each network, added to its loss.
Penalty = Callable[[Tensor], Tensor]


def pointwise_loss(u: Tensor, target: Tensor, head: Head) -> Tensor:
    """The loss of every item: of each point for ``softmax``, of each entry of ``u`` for the other heads.

    ``softmax``: ``-log u`` of the true class. ``sigmoid``: the binary cross-entropy. ``identity``: the squared error.
    Past the positivity limit ``u`` can leave [0, 1]; the logarithm is cut off at the smallest normal number, where its
    gradient vanishes.
    """
    tiny = torch.finfo(u.dtype).tiny
    if head == "softmax":
        places = target.long()[..., None].expand(*u.shape[:-1], 1)
        return -u.gather(-1, places)[..., 0].clamp_min(tiny).log()
    truth = _like(target, u)
    if head == "identity":
        return (u - truth) ** 2
    return -(truth * u.clamp_min(tiny).log() + (1 - truth) * (1 - u).clamp_min(tiny).log())


def loss_gradient(u: Tensor, target: Tensor, weight: Tensor, head: Head) -> Tensor:
    """The gradient by ``u`` of the weighted sum of :func:`pointwise_loss`, written out: a tenth of autograd's time."""
    tiny = torch.finfo(u.dtype).tiny
    if head == "softmax":
        places = target.long()[..., None].expand(*u.shape[:-1], 1)
        chances = u.gather(-1, places)
        slopes = torch.where(chances >= tiny, -weight[..., None] / chances, 0.0)
        return torch.zeros_like(u).scatter_(-1, places, slopes)
    truth = _like(target, u)
    if head == "identity":
        return weight * (2 * (u - truth))
    towards, away, rest = weight * truth, weight * (1 - truth), 1 - u
    return torch.where(rest >= tiny, away / rest, 0.0) - torch.where(u >= tiny, towards / u, 0.0)


def is_right(u: Tensor, target: Tensor, head: Head) -> Tensor:
    """Whether each item is classified correctly."""
    return u.argmax(-1) == target if head == "softmax" else (u > 0.5) == (_like(target, u) > 0.5)


def _like(target: Tensor, u: Tensor) -> Tensor:
    return (target.reshape(u.shape) if target.numel() == u.numel() else target).to(u)


@dataclass(frozen=True, eq=False)
class ClassBalance:
    """A penalty on outputs whose mean over all nodes strays from given proportions: their Kullback-Leibler divergence.

    Diffusion on a symmetric graph keeps the mean, so that of the base network's outputs will do, and engines apply this
    penalty before the diffusion.

    Parameters
    ----------
    proportions
        Of the classes, (c,) or one row for each network.
    strength
        Weight of the penalty.
    """

    proportions: Tensor
    strength: float

    def __call__(self, u: Tensor) -> Tensor:
        mean = u.mean(dim=-2).clamp_min(torch.finfo(u.dtype).tiny)
        prior = self.proportions.to(u)
        return self.strength * (prior * (prior.log() - mean.log())).sum(-1)

    @classmethod
    def stacked(cls, penalties: Sequence[ClassBalance]) -> Self:
        """Those of several networks as one."""
        return cls(torch.stack([each.proportions for each in penalties]), penalties[0].strength)
