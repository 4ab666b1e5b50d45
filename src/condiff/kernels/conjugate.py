"""The compiled loops of conjugate gradients on many columns: each is one pass over the arrays that it names."""

from __future__ import annotations

from typing import Any

from condiff.kernels.compilation import compiled
from condiff.kernels.vectors import LANE, load_lane, plus_product, store_lane, times


@compiled("number[2], number[2], number[2]")
def add_dots(left: Any, right: Any, sums: Any) -> None:
    """Add the product of every column of ``left`` with that of ``right`` to the row of ``sums``; 16 times lanes."""
    for lane in range(left.shape[1] // LANE):
        total = load_lane(sums, 0, lane)
        for row in range(left.shape[0]):
            total = plus_product(total, load_lane(left, row, lane), load_lane(right, row, lane))
        store_lane(sums, 0, lane, total)


@compiled("number[2], number[2], number[2], number[2], number[2], number[2]")
def go_along(steps: Any, x: Any, residual: Any, direction: Any, image: Any, sums: Any) -> None:
    """``x += step * direction`` and ``residual -= step * image``, with a step of its own for every column.

    ``steps`` has these and, in a second row, their negatives; the squares of the new residuals are added to ``sums``.
    """
    for lane in range(x.shape[1] // LANE):
        step, back = load_lane(steps, 0, lane), load_lane(steps, 1, lane)
        total = load_lane(sums, 0, lane)
        for row in range(x.shape[0]):
            store_lane(x, row, lane, plus_product(load_lane(x, row, lane), step, load_lane(direction, row, lane)))
            left = plus_product(load_lane(residual, row, lane), back, load_lane(image, row, lane))
            store_lane(residual, row, lane, left)
            total = plus_product(total, left, left)
        store_lane(sums, 0, lane, total)


@compiled("number[2], number[2], number[2], number[2], number[2], number[2], number[2]")
def go_along_scaled(steps: Any, scale: Any, x: Any, residual: Any, direction: Any, image: Any, sums: Any) -> None:
    """The same, with the squares of the new residuals counted ``scale`` times, number by number."""
    for lane in range(x.shape[1] // LANE):
        step, back = load_lane(steps, 0, lane), load_lane(steps, 1, lane)
        total = load_lane(sums, 0, lane)
        for row in range(x.shape[0]):
            store_lane(x, row, lane, plus_product(load_lane(x, row, lane), step, load_lane(direction, row, lane)))
            left = plus_product(load_lane(residual, row, lane), back, load_lane(image, row, lane))
            store_lane(residual, row, lane, left)
            total = plus_product(total, left, times(left, load_lane(scale, row, lane)))
        store_lane(sums, 0, lane, total)


@compiled("number[2], number[2], number[2]")
def turn(shares: Any, direction: Any, residual: Any) -> None:
    """``direction <- residual + share * direction``, with a share of its own for every column."""
    for lane in range(direction.shape[1] // LANE):
        share = load_lane(shares, 0, lane)
        for row in range(direction.shape[0]):
            kept = plus_product(load_lane(residual, row, lane), share, load_lane(direction, row, lane))
            store_lane(direction, row, lane, kept)


@compiled("number[2], number[2], number[2], number[2]")
def turn_scaled(shares: Any, scale: Any, direction: Any, residual: Any) -> None:
    """``direction <- scale * residual + share * direction``."""
    for lane in range(direction.shape[1] // LANE):
        share = load_lane(shares, 0, lane)
        for row in range(direction.shape[0]):
            kept = times(share, load_lane(direction, row, lane))
            kept = plus_product(kept, load_lane(scale, row, lane), load_lane(residual, row, lane))
            store_lane(direction, row, lane, kept)
