"""Which rank holds which node: parts of equal size with few edges between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import breadth_first_order

from condiff.errors import InvalidInputError, MissingDependencyError
from condiff.graph import Graph

Method = Literal["auto", "metis", "bfs", "blocks"]


@dataclass(frozen=True, eq=False)
class Partition:
    """The part of every node.

    Attributes
    ----------
    assignment
        (n,) the part of each node, from 0.
    parts
        How many there are; each holds at least one node.
    method
        What made it: ``metis``, ``bfs``, ``blocks`` or ``given``.
    """

    assignment: NDArray[np.int32]
    parts: int
    method: str = "given"

    def __post_init__(self) -> None:
        assignment = np.asarray(self.assignment)
        if assignment.ndim != 1 or assignment.dtype.kind not in "iu":
            raise InvalidInputError(
                f"an assignment has one whole number for each node, not {assignment.dtype} {assignment.shape}"
            )
        if assignment.size and (assignment.min() < 0 or assignment.max() >= self.parts):
            raise InvalidInputError(
                f"an assignment to {self.parts} parts has numbers from 0 to {self.parts - 1}, not from "
                f"{assignment.min()} to {assignment.max()}"
            )
        object.__setattr__(self, "assignment", assignment.astype(np.int32, copy=False))
        empty = np.flatnonzero(self.sizes == 0)
        if empty.size:
            raise InvalidInputError(f"part {empty[0]} of {self.parts} holds no node: use fewer parts")

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Nodes of each part."""
        return np.bincount(self.assignment, minlength=self.parts)

    def edge_cut(self, graph: Graph) -> int:
        """How many edges join different parts; an undirected one counts once."""
        entries = graph.weights.tocoo()
        rows, columns = entries.coords
        cut = int(np.count_nonzero(self.assignment[rows] != self.assignment[columns]))
        return cut // 2 if graph.is_symmetric else cut


def partition(graph: Graph, parts: int, method: Method = "auto") -> Partition:
    """Split the nodes of a graph into parts of nearly equal size.

    Parameters
    ----------
    graph
        The graph; directions and weights do not count.
    parts
        Number of parts, one for each rank.
    method
        ``metis`` (multilevel, the fewest edges cut; needs the package pymetis), ``bfs`` (bisection by the order of a
        breadth-first walk, again and again), ``blocks`` (runs of consecutive nodes), or ``auto``: METIS where it is
        installed, else the walk.
    """
    if method not in ("auto", "metis", "bfs", "blocks"):
        raise InvalidInputError(f"method must be 'auto', 'metis', 'bfs' or 'blocks', not {method!r}")
    _check_parts(graph.n_nodes, parts)
    if method == "blocks" or parts == 1:
        return blocks(graph.n_nodes, parts)
    pattern = _pattern(graph)
    if method == "bfs" or (method == "auto" and not _has_metis()):
        assignment = np.zeros(graph.n_nodes, dtype=np.int32)
        _bisect(pattern, np.arange(graph.n_nodes), 0, parts, assignment)
        return Partition(assignment, parts, "bfs")
    return _metis(pattern, parts)


def blocks(n_nodes: int, parts: int) -> Partition:
    """Runs of consecutive nodes, for graphs too large for a partitioner: as good as the order of the nodes is."""
    _check_parts(n_nodes, parts)
    sizes = np.full(parts, n_nodes // parts)
    sizes[: n_nodes % parts] += 1
    return Partition(np.repeat(np.arange(parts, dtype=np.int32), sizes), parts, "blocks")


def _check_parts(n_nodes: int, parts: int) -> None:
    if not 1 <= parts <= n_nodes:
        raise InvalidInputError(f"parts must be from 1 to the number of nodes, {n_nodes}, not {parts}")


def _pattern(graph: Graph) -> sp.csr_array:
    """Both directions of every edge once, without loops."""
    weights = graph.weights
    both = sp.csr_array(weights if graph.is_symmetric else weights + weights.T).tocoo()
    rows, columns = both.coords
    between = rows != columns
    ones = np.ones(int(between.sum()), dtype=np.int8)
    return sp.csr_array((ones, (rows[between], columns[between])), shape=weights.shape)


def _has_metis() -> bool:
    try:
        import pymetis  # noqa: F401
    except ImportError:
        return False
    return True


def _metis(pattern: sp.csr_array, parts: int) -> Partition:
    try:
        import pymetis
    except ImportError as error:
        raise MissingDependencyError(
            "the METIS partitioner needs pymetis: pip install 'condiff[cluster]', or take method='bfs'"
        ) from error
    adjacency = pymetis.CSRAdjacency(adj_starts=pattern.indptr, adjacent=pattern.indices)
    _, membership = pymetis.part_graph(parts, adjacency, options=pymetis.Options(seed=0))
    assignment = np.asarray(membership, dtype=np.int32)
    if np.unique(assignment).size < parts:  # METIS may leave parts of tiny graphs empty
        return Partition(blocks(pattern.shape[0], parts).assignment, parts, "blocks")
    return Partition(assignment, parts, "metis")


def _bisect(
    pattern: sp.csr_array, nodes: NDArray[np.int64], first: int, parts: int, assignment: NDArray[np.int32]
) -> None:
    """Number the parts of these nodes from ``first``: the half that a walk reaches first, then the other one."""
    if parts == 1:
        assignment[nodes] = first
        return
    left_parts = parts // 2
    order = nodes[_walk(sp.csr_array(pattern[nodes][:, nodes]))]
    cut = round(nodes.size * left_parts / parts)
    _bisect(pattern, order[:cut], first, left_parts, assignment)
    _bisect(pattern, order[cut:], first + left_parts, parts - left_parts, assignment)


def _walk(pattern: sp.csr_array) -> NDArray[np.int64]:
    """Every node in breadth-first order, component after component, each from a node at its far end."""
    seen = np.zeros(pattern.shape[0], dtype=bool)
    orders = []
    for start in range(pattern.shape[0]):
        if seen[start]:
            continue
        far = breadth_first_order(pattern, start, directed=True, return_predecessors=False)[-1]
        order = breadth_first_order(pattern, int(far), directed=True, return_predecessors=False)
        seen[order] = True
        orders.append(order)
    return np.concatenate(orders)
