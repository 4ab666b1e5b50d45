"""A coarser graph: nodes are merged with those that they hang on most, and what joins them is added up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from condiff.graph.graph import Graph


@dataclass(frozen=True, eq=False)
class Coarse:
    """A graph of merged nodes.

    Attributes
    ----------
    graph
        Normalised: what two merged nodes share, over the root of what each holds. What joined nodes within one is its
        loop, so that heat stays longer where many were merged.
    members
        Who was merged into whom, (nodes, merged nodes), entries one; a node that no seed reaches has an empty row.
    """

    graph: Graph
    members: sp.csr_array

    @classmethod
    def around(cls, graph: Graph, seeds: NDArray[np.int64]) -> Coarse:
        """Merge every node of a symmetric graph with one of the seeds, which stay apart and come in their order."""
        of = nearest_seeds(graph.weights, seeds)
        reached = np.flatnonzero(of >= 0)
        starts = np.concatenate([[0], np.cumsum(of >= 0)])
        shape = (graph.n_nodes, len(seeds))
        members = sp.csr_array((np.ones(len(reached), graph.weights.dtype), of[reached], starts), shape=shape)
        weights = members.T @ (graph.weights @ members)
        return cls(Graph.of(weights).symmetrised().normalised(), members)

    def means(self, rows: Any) -> Any:
        """The mean row of every merged node, dense or CSR as the rows are, and in their precision."""
        sums, sizes = self.members.T @ rows, self.members.sum(axis=0)
        if sp.issparse(rows):
            return sp.csr_array(sp.diags_array(1.0 / sizes) @ sums).astype(rows.dtype)
        return np.asarray(sums / sizes[:, None], rows.dtype)


def nearest_seeds(weights: sp.csr_array, seeds: NDArray[np.int64]) -> NDArray[np.int64]:
    """The seed that every node hangs on, -1 where none is within reach.

    In waves: a node joins the seed of that neighbour, among those which have joined one, that its largest weight is to.
    """
    of = np.full(weights.shape[0], -1)
    of[seeds] = np.arange(len(seeds))
    waiting = np.flatnonzero((of < 0) & (np.diff(weights.indptr) > 0))
    while len(waiting):
        rows = weights[waiting]
        known = of[rows.indices]
        pull = np.where(known >= 0, rows.data, 0.0)
        largest = np.maximum.reduceat(pull, rows.indptr[:-1])
        row = np.repeat(np.arange(len(waiting)), np.diff(rows.indptr))
        strongest = (pull == largest[row]) & (known >= 0)
        if not strongest.any():
            break
        of[waiting[row[strongest]]] = known[strongest]
        waiting = waiting[of[waiting] < 0]
    return of
