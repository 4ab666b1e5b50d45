"""Laplacians of many small graphs at once: the clouds of points of few-shot tasks, and graphs that change daily."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from condiff.errors import InvalidInputError
from condiff.graph.graph import Graph
from condiff.graph.laplacians import DenseLaplacian

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


def directed_laplacians(
    weights: Sequence[Any], dtype: torch.dtype = torch.float32, device: torch.device | str | None = None
) -> DenseLaplacian:
    r"""The Laplacians of graphs of the same nodes, directed or not, of shape (graphs, n, n).

    .. math:: L = \mathrm{diag}(\hat W 1) - \hat W, \qquad \hat W = D^{-1/2} W D^{-1/2}, \qquad D = \mathrm{diag}(W 1)

    with the diagonal of W set to zero. Row sums of the directed weights stand on both sides, so that L is not symmetric
    where W is not. A node without an edge of its own keeps its value and affects no other.

    Parameters
    ----------
    weights
        One graph each, anything that :meth:`Graph.of` accepts; row i lists what node i averages over.
    dtype, device
        Of the result, which is dense: for graphs of up to a few thousand nodes.
    """
    if not len(weights):
        raise InvalidInputError("there is no graph to make a Laplacian of")
    graphs = [Graph.of(each).normalised(self_loops="remove") for each in weights]
    sizes = sorted({graph.n_nodes for graph in graphs})
    if len(sizes) > 1:
        raise InvalidInputError(f"the graphs must have the same nodes, not {' and '.join(map(str, sizes))} of them")
    dense = torch.stack([torch.as_tensor(graph.weights.toarray(), dtype=dtype) for graph in graphs])
    return DenseLaplacian(dense.to(device))


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
    """By one product per cloud, after centring, in double precision: its error is far below any gap."""
    centred = points - points.mean(1, keepdim=True)
    norms = (centred * centred).sum(-1)
    squares = norms[..., :, None] + norms[..., None, :] - 2 * centred @ centred.mT
    # What rounding leaves between equal points must not pass for a distance.
    floor = 1e-14 * norms.amax(-1)[:, None, None]
    squares = torch.where(squares > floor, squares, 0.0)
    squares.diagonal(dim1=-2, dim2=-1).zero_()
    return squares
