"""Diffusion around points whose value is known: a heat equation with boundary values on a graph."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from condiff.errors import InvalidInputError
from condiff.graph import laplacian


def diffuse_held(u: Tensor, graph: Any, held: Tensor, values: Tensor, *, layers: int, strength: float) -> Tensor:
    r"""Explicit layers that hold some points at given values, so that these become sources.

    With H the points that are held at :math:`g`,

    .. math:: u^{k+1}_i = u^k_i - \sigma^2 (L u^k)_i \text{ for } i \notin H, \qquad u^k_i = g_i \text{ for } i \in H.

    It is the discrete form of a Dirichlet problem: after many layers the others tend to the harmonic extension of
    :math:`g`. The step-size limits of the graph still hold, because the free part of L has no larger eigenvalue nor
    diagonal than L itself. Without points to hold these are the layers of :class:`Euler`.

    Parameters
    ----------
    u
        (n, c) values before the first layer; those of held points do not matter.
    graph
        A Laplacian, a Graph, or the matrix L as a tensor.
    held
        (m,) different indices of points.
    values
        (m, c) what they are held at.
    layers, strength
        Number of layers and strength of each.
    """
    if held.ndim != 1 or values.shape != (held.shape[0], *u.shape[1:]):
        raise InvalidInputError(
            f"values to hold must have one row of {u.shape[-1]} for each of the {held.numel()} points, "
            f"not the shape {tuple(values.shape)}"
        )
    if held.numel() and (int(held.min()) < 0 or int(held.max()) >= u.shape[0] or held.unique().numel() < held.numel()):
        raise InvalidInputError(f"points to hold must be different indices in 0 .. {u.shape[0] - 1}")
    if layers < 0:
        raise InvalidInputError(f"layers must be a whole number, 0 or more, not {layers}")
    operator = laplacian(graph, u.dtype, u.device)
    values = values.to(u)
    u = u.index_copy(0, held, values)
    for _ in range(layers):
        u = (u - strength * operator(u)).index_copy(0, held, values)
    return u


def one_hot(codes: Any, n_classes: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """One-hot rows, to hold labelled points at."""
    return torch.nn.functional.one_hot(torch.as_tensor(codes, dtype=torch.long), n_classes).to(dtype)
