"""Self-tuned Gaussian weights of points, truncated to the nearest neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from condiff.errors import InvalidInputError
from condiff.graph.graph import Graph
from condiff.graph.neighbours import Metric, Neighbours, Search, nearest


def kernel_graph(
    points: Any,
    n_neighbors: int = 8,
    bandwidth_rank: int = 4,
    *,
    metric: Metric = "euclidean",
    search: Search = "auto",
) -> Graph:
    r"""Join every point to its nearest ones, as the paper does for points without a graph of their own.

    With :math:`d_{ij}` the Euclidean distance, a point counting as its own first neighbour and :math:`d_{i(k)}` the
    k-th smallest distance of row i,

    .. math:: w_{ij} = \exp(-d_{ij}^2 / d_{i(\sigma)}^2) \text{ where } d_{ij} < d_{i(n_{top})}, \text{ else } 0,

    normalised as :math:`D^{-1/2} W D^{-1/2}` and then made symmetric as :math:`(W + W^T) / 2`.

    Parameters
    ----------
    points
        Dense (n, d) array or SciPy sparse matrix.
    n_neighbors
        The rank :math:`n_{top}` at which a row is cut, at most n.
    bandwidth_rank
        The rank :math:`\sigma` whose distance is the bandwidth of the row, from 2 to ``n_neighbors``.
    metric, search
        As in :func:`condiff.graph.nearest`.
    """
    if not 2 <= bandwidth_rank <= n_neighbors:
        raise InvalidInputError(
            f"bandwidth_rank must be from 2 to n_neighbors = {n_neighbors}, because rank 1 is the point itself; "
            f"it is {bandwidth_rank}"
        )
    found = nearest(points, n_neighbors, metric=metric, search=search)
    rows = kernel_rows(found, bandwidth_rank, n_points=found.indices.shape[0])
    return Graph.of(rows).normalised("symmetric").symmetrised()


def kernel_rows(found: Neighbours, bandwidth_rank: int, n_points: int) -> sp.csr_array:
    """The truncated Gaussian weights of each query towards the points, one row a query, not normalised."""
    distances = found.distances
    bandwidth = _bandwidth(distances, bandwidth_rank)
    kept = distances < distances[:, -1:]
    # A row whose neighbours are all equally far, such as duplicates only, would lose every one of them.
    kept |= ~kept.any(axis=1, keepdims=True)
    values = np.exp(-((distances / bandwidth[:, None]) ** 2))
    rows = np.broadcast_to(np.arange(len(distances))[:, None], distances.shape)
    return sp.csr_array((values[kept], (rows[kept], found.indices[kept])), shape=(len(distances), n_points))


def _bandwidth(distances: NDArray[np.float64], rank: int) -> NDArray[np.float64]:
    """The distance of the given rank; where duplicates make it zero, the row's next positive one."""
    bandwidth = distances[:, min(rank, distances.shape[1]) - 1].copy()
    for row in np.flatnonzero(bandwidth == 0):
        positive = distances[row][distances[row] > 0]
        bandwidth[row] = positive[0] if positive.size else 1.0
    return bandwidth
