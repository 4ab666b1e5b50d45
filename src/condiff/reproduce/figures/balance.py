"""What few-shot methods lose where queries are not balanced: a method that relies on balance is told by a long bar."""

from __future__ import annotations

from typing import TYPE_CHECKING

from condiff.errors import InvalidInputError
from condiff.reproduce.figures.canvas import HIGHLIGHT, OURS, save
from condiff.reproduce.figures.lines import line_panels
from condiff.reproduce.tables import Column, lay_out

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.figure import Figure

    from condiff.reproduce.rows import Row

_SUFFIX = "-unbalanced"


def balance_bars(rows: Sequence[Row], target: Path) -> None:
    """Write :func:`draw_balance`."""
    save(draw_balance(rows), target)


def with_and_without_balance(rows: Sequence[Row]) -> list[str]:
    """The data sets that were measured both ways, by their balanced names."""
    names = dict.fromkeys(row.dataset for row in rows)
    return [name for name in names if name + _SUFFIX in names]


def draw_balance(rows: Sequence[Row]) -> Figure:
    """A line a method, a panel a data set: from balanced queries, filled, to unbalanced ones, hollow.

    The difference is written at the right.
    """
    names = with_and_without_balance(rows)
    if not names:
        raise InvalidInputError("nothing was measured both with balanced and with unbalanced queries")
    grid = lay_out([row for row in rows if row.dataset.removesuffix(_SUFFIX) in names])
    columns: dict[str, Column] = {column.dataset: column for column in grid.columns}
    figure, found = line_panels(grid, width=3.8, height=0.29, columns=[columns[name] for name in names])
    for name, axes in zip(names, found, strict=True):
        for height, line in enumerate(grid.lines):
            balanced, not_balanced = (grid.cell(line, columns[each]) for each in (name, name + _SUFFIX))
            if balanced is None or not_balanced is None or balanced.mean is None or not_balanced.mean is None:
                continue
            colour = HIGHLIGHT if line.method == "COIN" else OURS
            values = balanced.mean, not_balanced.mean
            axes.plot(values, (height, height), color=colour, linewidth=1.8, alpha=0.45, zorder=2)
            axes.plot(values[0], height, "o", color=colour, markersize=5.5)
            axes.plot(values[1], height, "o", color=colour, markersize=5.5, markerfacecolor="white")
            text = columns[name].metric.difference_text(values[1] - values[0])
            place = ("axes fraction", "data")
            axes.annotate(text, (1.0, height), xycoords=place, ha="right", va="center", fontsize=7.5)
        axes.set_title("difference", loc="right", fontsize=7.5, color="0.35")
        axes.set_xlabel(columns[name].metric.title)
        left, right = axes.get_xlim()
        axes.set_xlim(left, right + 0.16 * (right - left))  # room for the differences
    _legend(figure)
    return figure


def _legend(figure: Figure) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=OURS, linestyle="", marker="o", label="balanced queries"),
        Line2D([], [], color=OURS, linestyle="", marker="o", markerfacecolor="white", label="unbalanced queries"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=2, frameon=False, fontsize=9)
