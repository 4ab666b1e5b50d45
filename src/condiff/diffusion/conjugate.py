"""Linear equations on a graph for many columns at once: products by compiled loops, and conjugate gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from condiff import kernels
from condiff.graph import SparseLaplacian
from condiff.graph.steps import combination

Array = NDArray[np.float64]
Codes = NDArray[np.int64]
#: In single or in double precision.
Columns = NDArray[Any]

#: From columns, (points, columns), and the numbers of the problems that they belong to, to columns.
Apply = Callable[[Columns, Codes], Columns]

#: Columns are padded to a multiple of this, as compiled products want them; sums and updates go by so many rows, which
#: stay in the cache. Both are the same for one problem and for many: so are the numbers.
LANE, _ROWS = 16, 1024
# A residual so small beside the one that is wanted, squared, counts as none.
_ROUNDING = 1e-6


class Product:
    """Multiply columns by a matrix, by the loops of condiff's own diffusion."""

    def __init__(self, matrix: sp.csr_array) -> None:
        self._operator = operator_of(matrix, torch.float64)
        self._zeros, self._ones = (make(matrix.shape[0], dtype=torch.float64) for make in (torch.zeros, torch.ones))

    def __call__(self, columns: Array) -> Array:
        """``W v``."""
        return self._combined(columns, self._zeros, 1.0)

    def less(self, columns: Array, share: float = 1.0) -> Array:
        """``v - share W v``."""
        return self._combined(columns, self._ones, -share)

    def _combined(self, columns: Array, kept: torch.Tensor, scale: float) -> Array:
        with torch.no_grad():
            return np.asarray(combination(self._operator, torch.as_tensor(columns), kept, scale).numpy())


def operator_of(matrix: sp.csr_array, dtype: torch.dtype) -> SparseLaplacian:
    """The Laplacian whose weights are the entries of a matrix."""
    starts, columns = (torch.from_numpy(each.astype(np.int32)) for each in (matrix.indptr, matrix.indices))
    return SparseLaplacian(starts, columns, torch.as_tensor(matrix.data, dtype=dtype), symmetric=True)


