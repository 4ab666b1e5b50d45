"""The k nearest neighbours of every point: exact in blocks of bounded memory, or approximate through faiss."""

from __future__ import annotations

import importlib.util
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from condiff.errors import InvalidInputError, MissingDependencyError
from condiff.graph.approximate import RECALL, neighbours_in_cells
from condiff.graph.convert import is_tensor
from condiff.graph.valid import valid_csr
from condiff.kernels.threads import thread_count

Metric = Literal["euclidean", "cosine"]
Search = Literal["auto", "exact", "faiss"]

# One block of distances; larger ones only leave the processor's caches.
BLOCK_BYTES = 32 * 2**20
# Below so many points, exact blocks of matrix products are faster than building an index; wider ones are sooner slow.
FAISS_FROM, _WIDE = 50_000, 128
# Rows that are checked at a time.
_CHECKED = 65_536
# Columns that are looked at together for the lowest of a row, and the length of rows from which on twice as many.
_GROUP, _LONG = 8, 4096


@dataclass(frozen=True)
class Neighbours:
    """For each query, its nearest points.

    Attributes
    ----------
    indices, distances
        (queries, k), nearest first.
    recall
        Share of the true neighbours that was found, measured on a sample; 1 for an exact search.
    """

    indices: NDArray[np.int32 | np.int64]
    distances: NDArray[np.float32 | np.float64]
    recall: float = 1.0


def nearest(
    points: Any,
    k: int,
    *,
    queries: Any = None,
    metric: Metric = "euclidean",
    search: Search = "auto",
    recall: float = RECALL,
) -> Neighbours:
    """Find the ``k`` nearest of ``points`` to each query, or to each point itself.

    Without ``queries`` a point is its own first neighbour, at distance 0, even where it has duplicates.

    Parameters
    ----------
    points
        Dense (n, d) array, which may be memory-mapped, or SciPy sparse matrix.
    k
        Number of neighbours, at most n.
    queries
        Points whose neighbours are wanted, in the same form; ``points`` themselves by default.
    metric
        ``cosine`` is the Euclidean distance of rows scaled to length one.
    search
        ``exact`` compares all pairs block by block, ``faiss`` uses an inverted-file index, ``auto`` takes faiss for
        dense data past 50,000 points, or fewer where these have more than 128 columns, when it is installed.
    recall
        For faiss, the share of the true neighbours to be found, above 0 and at most 1; the result has the share that
        was found on a sample of points.
    """
    base = _prepared(points, metric)
    itself = queries is None
    asked = base if itself else _prepared(queries, metric)
    n = base.shape[0]
    if not 1 <= k <= n:
        raise InvalidInputError(f"asked for {k} neighbours among {n} points; choose 1 to {n}")
    if asked.shape[1] != base.shape[1]:
        raise InvalidInputError(f"the queries have {asked.shape[1]} features but the points have {base.shape[1]}")
    if search not in ("auto", "exact", "faiss"):
        raise InvalidInputError(f"search must be 'auto', 'exact' or 'faiss', not {search!r}")
    if not 0 < recall <= 1:
        raise InvalidInputError(f"recall must be above 0 and at most 1, not {recall}")
    dense = not sp.issparse(base)
    installed = importlib.util.find_spec("faiss") is not None
    if search == "faiss" and not (dense and installed):
        if not dense:
            raise InvalidInputError("faiss searches dense points only; use search='exact' for sparse ones")
        raise MissingDependencyError("search='faiss' needs faiss: pip install 'condiff[knn]'")
    many = n > FAISS_FROM or n * n * base.shape[1] > FAISS_FROM * FAISS_FROM * _WIDE
    if search == "faiss" or (search == "auto" and dense and installed and many):
        return _approximate(base, None if itself else asked, k, recall)
    return _exact(base, asked, k, itself)


def _prepared(points: Any, metric: Metric) -> Any:
    """Float rows, as a CSR array or a contiguous dense array, of unit length for the cosine metric."""
    if metric not in ("euclidean", "cosine"):
        raise InvalidInputError(f"metric must be 'euclidean' or 'cosine', not {metric!r}")
    if sp.issparse(points):
        matrix = valid_csr(points).astype(np.float64)
        finite, n_dim = np.isfinite(matrix.data).all(), 2
    else:
        matrix = np.ascontiguousarray(points.detach().cpu() if is_tensor(points) else points)
        if matrix.dtype.kind not in "biuf":
            raise InvalidInputError(f"points must be real numbers, not {matrix.dtype}")
        if matrix.dtype != np.float32:
            matrix = matrix.astype(np.float64, copy=False)
        # Block by block: a mapped file stays one.
        finite = all(np.isfinite(matrix[start : start + _CHECKED]).all() for start in range(0, len(matrix), _CHECKED))
        n_dim = matrix.ndim
    if n_dim != 2:
        raise InvalidInputError(f"points must form a matrix of one row each, not an array of shape {matrix.shape}")
    if not finite:
        raise InvalidInputError("points must be finite, but some values are NaN or infinite")
    if metric == "cosine":
        squares = matrix.multiply(matrix) if sp.issparse(matrix) else matrix * matrix
        length = np.sqrt(np.asarray(squares.sum(axis=1)).ravel())
        length[length == 0] = 1.0
        matrix = sp.diags_array(1.0 / length) @ matrix if sp.issparse(matrix) else matrix / length[:, None]
        matrix = sp.csr_array(matrix) if sp.issparse(matrix) else matrix
    return matrix


