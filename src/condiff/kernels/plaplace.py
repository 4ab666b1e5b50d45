"""The compiled loops of the p-Laplacian at p = 3, where an edge's stiffness is its weight times how steep it is.

Every column is a function of its own, and so has edges of its own stiffness: these are made from the function in the
moment in which they are needed, which takes less time than to read them.
"""

from __future__ import annotations

from typing import Any

from condiff.kernels.compilation import compiled
from condiff.kernels.vectors import (
    LANE,
    apart,
    load_lane,
    plus_product,
    plus_scaled,
    prefetch_lane,
    scaled,
    store_lane,
    times,
)

# Entries by which rows are asked for before they are read.
_AHEAD = 24


@compiled("int64, int64, int32[1], int32[1], number[1], number, number[2], number[2], number[2]")
def pull_rows(
    first: int, last: int, starts: Any, columns: Any, weights: Any, least: Any, u: Any, stiffness: Any, pull: Any
) -> None:
    """Rows of ``stiffness_i = sum_j w_ij s_ij`` and ``pull_i = sum_j w_ij s_ij (u_j - u_i)``.

    ``s_ij = max(|u_i - u_j|, least)``; all arrays are (nodes, 16 times lanes).
    """
    for row in range(first, last):
        for lane in range(u.shape[1] // LANE):
            own = load_lane(u, row, lane)
            total = scaled(own, 0.0)
            mean = total
            for entry in range(starts[row], starts[row + 1]):
                other = load_lane(u, columns[entry], lane)
                stiff = scaled(apart(own, other, least), weights[entry])
                total = plus_scaled(total, 1.0, stiff)
                mean = plus_product(mean, stiff, plus_scaled(other, -1.0, own))
            store_lane(stiffness, row, lane, total)
            store_lane(pull, row, lane, mean)


@compiled("int64, int64, int32[1], int32[1], number[1], number, number[2], number[2], number[2], number[2]")
def stiff_rows(
    first: int,
    last: int,
    starts: Any,
    columns: Any,
    weights: Any,
    least: Any,
    stiffness: Any,
    u: Any,
    v: Any,
    out: Any,
) -> None:
    """Rows of ``out_i = stiffness_i v_i - sum_j w_ij s_ij v_j``, with the stiffness of the edges at ``u``."""
    end = starts[starts.shape[0] - 1] - 1
    for row in range(first, last):
        for lane in range(u.shape[1] // LANE):
            own = load_lane(u, row, lane)
            found = times(load_lane(stiffness, row, lane), load_lane(v, row, lane))
            for entry in range(starts[row], starts[row + 1]):
                coming, column = columns[min(entry + _AHEAD, end)], columns[entry]
                prefetch_lane(u, coming, lane)
                prefetch_lane(v, coming, lane)
                stiff = scaled(apart(own, load_lane(u, column, lane), least), -weights[entry])
                found = plus_product(found, stiff, load_lane(v, column, lane))
            store_lane(out, row, lane, found)
