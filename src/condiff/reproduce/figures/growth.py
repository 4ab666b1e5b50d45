"""The picture of growth: seconds and megabytes against each size, with the machine's own bound."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from condiff.reproduce.bench.speed.growth import exponent
from condiff.reproduce.figures.canvas import COLOURS, HIGHLIGHT, OURS, panels, save

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.figure import Figure


def growth_curves(rows: Sequence[dict[str, Any]], target: Path) -> None:
    """Write :func:`draw_growth`."""
    save(draw_growth(rows), target)


def draw_growth(rows: Sequence[dict[str, Any]]) -> Figure:
    """A column an axis: time above, with the bound as a dotted line, and memory below; the exponents in the corners."""
    axes_names = list(dict.fromkeys(row["axis"] for row in rows))
    figure, found = panels(2, len(axes_names), (2.4 * len(axes_names), 4.2), grid="both", sharey="row", sharex="col")
    for column, axis in enumerate(axes_names):
        chosen = [row for row in rows if row["axis"] == axis]
        values = [row["value"] for row in chosen]
        upper, lower = found[0][column], found[1][column]
        bound = [row["bound_seconds"] for row in chosen]
        upper.plot(values, bound, ":", color=COLOURS[2], label="bound of the machine")
        for axes, field, colour in ((upper, "seconds", OURS), (lower, "memory_mb", HIGHLIGHT)):
            axes.plot(values, [row[field] for row in chosen], "o-", color=colour, markersize=4, label="measured")
            axes.set_xscale("log")
            axes.set_yscale("log")
            slope = exponent(list(rows), axis, field)
            axes.text(0.05, 0.93, f"exponent {slope:.1f}", transform=axes.transAxes, va="top", fontsize=8)
            axes.set_xticks(values[::2], [_short(value) for value in values[::2]])
            axes.set_xticks([], minor=True)
            axes.yaxis.set_minor_formatter("")
        lower.set_xlabel(axis)
    found[0][0].set_ylabel("seconds of 20 epochs")
    found[1][0].set_ylabel("peak memory (MB)")
    found[0][-1].legend(frameon=False, fontsize=7, loc="lower right")
    return figure


def _short(value: float) -> str:
    """1,400 as 1.4k."""
    return f"{value / 1000:g}k" if value >= 1000 else f"{value:g}"
