"""A graph of nearest neighbours in blocks: cells of a trained index, their rows, neighbours, weights, and layers.

Cells are those of a faiss inverted file, in an order in which near ones follow each other; a block is a run of them, so
that most edges stay inside. Equal rows share a cell, and are one node, as on one machine. What a block needs of others
(rows of the cells that its points visit, bandwidths, degrees, and in every layer rows of ``u``) it reads from their
files, and only these rows.
"""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from condiff.distributed.crew import Work
from condiff.graph.neighbours import Neighbours
from condiff.graph.weights import bandwidths, gaussian_weights

Ids = NDArray[np.int64]
#: The number of each block's first node, and one more; the first cell of each block, and one past its last.
Where = tuple[Sequence[int], Sequence[tuple[int, int]]]

_EDGE = np.dtype([("to", np.int64), ("from", np.int64), ("weight", np.float32)])
# Rows for each cell that centres are learned from, and rounds of learning.
_A_CELL, _ROUNDS = 40, 4
_MOST_CELLS = 262_144
# Rows whose true neighbours say how many cells to visit, and as many others on which the recall is measured.
_SAMPLE = 500
# Rows that are asked at a time, and the most cells that may be visited.
_ASKED, _MOST_VISITED = 16_384, 1024


def number_of_cells(n_rows: int) -> int:
    """How many cells the index has."""
    return int(np.clip(4 * np.sqrt(n_rows), 1, max(1, min(n_rows // 39, _MOST_CELLS))))


def rows_to_learn(n_rows: int) -> int:
    """How many rows the cells are learned from."""
    return min(n_rows, max(_A_CELL * number_of_cells(n_rows), 2 * _SAMPLE))


def learn_cells(work: Work, item: int, n_parts: int, n_cells: int, seed: int) -> int:
    """The centres of the cells, in an order in which near ones follow each other, and rows to measure the recall on."""
    faiss: Any = importlib.import_module("faiss")
    rows = np.concatenate([work.load(f"learnt/{part:06d}") for part in range(n_parts)])
    generator = np.random.default_rng([seed, 2])
    asked = rows[np.sort(generator.permutation(len(rows))[: 2 * _SAMPLE])]
    means = faiss.Kmeans(
        rows.shape[1], min(n_cells, len(rows)), niter=_ROUNDS, seed=seed + 1, min_points_per_centroid=1,
        max_points_per_centroid=_A_CELL,
    )  # fmt: skip
    means.train(rows)
    centres = np.asarray(means.centroids)
    sizes = np.bincount(means.assign(rows)[1], minlength=len(centres))
    order = np.array(list(_nearby(centres, sizes + 1.0)))
    work.save("centres", centres[order])
    work.save("asked", asked)
    return len(centres)


def _nearby(centres: NDArray[np.float32], sizes: NDArray[Any]) -> Iterator[int]:
    """The centres in order: halves of equal weight along the longest axis, then halves of these."""
    stack = [np.arange(len(centres))]
    while stack:
        these = stack.pop()
        if len(these) == 1:
            yield int(these[0])
            continue
        spread = np.ptp(centres[these], axis=0)
        these = these[np.argsort(centres[these, int(spread.argmax())], kind="stable")]
        weight = np.cumsum(sizes[these])
        cut = int(np.clip(np.searchsorted(weight, weight[-1] / 2), 1, len(these) - 1))
        stack += [these[cut:], these[:cut]]


def sort_by_cell(work: Work, item: int, labelled: bool) -> None:
    """Put the rows of a part in the order of their cells."""
    rows = work.load(f"encoded/{item:06d}")
    cells = np.concatenate(
        [_coarse(work).search(rows[start : start + _ASKED], 1)[1][:, 0] for start in range(0, len(rows), _ASKED)]
    )
    order = np.argsort(cells, kind="stable")
    work.save(f"sorted/{item:06d}", rows[order])
    work.save(f"places/{item:06d}", order)
    work.save(f"sizes/{item:06d}", np.bincount(cells, minlength=len(work.load("centres"))))
    if labelled:
        work.save(f"sorted_targets/{item:06d}", work.load(f"targets/{item:06d}")[order])


_known: dict[str, Any] = {}


def _coarse(work: Work) -> Any:
    """The index of the centres; one is kept for each process."""
    path = work.path("centres.npy")
    key = f"{path} {path.stat().st_mtime_ns}"
    if key not in _known:
        faiss: Any = importlib.import_module("faiss")
        centres = work.load("centres")
        _known.clear()
        _known[key] = faiss.IndexFlatL2(centres.shape[1])
        _known[key].add(centres)
    return _known[key]


def cut_into_blocks(sizes: Ids, block_rows: int) -> list[tuple[int, int]]:
    """Runs of cells, given how many rows each has, of at most so many rows; one cell at least."""
    blocks, first, rows = [], 0, 0
    for cell, size in enumerate(sizes.tolist()):
        if rows and rows + size > block_rows:
            blocks.append((first, cell))
            first, rows = cell, 0
        rows += size
    return [*blocks, (first, len(sizes))]


def collect(work: Work, item: int, cells: tuple[int, int], n_parts: int, folder: str, labelled: bool) -> int:
    """Bring the rows of a block's cells together, and make nodes of the different ones; returns their number.

    Rows are in the order of cells, and within one in that of the parts.
    """
    first, last = cells
    found: list[tuple[Any, ...]] = []
    for part in range(n_parts):
        sizes = work.load(f"sizes/{part:06d}")
        start, stop = int(sizes[:first].sum()), int(sizes[:last].sum())
        if stop > start:
            own = np.repeat(np.arange(first, last), sizes[first:last])
            targets = work.rows(f"sorted_targets/{part:06d}", start, stop) if labelled else np.empty(0)
            rows = work.rows(f"sorted/{part:06d}", start, stop)
            places = work.rows(f"places/{part:06d}", start, stop)
            found.append((rows, own, np.full(stop - start, part), places, targets))
    if not found:
        width = work.load("centres").shape[1]
        found = [(np.empty((0, width), np.float32), *(np.empty(0, np.int64),) * 3, np.empty(0))]
    rows, own, part_of, places, targets = (np.concatenate(each) for each in zip(*found, strict=True))
    order = np.argsort(own, kind="stable")
    rows, own, part_of, places = rows[order], own[order], part_of[order], places[order]
    _, at, node = np.unique(_bytes(rows), return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(at))  # nodes in the order of their first rows
    at, node = np.sort(at), rank[node.ravel()]
    work.save(f"{folder}/x/{item:06d}", rows[at])
    work.save(f"{folder}/cells/{item:06d}", np.searchsorted(own[at], np.arange(first, last + 1)))
    # The way back: rows by part, and where each part begins.
    back = np.lexsort((places, part_of))
    work.save(f"{folder}/origin/{item:06d}", np.stack([places, node], axis=1)[back])
    work.save(f"{folder}/bounds/{item:06d}", np.searchsorted(part_of[back], np.arange(n_parts + 1)))
    if labelled:
        work.save(f"{folder}/targets/{item:06d}", targets[order][back])
    return len(at)


def _bytes(rows: NDArray[np.float32]) -> NDArray[Any]:
    """Rows as single values that can be compared."""
    whole = np.ascontiguousarray(rows)
    return whole.view(np.dtype((np.void, whole.dtype.itemsize * whole.shape[1]))).ravel()


# ---- neighbours ---------------------------------------------------------------------------------------------------


def true_neighbours(work: Work, item: int, k: int, first_cell: int) -> None:
    """The neighbours that the sample has among the nodes of a block: distances, and ranks of the cells they lie in."""
    faiss: Any = importlib.import_module("faiss")
    rows, asked = work.load(f"nodes/x/{item:06d}"), work.load("asked")
    near = faiss.knn(asked, rows, min(k, len(rows))) if len(rows) else (np.empty((len(asked), 0), np.float32),) * 2
    cells = first_cell + np.searchsorted(work.load(f"nodes/cells/{item:06d}"), near[1], side="right") - 1
    work.save(f"truth/{item:06d}", np.stack([near[0], cells.astype(np.float32)]))


def cells_to_visit(work: Work, item: int, n_blocks: int, k: int, recall: float) -> dict[str, float]:
    """How many cells a query must visit to find the asked-for share of its neighbours, and what share it will find.

    All of them are found, without a doubt, where all cells are visited.
    """
    coarse = _coarse(work)
    if recall >= 1:
        return {"visited": coarse.ntotal, "recall": 1.0}
    found = [work.load(f"truth/{block:06d}") for block in range(n_blocks)]
    squares, cells = np.concatenate(found, axis=2)
    best = np.argsort(squares, axis=1, kind="stable")[:, :k]
    wanted = np.take_along_axis(cells, best, axis=1).astype(np.int64)
    visited = coarse.search(work.load("asked"), min(coarse.ntotal, _MOST_VISITED))[1]
    # A neighbour is found if its cell is among the nearest.
    rank = np.argmax(visited[:, None, :] == wanted[:, :, None], axis=2)
    rank[~(visited[:, None, :] == wanted[:, :, None]).any(axis=2)] = _MOST_VISITED
    tuned, measured = rank[::2], rank[1::2] if len(rank) > 1 else rank
    number = int(np.sort(tuned, axis=None)[int(np.ceil(recall * tuned.size)) - 1]) + 1
    number = min(number, visited.shape[1])
    return {"visited": number, "recall": float((measured < number).mean())}


class Nodes:
    """Where nodes lie: which block has a node or a cell, by their numbers among all."""

    def __init__(self, work: Work, where: Where) -> None:
        self.work, self.starts = work, np.asarray(where[0])
        self.first_cells = np.array([first for first, _ in where[1]])

    def pick(self, name: str, ids: Ids) -> NDArray[Any]:
        """Rows of an array that every block has, by the numbers of their nodes, which are sorted."""
        bounds = np.searchsorted(ids, self.starts)
        found = [
            self.work.pick(f"{name}/{block:06d}", ids[low:high] - self.starts[block])
            for block, (low, high) in enumerate(itertools.pairwise(bounds))
            if high > low
        ]
        return np.concatenate(found) if found else self.work.pick(f"{name}/000000", ids)

    def of_cells(self, cells: Ids) -> tuple[NDArray[np.float32], Ids, Ids]:
        """Rows, numbers and cells of all nodes in some cells, which are sorted."""
        rows, ids, own = [], [], []
        block_of = np.searchsorted(self.first_cells, cells, side="right") - 1
        for block in np.unique(block_of).tolist():
            here = cells[block_of == block]
            bounds = self.work.load(f"nodes/cells/{block:06d}")
            # Neighbouring cells are read together.
            for run in np.split(here, np.flatnonzero(np.diff(here) > 1) + 1):
                ends = bounds[run[0] - self.first_cells[block] : run[-1] - self.first_cells[block] + 2]
                rows.append(self.work.rows(f"nodes/x/{block:06d}", int(ends[0]), int(ends[-1])))
                ids.append(self.starts[block] + np.arange(ends[0], ends[-1]))
                own.append(np.repeat(run, np.diff(ends)))
        return np.concatenate(rows), np.concatenate(ids), np.concatenate(own)


def search(nodes: Nodes, asked: NDArray[np.float32], k: int, visited: int) -> tuple[NDArray[np.float32], Ids]:
    """Squared distances and numbers of the nearest nodes in the cells that are visited; -1 where there are too few."""
    faiss: Any = importlib.import_module("faiss")
    coarse = _coarse(nodes.work)
    lengths, cells = coarse.search(asked, min(visited, coarse.ntotal))
    rows, ids, own = nodes.of_cells(np.unique(cells))
    index = faiss.IndexIVFFlat(coarse, asked.shape[1], coarse.ntotal)
    index.own_fields = False
    index.nprobe = cells.shape[1]
    pointers = [faiss.swig_ptr(np.ascontiguousarray(each)) for each in (rows, ids, own)]
    index.add_core(len(rows), *pointers)
    found: tuple[NDArray[np.float32], Ids] = index.search_preassigned(asked, k, cells, lengths)
    return found


def find_neighbours(
    work: Work, item: int, where: Where, folder: str, k: int, rank: int, visited: int, itself: bool
) -> None:
    """The neighbours of a block's rows, and their bandwidths; nodes are their own first ones."""
    everywhere = Nodes(work, where)
    rows = work.load(f"{folder}/x/{item:06d}")
    indices, distances = np.empty((len(rows), k), np.int64), np.empty((len(rows), k), np.float32)
    for start in range(0, len(rows), _ASKED):
        asked = rows[start : start + _ASKED]
        squares, found = search(everywhere, asked, k, visited)
        more = visited
        while (lacking := np.flatnonzero((found < 0).any(axis=1))).size:  # the cells hold too few: visit more
            more *= 4
            squares[lacking], found[lacking] = search(everywhere, asked[lacking], k, more)
        keys = np.maximum(squares, 0.0)
        if itself:  # ties with itself are decided in its own favour
            own = everywhere.starts[item] + np.arange(start, start + len(asked))
            missing = ~(found == own[:, None]).any(axis=1)
            found[missing, -1] = own[missing]
            keys = np.where(found == own[:, None], -1.0, keys)
        order = np.lexsort((found, keys), axis=1)
        here = slice(start, start + len(asked))
        indices[here] = np.take_along_axis(found, order, axis=1)
        distances[here] = np.sqrt(np.maximum(np.take_along_axis(keys, order, axis=1), 0.0))
    work.save(f"{folder}/near/{item:06d}", indices)
    work.save(f"{folder}/far/{item:06d}", distances)
    work.save(f"{folder}/bandwidth/{item:06d}", bandwidths(distances, rank))


# ---- the graph ----------------------------------------------------------------------------------------------------


def weigh(work: Work, item: int, where: Where) -> dict[int, int]:
    """Weights of the edges that the rows of a block have chosen; returns how many end in each other block."""
    everywhere = Nodes(work, where)
    near, far = work.load(f"nodes/near/{item:06d}"), work.load(f"nodes/far/{item:06d}")
    ids, place = np.unique(near, return_inverse=True)
    other = everywhere.pick("nodes/bandwidth", ids)
    weights = gaussian_weights(
        Neighbours(place.reshape(near.shape), far), work.load(f"nodes/bandwidth/{item:06d}"), other, len(ids)
    ).tocoo()
    start = int(everywhere.starts[item])
    from_, to, size = weights.row + start, ids[weights.col], weights.data
    order = np.argsort(to, kind="stable")
    edges = np.empty(len(order), _EDGE)
    edges["to"], edges["from"], edges["weight"] = to[order], from_[order], size[order]
    work.save(f"edges/{item:06d}", edges)
    bounds = np.searchsorted(to[order], everywhere.starts)
    return {block: int(number) for block, number in enumerate(np.diff(bounds)) if number and block != item}


def join(work: Work, item: int, where: Where, others: Sequence[int]) -> None:
    """The rows of a block in ``(W + W^T) / 2``, with edges that came from others, and their sums."""
    everywhere = Nodes(work, where)
    start, stop = (int(each) for each in everywhere.starts[item : item + 2])
    own = work.load(f"edges/{item:06d}")
    parts = [(own["from"], own["to"], own["weight"])]
    for block in [item, *others]:
        theirs = np.load(work.path(f"edges/{block:06d}.npy"), mmap_mode="r")
        low, high = np.searchsorted(theirs["to"], [start, stop])
        some = np.array(theirs[low:high])
        Work.moved += some.nbytes
        parts.append((some["to"], some["from"], some["weight"]))
    rows, columns, weights = (np.concatenate(each) for each in zip(*parts, strict=True))
    ids, place = np.unique(columns, return_inverse=True)
    matrix = sp.csr_array((0.5 * weights, (rows - start, place.ravel())), shape=(stop - start, len(ids)))
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    work.save(f"nodes/degree/{item:06d}", np.asarray(matrix.sum(axis=1), np.float64).ravel())
    _, component = connected_components(_square(matrix, ids, start, stop), directed=False)
    work.save(f"nodes/component/{item:06d}", start + component.astype(np.int64))
    _save_rows(work, item, matrix, ids)


def _square(matrix: sp.csr_array, ids: Ids, start: int, stop: int) -> sp.csr_array:
    """The edges inside a block."""
    low, high = np.searchsorted(ids, [start, stop])
    inside = matrix[:, low:high].tocoo()
    return sp.csr_array((inside.data, (inside.row, ids[low:high][inside.col] - start)), shape=(stop - start,) * 2)


def _save_rows(work: Work, item: int, matrix: sp.csr_array, ids: Ids) -> None:
    work.save(f"graph/joined/{item:06d}", matrix.data.astype(np.float32, copy=False))
    work.save(f"graph/columns/{item:06d}", matrix.indices.astype(np.int32, copy=False))
    work.save(f"graph/starts/{item:06d}", matrix.indptr.astype(np.int64, copy=False))
    work.save(f"graph/ids/{item:06d}", ids)


def _load_rows(work: Work, item: int, which: str) -> tuple[sp.csr_array, Ids]:
    weights, columns, starts, ids = (
        work.load(f"graph/{name}/{item:06d}") for name in (which, "columns", "starts", "ids")
    )
    return sp.csr_array((weights, columns, starts), shape=(len(starts) - 1, len(ids))), ids


def normalise(work: Work, item: int, where: Where) -> dict[str, Any]:
    """Weights of a block by the degrees of both ends; returns what is to be known of the whole graph.

    These are the largest ``L_ii``, the number of edges, the components that edges to other blocks connect, and those
    that have a label.
    """
    everywhere = Nodes(work, where)
    start = int(everywhere.starts[item])
    matrix, ids = _load_rows(work, item, "joined")
    scale = everywhere.pick("nodes/degree", ids) ** -0.5
    own = work.load(f"nodes/degree/{item:06d}") ** -0.5
    matrix.data = (matrix.data * np.repeat(own, np.diff(matrix.indptr)) * scale[matrix.indices]).astype(np.float32)
    sums = np.asarray(matrix.sum(axis=1), np.float64).ravel()
    square = _square(matrix, ids, start, start + len(own))
    # Into files of their own: the weights before must still be there if this is done again.
    work.save(f"graph/weights/{item:06d}", matrix.data)
    work.save(f"graph/sums/{item:06d}", sums)
    component, theirs = work.load(f"nodes/component/{item:06d}"), everywhere.pick("nodes/component", ids)
    edges = matrix.tocoo()
    outside = (ids[edges.col] < start) | (ids[edges.col] >= start + len(own))
    pairs = np.unique(np.stack([component[edges.row[outside]], theirs[edges.col[outside]]], axis=1), axis=0)
    return {
        "largest": float((sums - square.diagonal()).max(initial=0.0)),
        "entries": int(matrix.nnz - np.count_nonzero(square.diagonal())),
        "outside": int(outside.sum()),
        "pairs": pairs.tolist(),
        "labelled": np.unique(component[work.load(f"labelled/{item:06d}")]).tolist(),
    }


def reached_components(facts: Sequence[dict[str, Any]]) -> Ids:
    """The components that have a label, or are connected with one that has."""
    pairs = np.array([pair for each in facts for pair in each["pairs"]], dtype=np.int64).reshape(-1, 2)
    labelled = np.array([one for each in facts for one in each["labelled"]], dtype=np.int64)
    names, place = np.unique(np.concatenate([pairs.ravel(), labelled]), return_inverse=True)
    ends = place[: pairs.size].reshape(-1, 2)
    joined = sp.coo_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(len(names),) * 2)
    whole = connected_components(joined, directed=False)[1]
    return np.asarray(names[np.isin(whole, whole[place[pairs.size :]])])


def diffuse(work: Work, item: int, where: Where, layer: int, strength: float, name: str = "u") -> float:
    """One explicit layer, ``u - strength * L u``, at the rows of a block; returns the sum of their squares."""
    everywhere = Nodes(work, where)
    matrix, ids = _load_rows(work, item, "weights")
    before = f"{name}{layer - 1:04d}"
    u = work.load(f"{before}/{item:06d}")
    around = everywhere.pick(before, ids)
    kept = (1.0 - strength * work.load(f"graph/sums/{item:06d}")).astype(np.float32)
    u = kept[:, None] * u + np.float32(strength) * (matrix @ around)
    work.save(f"{name}{layer:04d}/{item:06d}", u)
    return float((u.astype(np.float64) ** 2).sum())


def draw_signs(work: Work, item: int, number: int, seed: int) -> None:
    """Random signs at the nodes of a block, to measure the heat trace with."""
    rows = len(work.load(f"nodes/degree/{item:06d}"))
    signs = np.random.default_rng([seed, 3, item]).integers(0, 2, (rows, number))
    work.save(f"z0000/{item:06d}", (2 * signs - 1).astype(np.float32))


# ---- new rows -----------------------------------------------------------------------------------------------------


def match(work: Work, item: int) -> int:
    """Which of the rows that are asked for are nodes of the block, -1 where one is new; returns how many are new."""
    asked, nodes = work.load(f"asked/x/{item:06d}"), work.load(f"nodes/x/{item:06d}")
    _, first, which = np.unique(_bytes(np.concatenate([nodes, asked])), return_index=True, return_inverse=True)
    node = first[which.ravel()[len(nodes) :]]
    node = np.where(node < len(nodes), node, -1)
    work.save(f"asked/node/{item:06d}", node)
    work.save(f"new/x/{item:06d}", asked[node < 0])
    return int((node < 0).sum())


def hang(work: Work, item: int, where: Where) -> None:
    """Normalised weights of new rows towards the nodes that a label reaches."""
    everywhere = Nodes(work, where)
    near, far = work.load(f"new/near/{item:06d}"), work.load(f"new/far/{item:06d}")
    ids, place = np.unique(near, return_inverse=True)
    bandwidth, degree, reached = (everywhere.pick(f"nodes/{name}", ids) for name in ("bandwidth", "degree", "reached"))
    found = Neighbours(place.reshape(near.shape), far)
    weights = gaussian_weights(found, work.load(f"new/bandwidth/{item:06d}"), bandwidth, len(ids))
    own = np.asarray(weights.sum(axis=1), np.float64).ravel() + 1.0
    weights = sp.csr_array(sp.diags_array(own**-0.5) @ weights @ sp.diags_array(degree**-0.5 * reached))
    for name, array in (("data", weights.data), ("indices", weights.indices), ("indptr", weights.indptr), ("ids", ids)):
        work.save(f"hung/{name}/{item:06d}", array)


def follow(work: Work, item: int, where: Where, layer: int, strength: float) -> None:
    """One layer at the new rows of a block: each moves towards the mean of its neighbours, and changes none of them."""
    data, indices, indptr, ids = (work.load(f"hung/{name}/{item:06d}") for name in ("data", "indices", "indptr", "ids"))
    weights = sp.csr_array((data, indices, indptr), shape=(len(indptr) - 1, len(ids)))
    u = work.load(f"new/u{layer - 1:04d}/{item:06d}")
    around = Nodes(work, where).pick(f"u{layer - 1:04d}", ids)
    pull = np.asarray(weights.sum(axis=1)).ravel()
    mean = np.divide(weights @ around, pull[:, None], out=np.zeros(u.shape), where=pull[:, None] > 0)
    move = np.minimum(strength * pull, 1.0)[:, None]
    work.save(f"new/u{layer:04d}/{item:06d}", (u + move * (mean - u)).astype(np.float32))
