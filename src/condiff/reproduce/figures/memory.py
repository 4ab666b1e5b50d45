"""The paper's picture of space: the peak memory of every method."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from condiff.errors import InvalidInputError
from condiff.reproduce.figures.canvas import HIGHLIGHT, OURS, save
from condiff.reproduce.figures.lines import line_panels
from condiff.reproduce.tables import lay_out

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.figure import Figure

    from condiff.reproduce.rows import Row


def memory_bars(rows: Sequence[Row], target: Path) -> None:
    """Write :func:`draw_memory`."""
    save(draw_memory(rows), target)


def draw_memory(rows: Sequence[Row]) -> Figure:
    """A bar a method on a logarithmic scale, a panel a data set; the paper's order from the top, COIN in its colour."""
    measured = [row for row in rows if row.memory_mb is not None]
    if not measured:
        raise InvalidInputError("no row has a peak of memory, so there is none to show")
    # A run has one peak, however many metrics were taken of it.
    grid = lay_out([row for row in measured if row.metric == measured[0].metric])
    positive = [row.memory_mb for row in measured if row.memory_mb] or [1.0]
    # Bars on a logarithmic scale need a floor: the power of ten below the smallest.
    floor = 10.0 ** math.floor(math.log10(min(positive)) - 0.05)
    figure, found = line_panels(grid, width=3.0, height=0.24, sharex=True)
    for column, axes in zip(grid.columns, found, strict=True):
        for height, line in enumerate(grid.lines):
            row = grid.cell(line, column)
            if row is None or row.memory_mb is None:
                continue
            memory = row.memory_mb
            colour = HIGHLIGHT if line.method == "COIN" else OURS
            axes.barh(height, max(memory - floor, 0), left=floor, height=0.7, color=colour, alpha=0.85)
            text = f"{memory:,.0f}" if memory >= 10 else f"{memory:.1f}"
            end = (max(memory, floor), height)
            axes.annotate(text, end, (3, 0), textcoords="offset points", va="center", fontsize=7)
        axes.set_xscale("log")
        axes.set_xlim(floor, 4 * max(positive))
        axes.set_xlabel("peak memory of a run (MB)")
    return figure
