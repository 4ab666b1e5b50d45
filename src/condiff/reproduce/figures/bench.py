"""What the benchmarks measured: how time and memory grow with the size of a problem."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from condiff.pages.canvas import COLOURS, HIGHLIGHT, OURS, panels
from condiff.reproduce.bench.scale.sweep import exponents
from condiff.reproduce.bench.speed.growth import exponent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure


def draw_growth(rows: Sequence[dict[str, Any]]) -> Figure:
    """A column per size: time above, with the machine's bound dotted, and memory below; exponents in the corners."""
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
            slope = round(exponent(list(rows), axis, field), 1) + 0.0  # not -0.0
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


def draw_scale(rows: Sequence[dict[str, Any]]) -> Figure:
    """Time, memory and accuracy against the number of points.

    A line ends where its method gave up, and its exponent of time stands in the legend.
    """
    from matplotlib.ticker import LogLocator, NullLocator

    measured = [row for row in rows if row["status"] == "ok" and row["points"]]
    slopes = exponents(measured)
    figure, found = panels(1, 3, (10.5, 3.6), grid="both")
    methods = list(dict.fromkeys(row["method"] for row in measured))
    others = iter([colour for colour in COLOURS if colour != HIGHLIGHT] * 2)
    for method in methods:
        chosen = sorted((row for row in measured if row["method"] == method), key=lambda row: row["points"])
        colour = HIGHLIGHT if method.startswith("COIN") else next(others)
        line, width = ("o-", 2) if method == "COIN" else ("o--" if method.startswith("COIN") else "o-", 1)
        label = f"{method} ({slopes[method]:.2f})" if method in slopes else method
        sizes = [row["points"] for row in chosen]
        for axes, field, factor in zip(
            found[0], ("seconds", "memory_mb", "accuracy"), (1.0, 1 / 1024, 100.0), strict=True
        ):
            values = [factor * row[field] for row in chosen]
            axes.plot(sizes, values, line, color=colour, markersize=4, label=label, linewidth=width)
    best = {row["points"]: 100 * row["best_accuracy"] for row in measured}
    found[0][2].plot(sorted(best), [best[n] for n in sorted(best)], ":", color="black", label="best possible")
    for axes, name in zip(found[0], ("seconds", "peak memory (GB)", "accuracy (%)"), strict=True):
        axes.set_xscale("log")
        axes.set_xlabel("points")
        axes.set_ylabel(name)
    for axes in found[0][:2]:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter("{x:g}")
    handles = [*found[0][0].lines, found[0][2].lines[-1]]
    figure.legend(handles=handles, loc="outside lower center", ncols=-(-len(handles) // 2), frameon=False, fontsize=7)
    return figure
