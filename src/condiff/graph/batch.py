"""Kernel graphs of many small clouds of points at once: the tasks of few-shot learning."""

from __future__ import annotations

import torch
from torch import Tensor

from condiff.errors import InvalidInputError
from condiff.graph.laplacian import DenseLaplacian

# Clouds whose points, in double precision, stay in the caches together.
_AT_ONCE = 8


@torch.no_grad()
def kernel_laplacians(points: Tensor, n_neighbors: int = 8, bandwidth_rank: int = 4) -> DenseLaplacian:
    """The Laplacian of :func:`condiff.graph.kernel_graph` for each cloud, (clouds, n, n), in the points' precision.

    Parameters
    ----------
    points
        (clouds, n, d): every cloud has the same number of points.
    n_neighbors, bandwidth_rank
        As in :func:`condiff.graph.kernel_graph`.
    """
    if points.ndim != 3:
        raise InvalidInputError(f"points must have the shape (clouds, n, d), not {tuple(points.shape)}")
    n = points.shape[1]
    if not 2 <= bandwidth_rank <= n_neighbors <= n:
        raise InvalidInputError(
            f"it takes 2 <= bandwidth_rank <= n_neighbors <= {n} points, not {bandwidth_rank} and {n_neighbors}"
        )
    parts = [_weights(part, n_neighbors, bandwidth_rank) for part in points.split(_AT_ONCE)]
    return DenseLaplacian(torch.cat(parts), symmetric=True)


def _weights(points: Tensor, n_neighbors: int, bandwidth_rank: int) -> Tensor:
    squares = _squared_distances(points.double())
    nearest = squares.topk(n_neighbors, dim=-1, largest=False).values
    kept = squares < nearest[..., -1:]
    # As in the graph of one cloud: rows of duplicates alone keep them, and a bandwidth of zero takes the next distance.
    kept |= ~kept.any(-1, keepdim=True) & (squares <= nearest[..., -1:])
    positive = torch.where(nearest > 0, nearest, torch.inf).amin(-1, keepdim=True)
    bandwidth = nearest[..., bandwidth_rank - 1 : bandwidth_rank]
    bandwidth = torch.where(bandwidth > 0, bandwidth, torch.where(positive < torch.inf, positive, 1.0))
    weights = torch.where(kept, torch.exp(-squares / bandwidth), 0.0)
    scale = weights.sum(-1).rsqrt()
    weights = scale[..., :, None] * weights * scale[..., None, :]
    return ((weights + weights.mT) / 2).to(points.dtype)


def _squared_distances(points: Tensor) -> Tensor:
    """By one product a cloud, after centring, in double precision: far below what tells neighbours apart."""
    centred = points - points.mean(1, keepdim=True)
    norms = (centred * centred).sum(-1)
    squares = norms[..., :, None] + norms[..., None, :] - 2 * centred @ centred.mT
    # What rounding leaves between equal points must not pass for a distance.
    floor = 1e-14 * norms.amax(-1)[:, None, None]
    squares = torch.where(squares > floor, squares, 0.0)
    squares.diagonal(dim1=-2, dim2=-1).zero_()
    return squares
