"""Self-tuned Gaussian weights of points, truncated to the nearest neighbours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from condiff.errors import InvalidInputError
from condiff.graph.graph import Graph
from condiff.graph.neighbours import Metric, Neighbours, Search, nearest

Tuning = Literal["row", "pair"]

# Rows that are weighed at a time.
_ROWS = 65_536


def kernel_graph(
    points: Any,
    n_neighbors: int = 8,
    bandwidth_rank: int = 4,
    *,
    tuning: Tuning = "row",
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
    tuning
        ``row`` as above; ``pair`` divides by the product :math:`d_{i(\sigma)} d_{j(\sigma)}` of both bandwidths, which
        is symmetric by itself, and normalises after the symmetrisation.
    metric, search
        As in :func:`condiff.graph.nearest`.
    """
    return PointGraph.build(points, n_neighbors, bandwidth_rank, tuning=tuning, metric=metric, search=search).graph


def distance_graph(distances: Any, n_neighbors: int = 8, bandwidth_rank: int = 4, *, among: Any = None) -> Graph:
    """The :func:`kernel_graph` of points that are known by their distances alone.

    Parameters
    ----------
    distances
        (n, n) array, zero on the diagonal.
    n_neighbors, bandwidth_rank
        As in :func:`kernel_graph`.
    among
        Indices of the points to join; the others are left out of everything and stay without edges. All by default.
    """
    matrix = np.asarray(distances, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise InvalidInputError(f"distances must form a square matrix, not an array of shape {matrix.shape}")
    if not (np.isfinite(matrix).all() and (matrix >= 0).all() and not matrix.diagonal().any()):
        raise InvalidInputError("distances must be finite and not negative, and zero on the diagonal")
    _check_rank(bandwidth_rank, n_neighbors)
    joined = np.arange(len(matrix)) if among is None else _distinct(among, len(matrix))
    found = _ranked(matrix[np.ix_(joined, joined)], n_neighbors)
    weights = gaussian_weights(found, bandwidths(found.distances, bandwidth_rank), None, joined.size)
    edges = Graph.of(weights).normalised("symmetric").symmetrised().weights.tocoo()
    return Graph.of(sp.csr_array((edges.data, (joined[edges.row], joined[edges.col])), shape=matrix.shape))


@dataclass(frozen=True, eq=False)
class PointGraph:
    """A kernel graph that can be extended to new points.

    Attributes
    ----------
    graph
        The normalised, symmetric weights.
    bandwidth, degree
        Bandwidth and row sum of every point before the normalisation.
    n_neighbors, bandwidth_rank, tuning, metric
        What it was built with.
    recall
        Share of the true neighbours that was found, measured on a sample; 1 for an exact search.
    """

    graph: Graph
    bandwidth: NDArray[np.float64]
    degree: NDArray[np.float64]
    n_neighbors: int
    bandwidth_rank: int
    tuning: Tuning
    metric: Metric
    recall: float = 1.0

    @classmethod
    def build(
        cls,
        points: Any,
        n_neighbors: int,
        bandwidth_rank: int,
        *,
        tuning: Tuning = "row",
        metric: Metric = "euclidean",
        search: Search = "auto",
    ) -> PointGraph:
        """Find the neighbours and weigh them; see :func:`kernel_graph`."""
        _check_rank(bandwidth_rank, n_neighbors)
        if tuning not in ("row", "pair"):
            raise InvalidInputError(f"tuning must be 'row' or 'pair', not {tuning!r}")
        found = nearest(points, n_neighbors, metric=metric, search=search)
        bandwidth = bandwidths(found.distances, bandwidth_rank)
        rows = Graph.of(gaussian_weights(found, bandwidth, bandwidth if tuning == "pair" else None, len(bandwidth)))
        if tuning == "pair":
            rows = rows.symmetrised()
            graph = rows.normalised("symmetric")
        else:
            graph = rows.normalised("symmetric").symmetrised()
        return cls(graph, bandwidth, rows.degree, n_neighbors, bandwidth_rank, tuning, metric, found.recall)

    def rows_of(self, points: Any, queries: Any) -> sp.csr_array:
        """Normalised weights of new points towards ``points``, those of the graph: one row for each query.

        A query is its own first neighbour here too, so it has one neighbour less among the points. Queries neither
        see nor change each other, nor the graph.
        """
        n = self.graph.n_nodes
        found = nearest(points, min(self.n_neighbors - 1, n) or 1, queries=queries, metric=self.metric)
        bandwidth = bandwidths(found.distances, self.bandwidth_rank - 1)
        weights = gaussian_weights(found, bandwidth, self.bandwidth if self.tuning == "pair" else None, n)
        degree = np.asarray(weights.sum(axis=1)).ravel() + 1.0
        return sp.csr_array(sp.diags_array(degree**-0.5) @ weights @ sp.diags_array(self.degree**-0.5))


def _check_rank(bandwidth_rank: int, n_neighbors: int) -> None:
    if not 2 <= bandwidth_rank <= n_neighbors:
        raise InvalidInputError(
            f"bandwidth_rank must be from 2 to n_neighbors = {n_neighbors}, because rank 1 is the point itself; "
            f"it is {bandwidth_rank}"
        )


def _distinct(points: Any, n_points: int) -> NDArray[np.int64]:
    indices = np.asarray(points)
    whole = indices.ndim == 1 and indices.dtype.kind in "iu"
    if not whole or np.unique(indices).size < indices.size or not ((indices >= 0) & (indices < n_points)).all():
        raise InvalidInputError(f"the points to join must be different indices in 0 .. {n_points - 1}")
    return indices.astype(np.int64)


def _ranked(distances: NDArray[np.float64], k: int) -> Neighbours:
    n = len(distances)
    if not 1 <= k <= n:
        raise InvalidInputError(f"asked for {k} neighbours among {n} points; choose 1 to {n}")
    # A point comes first in its own row, before its duplicates; other ties go to the smaller index.
    order = np.argsort(distances - np.eye(n), axis=1, kind="stable")[:, :k]
    return Neighbours(order, np.take_along_axis(distances, order, axis=1))


def gaussian_weights(
    found: Neighbours, bandwidth: NDArray[np.float64], other: NDArray[np.float64] | None, n_points: int
) -> sp.csr_array:
    """The weights of each row, in the precision of the distances; nothing larger than these is made on the way."""
    distances = found.distances
    kept = distances < distances[:, -1:]
    # A row whose neighbours are all equally far, such as duplicates only, would lose every one of them.
    kept |= ~kept.any(axis=1, keepdims=True)
    starts = np.zeros(len(distances) + 1, dtype=found.indices.dtype)
    np.cumsum(kept.sum(axis=1), out=starts[1:])
    columns, values = found.indices[kept], np.empty(int(starts[-1]), dtype=distances.dtype)
    for first in range(0, len(distances), _ROWS):
        here = slice(first, first + _ROWS)
        scale = bandwidth[here, None] * (bandwidth[here, None] if other is None else other[found.indices[here]])
        weights = np.exp(-(distances[here].astype(np.float64) ** 2) / scale)
        values[starts[first] : starts[min(first + _ROWS, len(distances))]] = weights[kept[here]]
    return sp.csr_array((values, columns, starts), shape=(len(distances), n_points))


def bandwidths(distances: NDArray[Any], rank: int) -> NDArray[np.float64]:
    """The distance of the given rank; where duplicates make it zero, the row's next positive one."""
    bandwidth = distances[:, min(max(rank, 1), distances.shape[1]) - 1].astype(np.float64)
    for row in np.flatnonzero(bandwidth == 0):
        positive = distances[row][distances[row] > 0]
        bandwidth[row] = positive[0] if positive.size else 1.0
    return bandwidth
