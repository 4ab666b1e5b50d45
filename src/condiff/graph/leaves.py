"""Graphs of shared leaves: points are alike where trees cannot tell them apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from condiff import kernels
from condiff.graph.graph import Graph


@dataclass(frozen=True, eq=False)
class LeafGraph:
    r"""Each point joined to those with which it shares most leaves.

    The likeness of two points is :math:`\frac1T \sum_t [\ell_t(i) = \ell_t(j)] / |\ell_t(i)|`: what one point counts
    in the mean over the other's leaf, averaged over the trees. A point keeps its ``n_neighbors`` most alike.

    Attributes
    ----------
    graph
        Symmetric and normalised, :math:`D^{-1/2} W D^{-1/2}`.
    leaves
        (points, trees): the leaf of every point in every tree.
    degree
        Of the points before the normalisation.
    n_neighbors
        How many a point keeps.
    """

    graph: Graph
    leaves: NDArray[np.int64]
    degree: NDArray[np.float64]
    n_neighbors: int

    @classmethod
    def build(cls, leaves: NDArray[Any], n_neighbors: int) -> LeafGraph:
        """Join points by their leaves, (points, trees); a number means a leaf of its own in every tree."""
        leaves = np.asarray(leaves, np.int64)
        joined = Graph.of(_most_alike(leaves, leaves, n_neighbors, same=True)).symmetrised()
        degree = np.where(joined.degree > 0, joined.degree, 1.0)
        return cls(joined.normalised("symmetric"), leaves, degree, n_neighbors)

    def rows_of(self, leaves: NDArray[Any]) -> sp.csr_array:
        """Normalised weights of new points towards those of the graph, (new points, points)."""
        weights = _most_alike(np.asarray(leaves, np.int64), self.leaves, self.n_neighbors, same=False)
        own = np.asarray(weights.sum(axis=1)).ravel()
        own = np.where(own > 0, own, 1.0)
        return sp.csr_array(sp.diags_array(own**-0.5) @ weights @ sp.diags_array(self.degree**-0.5))


def _most_alike(rows: NDArray[np.int64], points: NDArray[np.int64], n_neighbors: int, *, same: bool) -> sp.csr_array:
    """For each row its likeness to the points that are most alike; with ``same``, rows are the points themselves.

    Ties go to the smaller index.
    """
    starts, members, numbers = _by_leaf(rows, points)
    found = np.full((len(rows), n_neighbors), -1, np.int64)
    likeness = np.zeros((len(rows), n_neighbors))
    own = np.arange(len(rows)) if same else np.full(len(rows), -1)
    if kernels.available():
        from condiff.kernels.trees import most_alike

        most_alike(numbers, starts, members, own, np.zeros(len(points)), found, likeness)
    else:
        sizes = np.diff(starts)
        for row, leaves in enumerate(numbers):
            leaves = leaves[leaves >= 0]
            parts = [members[starts[leaf] : starts[leaf + 1]] for leaf in leaves]
            if not parts:
                continue
            near, where = np.unique(np.concatenate(parts), return_inverse=True)
            score = np.bincount(where, np.repeat(1.0 / sizes[leaves], sizes[leaves]))
            near, score = near[near != own[row]], score[near != own[row]]
            order = np.lexsort((near, -score))[:n_neighbors]
            found[row, : len(order)], likeness[row, : len(order)] = near[order], score[order]
    kept = found >= 0
    indptr = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
    return sp.csr_array((likeness[kept] / rows.shape[1], found[kept], indptr), shape=(len(rows), len(points)))


def _by_leaf(
    rows: NDArray[np.int64], points: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The points of every leaf of all trees, one leaf after another, and the number of every row's leaves.

    A leaf without a point has the number -1.
    """
    starts, members, numbers = [0], [], np.empty_like(rows)
    for tree in range(points.shape[1]):
        known, leaf = np.unique(points[:, tree], return_inverse=True)
        at = np.minimum(np.searchsorted(known, rows[:, tree]), len(known) - 1)
        numbers[:, tree] = np.where(known[at] == rows[:, tree], at + len(starts) - 1, -1)
        members.append(np.argsort(leaf, kind="stable"))
        starts += (starts[-1] + np.cumsum(np.bincount(leaf))).tolist()
    return np.array(starts), np.concatenate(members), numbers