def solve_symmetric(
    apply: Apply,
    right: Columns,
    tolerance: float,
    *,
    width: int | None = None,
    most: int = 2000,
    start: Columns | None = None,
    inverse: Columns | None = None,
) -> Columns:
    """Conjugate gradients for many problems at once, until the residuals of each are small beside its right-hand sides.

    A problem is left where all of its columns are solved: what is found does not depend on what is solved beside it.
    In the precision of the right-hand sides.

    Parameters
    ----------
    apply
        The matrix, symmetric and not negative.
    right
        (points, problems times width).
    tolerance
        Of the residuals, relative.
    width
        Columns of one problem; by default all are of one.
    most
        Steps at most.
    start
        Where to begin; zero by default.
    inverse
        The inverse of the matrix's diagonal, a number for every point and column, to solve with it taken out; zero
        where a value is given and does not change. Residuals are then measured with it.
    """
    total = right.shape[1]
    width = width or total
    which = np.arange(total // width)
    found = np.zeros_like(right)
    residual = _padded(right)
    scale = None if inverse is None else _padded(inverse)
    wanted = tolerance**2 * np.maximum(_sizes(residual, scale), 1e-300)
    x = np.zeros_like(residual)
    if start is not None:
        x[:, :total] = start
        residual -= apply(x, which)
    direction = residual.copy() if scale is None else residual * scale
    size = _sizes(residual, scale)
    solved = np.zeros(len(which), bool)
    for _ in range(most):
        image = apply(direction, which)
        # A column stays of which only rounding is left: where the matrix is singular, that would lead it astray.
        curved = _dots(direction, image)
        step = np.where((size > _ROUNDING * wanted) & (curved > 0), size / np.maximum(curved, 1e-300), 0.0)
        step[: len(which) * width][np.repeat(solved, width)] = 0.0
        before, size = size, _moved(x, residual, direction, image, step, scale)
        solved = ((size <= wanted) | (step == 0))[: len(which) * width].reshape(len(which), width).all(axis=1)
        if solved.all():
            break
        # The others stand still beside the last, until taking them out is worth the copies.
        if 2 * _lanes(width * int((~solved).sum())) <= size.size:
            _give(found, x, which, width, solved)
            kept = np.repeat(~solved, width)
            narrowed = (_padded(each[..., : len(kept)][..., kept]) for each in (x, residual, direction))
            x, residual, direction = narrowed
            size, before, wanted = (_padded(each[: len(kept)][kept]) for each in (size, before, wanted))
            scale = None if scale is None else _padded(scale[:, : len(kept)][:, kept])
            which, solved = which[~solved], solved[~solved]
        _turned(direction, residual, size / np.maximum(before, 1e-300), scale)
    _give(found, x, which, width, np.ones(len(which), bool))
    return found


def _padded(columns: Columns) -> Columns:
    """The columns, and zeros up to a whole number of lanes."""
    width = columns.shape[-1]
    out = np.zeros((*columns.shape[:-1], _lanes(width)), columns.dtype)
    out[..., :width] = columns
    return out


def _lanes(width: int) -> int:
    return -(-width // LANE) * LANE


def _give(found: Columns, x: Columns, which: Codes, width: int, solved: NDArray[np.bool_]) -> None:
    for place in np.flatnonzero(solved).tolist():
        first = int(which[place]) * width
        found[:, first : first + width] = x[:, place * width : (place + 1) * width]


def _sizes(residual: Columns, scale: Columns | None) -> Columns:
    """The squared size of every column."""
    return _dots(residual, residual if scale is None else residual * scale)


def _dots(left: Columns, right: Columns) -> Columns:
    """The product of every column with its own."""
    total = np.zeros(left.shape[1])
    for here in _rows(left):
        if kernels.available():
            from condiff.kernels.conjugate import add_dots

            part = np.zeros((1, left.shape[1]), left.dtype)
            add_dots(left[here], right[here], part)
            total += part[0]
        else:
            total += np.add.reduce(left[here] * right[here], axis=0)
    return total


def _moved(
    x: Columns, residual: Columns, direction: Columns, image: Columns, step: Columns, scale: Columns | None
) -> Columns:
    """Go along the direction; returns the squared size of the new residuals."""
    total, steps = np.zeros(x.shape[1]), np.stack([step, -step]).astype(x.dtype)
    for here in _rows(x):
        arrays = x[here], residual[here], direction[here], image[here]
        if kernels.available():
            from condiff.kernels.conjugate import go_along, go_along_scaled

            part = np.zeros((1, x.shape[1]), x.dtype)
            if scale is None:
                go_along(steps, *arrays, part)
            else:
                go_along_scaled(steps, scale[here], *arrays, part)
            total += part[0]
        else:
            x[here] += steps[0] * direction[here]
            residual[here] += steps[1] * image[here]
            total += np.add.reduce(residual[here] ** 2 * (1 if scale is None else scale[here]), axis=0)
    return total


def _turned(direction: Columns, residual: Columns, share: Columns, scale: Columns | None) -> None:
    """The next direction."""
    shares = share[None].astype(direction.dtype)
    for here in _rows(direction):
        if kernels.available():
            from condiff.kernels.conjugate import turn, turn_scaled

            if scale is None:
                turn(shares, direction[here], residual[here])
            else:
                turn_scaled(shares, scale[here], direction[here], residual[here])
        else:
            direction[here] *= shares[0]
            direction[here] += residual[here] if scale is None else scale[here] * residual[here]


def _rows(columns: Columns) -> list[slice]:
    """Rows that stay in the cache while several lanes of them are read."""
    return [slice(first, first + _ROWS) for first in range(0, len(columns), _ROWS)]
