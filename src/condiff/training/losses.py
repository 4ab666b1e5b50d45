"""Losses of an output that is already a probability (or a value): no activation is applied here."""

from __future__ import annotations

import torch
from torch import Tensor

from condiff.model import Head


def pointwise_loss(u: Tensor, target: Tensor, head: Head) -> Tensor:
    """The loss of every point.

    ``softmax``: ``-log u`` of the true class. ``sigmoid``: the binary cross-entropy of one column. ``identity``: the
    squared error, averaged over columns. Past the positivity limit ``u`` can leave [0, 1]; the logarithm is cut off
    at the smallest normal number, where its gradient vanishes.
    """
    if head == "identity":
        squares = (u - target.reshape(u.shape)) ** 2
        return squares.mean(dim=-1)
    tiny = torch.finfo(u.dtype).tiny
    if head == "softmax":
        return -u.gather(-1, target.long()[..., None])[..., 0].clamp_min(tiny).log()
    truth = target.reshape(u.shape).to(u)
    losses = -(truth * u.clamp_min(tiny).log() + (1 - truth) * (1 - u).clamp_min(tiny).log())
    return losses.mean(dim=-1)


def score(u: Tensor, target: Tensor, head: Head) -> float:
    """Higher is better: accuracy of a classifier, minus the mean squared error of a regressor."""
    if head == "softmax":
        return float((u.argmax(-1) == target).double().mean())
    if head == "sigmoid":
        return float(((u > 0.5) == (target.reshape(u.shape) > 0.5)).double().mean())
    return -float(pointwise_loss(u, target, head).mean())
