"""Approximate nearest neighbours of millions of points through faiss, with a measured recall.

Points are read in blocks and held once, in single precision; a memory-mapped file is never copied whole. How many cells
of the index a query visits is raised until a sample of points finds the asked-for share of its true neighbours, and
the share is then measured on another sample.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Share of the true neighbours that is to be found.
RECALL = 0.95
# Points on which the search is tuned, and as many others on which it is measured.
_SAMPLE = 500
# Rows that are read, added or queried at a time.
_ROWS = 16_384
# Points per cell that the centres are learnt from, and rounds of learning: more of either cost more than they save.
_A_CELL, _ROUNDS = 40, 4
# Up to this many queries, and pairs of them and points, comparing all pairs is faster than making an index.
_FEW, _FEW_PAIRS = 16_384, 1 << 32
# Cells: so many for the root of the points, but no more than the second number as long as that leaves the third for it.
_CELLS, _MOST_CELLS, _FEWEST_CELLS = 8, 2_116, 2


class CellIndex:
    """Points in cells around learnt centres, of which a query visits the nearest few; the same answer every time.

    Parameters
    ----------
    points
        (n, d) array, in memory or mapped.
    k
        How many neighbours will be asked for.
    recall
        Share of the true neighbours that queries like the points are to find.
    """

    def __init__(self, points: NDArray[Any], k: int, recall: float = RECALL) -> None:
        # Its type hints are generated and do not describe what its calls take.
        faiss: Any = importlib.import_module("faiss")
        self._faiss, self.points, self.k = faiss, points, k
        n, d = points.shape
        self._rng = np.random.default_rng(0)
        root = np.sqrt(n)
        cells = int(np.clip(max(min(_CELLS * root, _MOST_CELLS), _FEWEST_CELLS * root), 1, n // 39 or 1))
        sample = points[self._some(min(n, max(_A_CELL * cells, 256)))]
        # Single precision has no digits to spare for a common offset.
        self._centre = sample.mean(axis=0, dtype=np.float64)
        # The index must not outlive the object that finds its cells.
        self._coarse = faiss.IndexFlatL2(d)
        self._index = faiss.IndexIVFFlat(self._coarse, d, cells)
        self._index.cp.niter, self._index.cp.max_points_per_centroid = _ROUNDS, _A_CELL
        self._index.train(self._single(sample))
        for start, stop in _blocks(n):
            self._index.add(self._single(points[start:stop]))
        self._tune(recall)
        self.recall = self._found(self._some(min(n, _SAMPLE)))

    def search(self, queries: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Indices and squared distances of the neighbours found for a block of queries."""
        rows = self._single(queries)
        squares, found = self._index.search(rows, self.k)
        if (found < 0).any():  # the cells that were visited hold too few: visit all
            lacking = np.flatnonzero((found < 0).any(axis=1))
            parameters = self._faiss.SearchParametersIVF(nprobe=self._index.nlist)
            squares[lacking], found[lacking] = self._index.search(rows[lacking], self.k, params=parameters)
        return found, squares

    def cell_order(self) -> NDArray[np.int64]:
        """The points cell by cell: asked in this order, queries find in the cache what the last one has read."""
        lists = self._index.invlists
        found = [
            self._faiss.rev_swig_ptr(lists.get_ids(cell), lists.list_size(cell)).copy()
            for cell in range(self._index.nlist)
            if lists.list_size(cell)
        ]
        return np.concatenate(found)

    def _tune(self, recall: float) -> None:
        sample = self._some(min(len(self.points), _SAMPLE))
        truth = self._truth(sample)
        self._index.nprobe = 1
        while self._index.nprobe < self._index.nlist and self._found(sample, truth) < recall:
            self._index.nprobe = min(self._index.nlist, self._index.nprobe + 1 + self._index.nprobe // 3)

    def _found(self, sample: NDArray[np.int64], truth: NDArray[np.int64] | None = None) -> float:
        """The share of the true neighbours of some points that is found."""
        truth = self._truth(sample) if truth is None else truth
        found = self.search(self.points[sample])[0]
        return float(np.mean((found[:, :, None] == truth[:, None, :]).any(axis=1)))

    def _truth(self, sample: NDArray[np.int64]) -> NDArray[np.int64]:
        """The true neighbours of some points."""
        return exact_neighbours(self.points, self.points[sample], self.k, self._centre)[0]

    def _single(self, rows: NDArray[Any]) -> NDArray[np.float32]:
        return _single(rows, self._centre)

    def _some(self, number: int) -> NDArray[np.int64]:
        # In increasing order, as a file is read.
        return np.sort(self._rng.choice(len(self.points), number, replace=False))


def exact_neighbours(
    points: NDArray[Any], queries: NDArray[Any], k: int, centre: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Indices and squared distances of the true neighbours, from one block of the points after the other.

    ``centre`` is subtracted from both, because single precision has no digits to spare for a common offset.
    """
    faiss: Any = importlib.import_module("faiss")
    asked = _single(queries, centre)
    squares, found = np.empty((len(queries), 0), np.float32), np.empty((len(queries), 0), np.int64)
    for start, stop in _blocks(len(points)):
        near = faiss.knn(asked, _single(points[start:stop], centre), min(k, stop - start))
        squares, found = np.hstack([squares, near[0]]), np.hstack([found, near[1] + start])
        best = np.argsort(squares, axis=1, kind="stable")[:, :k]
        squares, found = np.take_along_axis(squares, best, axis=1), np.take_along_axis(found, best, axis=1)
    return found, squares


def _single(rows: NDArray[Any], centre: NDArray[np.float64]) -> NDArray[np.float32]:
    return np.ascontiguousarray(rows - centre.astype(rows.dtype, copy=False), dtype=np.float32)


def _blocks(rows: int) -> Iterator[tuple[int, int]]:
    for start in range(0, rows, _ROWS):
        yield start, min(start + _ROWS, rows)


def neighbours_in_cells(
    base: NDArray[Any], asked: NDArray[Any] | None, k: int, recall: float = RECALL
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32], float]]:
    """Candidates block by block: which queries, indices and squared distances, and the recall of the whole.

    Without ``asked`` the points themselves are asked, in an order of their own. Few queries get their true neighbours.
    """
    if asked is not None and len(asked) <= _FEW and len(asked) * len(base) <= _FEW_PAIRS:
        centre = base[:: -(-len(base) // _ROWS)].mean(axis=0, dtype=np.float64)
        yield np.arange(len(asked)), *exact_neighbours(base, asked, k, centre), 1.0
        return
    index = CellIndex(base, k, recall)
    order = index.cell_order() if asked is None else np.arange(len(asked))
    queries = base if asked is None else asked
    for start, stop in _blocks(len(order)):
        here = order[start:stop]
        found, squares = index.search(queries[here])
        yield here, found, squares, index.recall
