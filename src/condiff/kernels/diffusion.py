"""The compiled loop of explicit diffusion: all that a layer does to some rows, in one pass over them."""

from __future__ import annotations

from typing import Any

from condiff.kernels.compilation import compiled
from condiff.kernels.vectors import LANE, load_lane, plus_scaled, prefetch_lane, scaled, store_lane

# Entries by which a row is asked for before it is read: enough to cover the way to the main memory.
_AHEAD = 24


@compiled("int64, int64, int32[1], int32[1], number[1], number[1], number, number[2], number[2]")
def euler_rows(
    first: int, last: int, starts: Any, columns: Any, weights: Any, kept: Any, strength: Any, u: Any, out: Any
) -> None:
    """Rows ``first`` to ``last`` of ``out = kept * u + strength * W u``, with W in CSR form.

    ``u`` and ``out`` are (nodes, 16 times lanes) with one to four lanes, which are summed in registers; without the
    interpreter's lock, so that parts run on all cores.
    """
    lanes = u.shape[1] // LANE
    end = starts[starts.shape[0] - 1] - 1
    for row in range(first, last):
        share = kept[row]
        sum_0 = scaled(load_lane(u, row, 0), share)
        sum_1 = scaled(load_lane(u, row, 1 if lanes > 1 else 0), share)
        sum_2 = scaled(load_lane(u, row, 2 if lanes > 2 else 0), share)
        sum_3 = scaled(load_lane(u, row, 3 if lanes > 3 else 0), share)
        for entry in range(starts[row], starts[row + 1]):
            coming = columns[min(entry + _AHEAD, end)]
            weight, column = strength * weights[entry], columns[entry]
            prefetch_lane(u, coming, 0)
            sum_0 = plus_scaled(sum_0, weight, load_lane(u, column, 0))
            if lanes > 1:
                prefetch_lane(u, coming, 1)
                sum_1 = plus_scaled(sum_1, weight, load_lane(u, column, 1))
            if lanes > 2:
                prefetch_lane(u, coming, 2)
                sum_2 = plus_scaled(sum_2, weight, load_lane(u, column, 2))
            if lanes > 3:
                prefetch_lane(u, coming, 3)
                sum_3 = plus_scaled(sum_3, weight, load_lane(u, column, 3))
        store_lane(out, row, 0, sum_0)
        if lanes > 1:
            store_lane(out, row, 1, sum_1)
        if lanes > 2:
            store_lane(out, row, 2, sum_2)
        if lanes > 3:
            store_lane(out, row, 3, sum_3)


@compiled("int64, int64, int32[1], int32[1], number[1], number[1], number, number, number[2], number[2], number[2]")
def chebyshev_rows(
    first: int,
    last: int,
    starts: Any,
    columns: Any,
    weights: Any,
    kept: Any,
    scale: Any,
    share: Any,
    u: Any,
    before: Any,
    total: Any,
) -> None:
    """Rows of the recurrence ``before <- kept * u + scale * W u - before``, then ``total += share * before``.

    A row of ``before`` is needed by nobody else, so that the new one takes its place.
    """
    end = starts[starts.shape[0] - 1] - 1
    for row in range(first, last):
        for lane in range(u.shape[1] // LANE):
            found = plus_scaled(scaled(load_lane(u, row, lane), kept[row]), -1.0, load_lane(before, row, lane))
            for entry in range(starts[row], starts[row + 1]):
                prefetch_lane(u, columns[min(entry + _AHEAD, end)], lane)
                found = plus_scaled(found, scale * weights[entry], load_lane(u, columns[entry], lane))
            store_lane(before, row, lane, found)
            store_lane(total, row, lane, plus_scaled(load_lane(total, row, lane), share, found))
