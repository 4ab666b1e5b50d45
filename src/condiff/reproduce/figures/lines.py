"""Panels that share a line a method, as a table does: names at the left, a rule between the paper's groups."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from condiff.reproduce.figures.canvas import panels, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from condiff.reproduce.tables import Column, Grid

#: Panels side by side; more than these go below.
SIDE_BY_SIDE = 4


def line_panels(
    grid: Grid, *, width: float, height: float, sharex: bool = False, columns: Sequence[Column] | None = None
) -> tuple[Figure, list[Axes]]:
    """A panel a column of the grid; its n-th line is at n, from the top.

    Parameters
    ----------
    grid
        Whose lines and columns to show.
    width, height
        Of a panel and of a line, in inches.
    sharex
        Whether the panels have one scale.
    columns
        Those to show, by default all.
    """
    columns = grid.columns if columns is None else columns
    wide, high = min(len(columns), SIDE_BY_SIDE), -(-len(columns) // SIDE_BY_SIDE)
    size = (1.3 + width * wide, (1.2 + height * len(grid.lines)) * high)
    figure, rows = panels(high, wide, size, grid="x", sharey=True, sharex=sharex)
    places = [axes for row in rows for axes in row]
    found = places[: len(columns)]
    for axes in places[len(columns) :]:
        axes.remove()
    for column, axes in zip(columns, found, strict=True):
        axes.set_title(plain(column.title), fontsize=10, loc="left")
        axes.tick_params(axis="y", length=0)
        for number, (above, below) in enumerate(pairwise(grid.lines)):
            if above.group != below.group:
                axes.axhline(number + 0.5, color="0.75", linewidth=0.8, zorder=1)
    found[0].set_yticks(range(len(grid.lines)), [line.label for line in grid.lines])
    found[0].set_ylim(len(grid.lines) - 0.4, -0.6)
    for row in rows:
        for line, name in zip(grid.lines, row[0].get_yticklabels(), strict=True):
            name.set_fontweight("bold" if line.method == "COIN" else "normal")
    return figure, found
