"""The picture of scale: time, memory and accuracy against the number of points, for every method."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from condiff.reproduce.bench.scale.sweep import exponents
from condiff.reproduce.figures.canvas import COLOURS, OURS, panels, save

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.figure import Figure


def scale_curves(rows: Sequence[dict[str, Any]], target: Path) -> None:
    """Write :func:`draw_scale`."""
    save(draw_scale(rows), target)


def draw_scale(rows: Sequence[dict[str, Any]]) -> Figure:
    """Three panels; a line ends where its method gave up, and its exponent of time stands in the legend."""
    from matplotlib.ticker import LogLocator, NullLocator

    measured = [row for row in rows if row["status"] == "ok" and row["points"]]
    slopes = exponents(measured)
    figure, found = panels(1, 3, (10.5, 3.6), grid="both")
    methods = list(dict.fromkeys(row["method"] for row in measured))
    others = iter([colour for colour in COLOURS if colour != OURS] * 2)
    for method in methods:
        chosen = sorted((row for row in measured if row["method"] == method), key=lambda row: row["points"])
        colour = OURS if method == "COIN" else next(others)
        label = f"{method} ({slopes[method]:.2f})" if method in slopes else method
        sizes = [row["points"] for row in chosen]
        for axes, field, factor in zip(
            found[0], ("seconds", "memory_mb", "accuracy"), (1.0, 1 / 1024, 100.0), strict=True
        ):
            values = [factor * row[field] for row in chosen]
            axes.plot(
                sizes, values, "o-", color=colour, markersize=4, label=label, linewidth=2 if method == "COIN" else 1
            )
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
    handles, names = found[0][0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=len(names), frameon=False, fontsize=7)
    found[0][2].legend(handles=[found[0][2].lines[-1]], frameon=False, fontsize=7)
    return figure
