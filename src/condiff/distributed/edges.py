"""Edges in blocks: a graph in memory, or an edge list on disk that need not fit there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from condiff.errors import InvalidFileError, InvalidInputError
from condiff.files import refusing
from condiff.graph import Graph

#: Edges in one block.
BLOCK = 1 << 21


class Block(NamedTuple):
    """Some entries of the weights: node ``rows[k]`` averages over ``columns[k]`` with ``weights[k]``."""

    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    weights: NDArray[np.float64]


class Edges(Protocol):
    """Where the entries of a weight matrix come from; entries of one place are added up."""

    @property
    def n_nodes(self) -> int: ...

    @property
    def symmetric(self) -> bool: ...

    def blocks(self) -> Iterator[Block]:
        """Every entry, the same blocks each time."""
        ...


@dataclass(frozen=True)
class GraphEdges:
    """The edges of a graph in memory."""

    graph: Graph

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return self.graph.n_nodes

    @property
    def symmetric(self) -> bool:
        """Whether every weight equals its mirror image."""
        return self.graph.is_symmetric

    def blocks(self) -> Iterator[Block]:
        """Runs of stored entries."""
        matrix = self.graph.weights
        for start in range(0, matrix.nnz, BLOCK):
            stop = min(start + BLOCK, matrix.nnz)
            rows = np.searchsorted(matrix.indptr, np.arange(start, stop), side="right") - 1
            yield Block(
                rows.astype(np.int64),
                matrix.indices[start:stop].astype(np.int64),
                matrix.data[start:stop].astype(float),
            )


@dataclass(frozen=True, eq=False)
class EdgeFile:
    """A memory-mapped edge list, read in blocks.

    Attributes
    ----------
    edges
        (2, m) or (m, 2) integers; an edge ``(source, target)`` lets the target average over the source.
    n_nodes
        Number of nodes.
    weights
        (m,) weights; ones by default.
    undirected
        Whether each edge is listed once and counts in both directions.
    """

    edges: NDArray[Any]
    n_nodes: int
    weights: NDArray[Any] | None = None
    undirected: bool = True

    def __post_init__(self) -> None:
        if self.edges.ndim != 2 or 2 not in self.edges.shape or self.edges.dtype.kind not in "iu":
            raise InvalidInputError(
                f"edges must be integers of the shape (2, m) or (m, 2), not {self.edges.dtype} {self.edges.shape}"
            )
        if self.weights is not None and self.weights.shape != (self.count,):
            raise InvalidInputError(f"there are {self.count} edges but the weights have the shape {self.weights.shape}")

    @classmethod
    def open(cls, path: Path, n_nodes: int, weights: Path | None = None, *, undirected: bool = True) -> EdgeFile:
        """The edge list of an NPY file."""
        return cls(open_array(path), n_nodes, None if weights is None else open_array(weights), undirected)

    @property
    def count(self) -> int:
        """How many edges are listed."""
        return int(self.edges.shape[1] if self.edges.shape[0] == 2 else self.edges.shape[0])

    @property
    def symmetric(self) -> bool:
        """Whether every weight equals its mirror image; an edge list with directions is taken as directed."""
        return self.undirected

    def blocks(self) -> Iterator[Block]:
        """Runs of listed edges; an undirected one appears once in each direction, a loop once."""
        columnwise = self.edges.shape[0] == 2
        for start in range(0, self.count, BLOCK):
            part = slice(start, min(start + BLOCK, self.count))
            pairs = self.edges[:, part] if columnwise else self.edges[part].T
            source, target = np.asarray(pairs[0], dtype=np.int64), np.asarray(pairs[1], dtype=np.int64)
            self._check(source, target, start)
            weights = np.ones(source.size) if self.weights is None else np.asarray(self.weights[part], dtype=np.float64)
            if not np.isfinite(weights).all() or weights.min(initial=0.0) < 0:
                raise InvalidInputError(
                    f"weights must be finite and not negative, but some of edges {part.start} to {part.stop} are not"
                )
            yield Block(target, source, weights)
            if self.undirected:
                between = source != target
                yield Block(source[between], target[between], weights[between])

    def _check(self, source: NDArray[np.int64], target: NDArray[np.int64], start: int) -> None:
        for ends in (source, target):
            wrong = np.flatnonzero((ends < 0) | (ends >= self.n_nodes))
            if wrong.size:
                raise InvalidInputError(
                    f"edge {start + wrong[0]} has an end at {ends[wrong[0]]}, but there are {self.n_nodes} nodes"
                )


def open_array(path: Path) -> NDArray[Any]:
    """Memory-map an NPY file; pickled ones are not read."""
    with refusing(path, "a readable NPY array", "write it again"):
        # Copy on write: torch takes only arrays that it may write to, and the file stays as it is.
        array: NDArray[Any] = np.load(path, mmap_mode="c", allow_pickle=False)
    if not isinstance(array, np.ndarray):
        raise InvalidFileError(f"{path} holds several arrays; give an .npy file")
    return array
