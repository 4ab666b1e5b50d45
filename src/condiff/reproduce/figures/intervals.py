"""How a reproduction compares: our mean and spread beside the published ones, for all methods at a glance."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np

from condiff.reproduce.figures.canvas import HIGHLIGHT, OURS, save
from condiff.reproduce.figures.lines import SIDE_BY_SIDE, line_panels
from condiff.reproduce.tables import Column, Grid, lay_out

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from condiff.reproduce.rows import Row

_SHIFT = 0.17
_THEIRS: dict[str, Any] = {"color": "0.5", "markersize": 4.2, "linewidth": 1.0, "markerfacecolor": "white"}


def accuracy_intervals(rows: Sequence[Row], target: Path) -> None:
    """Write :func:`draw_intervals`."""
    save(draw_intervals(rows), target)


def draw_intervals(rows: Sequence[Row]) -> Figure:
    """A line a method in the paper's order, a panel a data set: ours is filled, the published value hollow.

    The difference is written beside them, in bold beyond the metric's tolerance. A method that is far from all others
    is written at the edge, so that the others can be told apart.
    """
    grid = lay_out(rows)
    figure, found = line_panels(grid, width=3.6, height=0.29)
    for column, axes in zip(grid.columns, found, strict=True):
        _panel(axes, grid, column)
    wrapped = textwrap.fill(grid.about(), 14 + 55 * min(len(grid.columns), SIDE_BY_SIDE))
    figure.suptitle(wrapped, fontsize=9, color="0.3")
    if any(row.published is not None for row in rows):
        _legend(figure)
    return figure


def _panel(axes: Axes, grid: Grid, column: Column) -> None:
    metric = column.metric
    low, high = _fences([row for (_, place), row in grid.cells.items() if place == column])
    for height, line in enumerate(grid.lines):
        row = grid.cell(line, column)
        if row is None:
            continue
        colour = HIGHLIGHT if line.method == "COIN" else OURS
        values = [value for value in (row.mean, row.published) if value is not None]
        if values and (max(values) < low or min(values) > high):
            _at_the_edge(axes, height, row, below=max(values) < low, colour=colour)
        else:
            ours = {"color": colour, "markersize": 5, "linewidth": 1.6}
            _interval(axes, height - _SHIFT * (len(values) == 2), row.mean, row.spread, ours)
            _interval(axes, height + _SHIFT, row.published, row.published_std, _THEIRS)
        if row.difference is not None:
            _write(
                axes,
                row.difference_text(),
                (1.0, height),
                ha="right",
                fontweight="bold" if row.misses else "normal",
            )
    if any(row.difference is not None for row in grid.cells.values()):
        heading = f"difference, bold beyond {metric.tolerance:g}"
        axes.set_title(heading, loc="right", fontsize=7.5, color="0.35")
    axes.locator_params(axis="x", nbins=6, steps=[1, 2, 5, 10])
    if column.title != metric.title:
        axes.set_xlabel(metric.title)
    left, right = axes.get_xlim()
    axes.set_xlim(left, right + 0.16 * (right - left))  # room for the differences


def _fences(rows: list[Row]) -> tuple[float, float]:
    values = [value for row in rows for value in (row.mean, row.published) if value is not None]
    first, third = np.percentile(values, [25, 75]) if values else (0.0, 0.0)
    # Three ranges between the quartiles, the box plot's "far out"; of a few methods, all are shown.
    reach = 3 * (third - first) if len(rows) > 4 else np.inf
    return float(first - reach), float(third + reach)


def _at_the_edge(axes: Axes, height: float, row: Row, *, below: bool, colour: str) -> None:
    text = row.text()
    if row.published is not None:
        text += f" (published {row.published_text()})"
    place = (0.01 if below else 0.86, height)
    _write(axes, f"◀ {text}" if below else f"{text} ▶", place, ha="left" if below else "right", color=colour)


def _interval(axes: Axes, height: float, mean: float | None, spread: float | None, style: dict[str, Any]) -> None:
    if mean is not None:
        axes.errorbar(mean, height, xerr=spread, fmt="o", **style)


def _write(axes: Axes, text: str, place: tuple[float, float], **style: Any) -> None:
    axes.annotate(text, place, xycoords=("axes fraction", "data"), va="center", fontsize=7.5, **style)


def _legend(figure: Figure) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=OURS, marker="o", markersize=5, label="measured here"),
        Line2D([], [], marker="o", label="published", **_THEIRS),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=2, frameon=False, fontsize=9)
