r"""Transforms of a task's features before a method sees them; points are the last dimension but one.

Every function takes tensors of shape (..., points, features), so that a batch of tasks is one call.
"""

from __future__ import annotations

import torch
from torch import Tensor

from condiff.errors import InvalidInputError


def normalised(x: Tensor) -> Tensor:
    r""":math:`x / \|x\|_2` of every point; one at the origin stays there."""
    return torch.nn.functional.normalize(x, dim=-1, eps=torch.finfo(x.dtype).tiny)


def centred(x: Tensor, base_mean: Tensor) -> Tensor:
    r""":math:`(x - \bar x) / \|x - \bar x\|_2`, where :math:`\bar x` is the mean over the base classes.

    The centring and normalisation of SimpleShot (Wang et al. 2019), LaplacianShot and the paper.
    """
    return normalised(x - base_mean)


def shifted(support: Tensor, query: Tensor) -> Tensor:
    r"""The queries moved by :math:`\Delta = \operatorname{mean}(X_s) - \operatorname{mean}(X_q)`: cross-domain shift.

    Support and queries have the same mean afterwards (BD-CSPN, Liu et al. 2020).
    """
    return query + support.mean(-2, keepdim=True) - query.mean(-2, keepdim=True)


def powered(x: Tensor, exponent: float = 0.5, offset: float = 1e-6) -> Tensor:
    r""":math:`v / \|v\|_2` with :math:`v = (x + \epsilon)^\beta`, or the logarithm where :math:`\beta = 0`.

    The power transform of PT+NCM and PT-MAP (Hu, Gripon and Pateux 2021), which makes features more like a Gaussian's.

    Parameters
    ----------
    x
        Features that are not negative, as behind a ReLU.
    exponent, offset
        The formula's beta and epsilon.
    """
    lowest = float(x.min())
    if lowest < 0:
        raise InvalidInputError(
            f"the power transform is for features that are not negative, as behind a ReLU, but these reach down to "
            f"{lowest:.3g}: use a method without it"
        )
    moved = x + offset
    return normalised(moved.log() if exponent == 0 else moved**exponent)


def separately_centred(support: Tensor, query: Tensor) -> tuple[Tensor, Tensor]:
    r"""Support and queries, each less its own mean, then :math:`x / \|x\|_2`: what PT-MAP does after the power."""
    return tuple(normalised(part - part.mean(-2, keepdim=True)) for part in (support, query))  # type: ignore[return-value]