def _blocks(rows: int, columns: int, itemsize: int) -> list[tuple[int, int]]:
    height = max(1, BLOCK_BYTES // (columns * itemsize))
    return [(start, min(start + height, rows)) for start in range(0, rows, height)]


@dataclass(frozen=True)
class _Screen:
    """Factors whose product bounds all squared distances from below, rounding included.

    ``scale * (left @ right + offset[:, None]) <= ||x - y||^2``, in floating point too.
    """

    left: Any
    right: Any
    offset: NDArray[np.float64]
    scale: float

    def floors(self, start: int, stop: int, buffer: NDArray[np.float32]) -> NDArray[Any]:
        """The product for some of the queries."""
        if sp.issparse(self.left):
            return np.asarray((self.left[start:stop] @ self.right).toarray())
        return np.asarray(np.matmul(self.left[start:stop], self.right, out=buffer[: stop - start]))


def _screen(base: Any, asked: Any) -> _Screen:
    """Expand ``||x||^2 - 2 x.y + ||y||^2`` and shrink both squares by more than the products can err.

    A sum of d products errs by at most ``d eps ||x|| ||y||``, and rounding the coordinates first by a few eps more.
    """
    if sp.issparse(base):
        kept = 1 - (2 * base.shape[1] + 32) * float(np.finfo(np.float64).eps)
        ones = sp.csr_array(np.ones((asked.shape[0], 1)))
        squares = sp.csr_array(kept * np.asarray(base.multiply(base).sum(axis=1)).reshape(-1, 1))
        left = sp.hstack([asked, ones], format="csr")
        right = sp.csr_array(sp.hstack([-2 * base, squares], format="csr").T)
        return _Screen(left, right, kept * np.asarray(asked.multiply(asked).sum(axis=1)).ravel(), 1.0)
    # Single precision is twice as fast; centred and scaled, neither a common offset nor the unit costs it digits.
    kept = 1 - (2 * base.shape[1] + 32) * float(np.finfo(np.float32).eps)
    centre = base.mean(axis=0)
    x, y = asked - centre, base - centre
    unit = float(max(np.abs(x).max(initial=0), np.abs(y).max(initial=0))) or 1.0
    x, y = (x / unit).astype(np.float32), (y / unit).astype(np.float32)
    x_squares = kept * np.einsum("ij,ij->i", x, x, dtype=np.float64)
    # The small number covers coordinates that underflow.
    y_squares = kept * np.einsum("ij,ij->i", y, y, dtype=np.float64) - 1e-30
    left = np.concatenate([x, np.ones_like(x[:, :1])], axis=1)
    right = np.concatenate([-2 * y.T, y_squares[None].astype(np.float32)])
    return _Screen(left, right, x_squares, unit * unit)


def _exact(base: Any, asked: Any, k: int, itself: bool) -> Neighbours:
    """Screen all pairs by a lower bound of their distances and measure, pair by pair, those that can be neighbours."""
    screen, n = _screen(base, asked), base.shape[0]
    indices = np.empty((asked.shape[0], k), dtype=np.int64)
    distances = np.empty((asked.shape[0], k))
    blocks = _blocks(asked.shape[0], n, 8 if sp.issparse(base) else 4)
    buffer = np.empty((0 if sp.issparse(base) else blocks[0][1] if blocks else 0, n), np.float32)
    for start, stop in blocks:
        block = asked[start:stop]
        own = np.arange(start, stop) if itself else None
        floors = screen.floors(start, stop, buffer)
        if own is not None:
            floors[np.arange(stop - start), own] = -np.inf
        candidates = _lowest(floors, min(k + 8, n))
        found = _rank_rows(base, block, candidates, k, own)
        # Whatever was left out has a higher floor than the candidates; it is farther than the k-th if that floor is.
        limit = found.distances[:, -1] ** 2 * (1 + 1e-9) / screen.scale - screen.offset[start:stop]
        highest = np.take_along_axis(floors, candidates, axis=1).max(axis=1).astype(np.float64)
        for row in np.flatnonzero((limit >= highest) & (k + 8 < n)):
            # Ties, or points that nearly coincide: measure all below the limit.
            below = np.flatnonzero(floors[row].astype(np.float64) <= limit[row])
            one = _rank_rows(base, block[[row]], below[None], k, None if own is None else own[[row]])
            found.indices[row], found.distances[row] = one.indices[0], one.distances[0]
        indices[start:stop], distances[start:stop] = found.indices, found.distances
    return Neighbours(indices, distances)


def _lowest(values: NDArray[Any], k: int) -> NDArray[np.int64]:
    """The columns of the k lowest values of every row, in any order."""
    height = -(-len(values) // thread_count())
    if len(values) == height:
        return _lowest_of(values, k)
    with ThreadPoolExecutor() as pool:
        parts = [values[start : start + height] for start in range(0, len(values), height)]
        return np.concatenate(list(pool.map(partial(_lowest_of, k=k), parts)))


def _lowest_of(values: NDArray[Any], k: int) -> NDArray[np.int64]:
    rows, n = values.shape
    size = _GROUP if n < _LONG else 2 * _GROUP
    groups = n // size
    if groups < 2 * k:
        return np.argpartition(values, k - 1, axis=1)[:, :k]
    # The k lowest lie in the k groups whose lowest are lowest, or in the columns that are left over: a row is read
    # once, and only a few hundred of its values are sorted by size.
    minima = values[:, : groups * size].reshape(rows, size, groups).min(axis=1)
    chosen = np.argpartition(minima, k - 1, axis=1)[:, :k]
    columns = (chosen[:, :, None] + groups * np.arange(size)).reshape(rows, k * size)
    columns = np.hstack([columns, np.broadcast_to(np.arange(groups * size, n), (rows, n - groups * size))])
    best = np.argpartition(np.take_along_axis(values, columns, axis=1), k - 1, axis=1)[:, :k]
    return np.take_along_axis(columns, best, axis=1)


def _rank_rows(base: Any, block: Any, candidates: NDArray[Any], k: int, own: NDArray[Any] | None) -> Neighbours:
    return _sorted(candidates, _pair_distances(base, block, candidates), k, own)


def _sorted(candidates: NDArray[Any], distances: NDArray[Any], k: int, own: NDArray[Any] | None) -> Neighbours:
    keys = distances if own is None else np.where(candidates == own[:, None], -1.0, distances)
    # Ties go to the smaller index, so that the answer does not depend on the order of the candidates.
    order = np.lexsort((candidates, keys), axis=1)[:, :k]
    return Neighbours(
        np.take_along_axis(candidates, order, axis=1).astype(np.int64),
        np.take_along_axis(distances, order, axis=1),
    )


def _pair_distances(base: Any, block: Any, candidates: NDArray[Any]) -> NDArray[np.float64]:
    """Distances of each row of ``block`` to its own candidates."""
    rows, width = candidates.shape
    if sp.issparse(base):
        left = block[np.repeat(np.arange(rows), width)]
        difference = left - base[candidates.ravel()]
        squares = np.asarray(difference.multiply(difference).sum(axis=1)).ravel().reshape(rows, width)
        return np.asarray(np.sqrt(squares))
    out = np.empty((rows, width))
    for start, stop in _blocks(rows, width * base.shape[1], 8):
        difference = base[candidates[start:stop]].astype(np.float64) - block[start:stop, None, :]
        out[start:stop] = np.sqrt(np.einsum("ijk,ijk->ij", difference, difference))
    return out


def _approximate(base: NDArray[Any], asked: NDArray[Any] | None, k: int, recall: float) -> Neighbours:
    """Candidates from faiss, ranked; in single precision its distances are good, in double they are measured again."""
    rows, n = len(base if asked is None else asked), len(base)
    indices = np.empty((rows, k), dtype=np.int32 if n <= np.iinfo(np.int32).max else np.int64)
    distances = np.empty((rows, k), dtype=base.dtype)
    measured = 1.0
    for here, candidates, squares, found_recall in neighbours_in_cells(base, asked, k, recall):
        measured = found_recall
        own = None
        if asked is None:  # an approximate search may miss the point itself
            own, missing = here, ~(candidates == here[:, None]).any(axis=1)
            candidates[missing, -1] = here[missing]
            squares[candidates == here[:, None]] = 0.0
        if base.dtype == np.float32:
            found = _sorted(candidates, np.sqrt(np.maximum(squares, 0.0)), k, own)
        else:
            found = _rank_rows(base, (base if asked is None else asked)[here], candidates, k, own)
        indices[here], distances[here] = found.indices, found.distances
    return Neighbours(indices, distances, measured)
