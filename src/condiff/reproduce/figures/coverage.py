"""How often prediction sets held the truth, and how large they were, data set by data set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from condiff.pages.canvas import COLOURS, legend_below, mark, panels, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from condiff.reproduce.rows import Row
    from condiff.reproduce.runs import Condition


def draw_coverage(rows: Sequence[Row], promises: Mapping[tuple[str, Condition], float]) -> Figure:
    """Coverage with its 95 % interval on the left, size or width relative to split conformal's on the right.

    ``promises`` are what the labels could promise, by data set and condition: it may be less than what was asked for.
    """
    datasets = list(dict.fromkeys(row.dataset for row in rows))
    methods = list(dict.fromkeys(row.method for row in rows))
    figure, [[left, right]] = panels(1, 2, (9.6, 1.4 + 0.42 * len(datasets)), grid="x", sharey=True)
    asked = 100 * rows[0].condition.number("coverage")
    left.axvline(asked, color="0.6", linewidth=1.0, linestyle="--")
    sizes = {(row.dataset, row.method): row.mean for row in rows if row.metric in ("set_size", "width")}
    for place, method in enumerate(methods):
        shift = 0.16 * (place - (len(methods) - 1) / 2)
        colour = COLOURS[place % len(COLOURS)]
        for height, dataset in enumerate(datasets):
            promise = promises.get((dataset, rows[0].condition), asked)
            left.plot([promise, promise], [height - 0.36, height + 0.36], color="0.3", linewidth=1.6)
            for row in rows:
                if (row.dataset, row.method, row.metric) == (dataset, method, "coverage") and row.mean is not None:
                    error = 1.96 * (row.stderr or 0.0)
                    left.errorbar(row.mean, height + shift, xerr=error, fmt="o", color=colour, markersize=4)
            size, other = sizes.get((dataset, method)), sizes.get((dataset, "split"))
            if size is not None and other:
                right.plot(size / other, height + shift, "o", color=colour, markersize=4)
    left.set(yticks=range(len(datasets)), xlabel="coverage (%), mean over draws with its 95 % interval")
    left.set_yticklabels([plain(name) for name in datasets])
    left.invert_yaxis()
    right.axvline(1.0, color="0.3", linewidth=1.0, linestyle="--")
    right.set(xlabel="size or width, relative to split conformal")
    handles = [mark("promised by cross", color="0.3", linewidth=1.6)]
    handles += [
        mark(method, color=COLOURS[place % len(COLOURS)], marker="o", linestyle="")
        for place, method in enumerate(methods)
    ]
    legend_below(figure, handles)
    return figure


def draw_classes(classes: Mapping[tuple[str, str, str], float], asked: float) -> Figure:
    """The coverage of every class by itself: one dot each, by data set and method.

    Parameters
    ----------
    classes
        Mean coverage in percent by data set, method and class.
    asked
        The coverage that was asked for, in percent.
    """
    datasets = list(dict.fromkeys(dataset for dataset, _, _ in classes))
    methods = list(dict.fromkeys(method for _, method, _ in classes))
    figure, [[axes]] = panels(1, 1, (7.2, 1.4 + 0.42 * len(datasets)), grid="x")
    axes.axvline(asked, color="0.6", linewidth=1.0, linestyle="--")
    for place, method in enumerate(methods):
        shift, colour = 0.2 * (place - (len(methods) - 1) / 2), COLOURS[place % len(COLOURS)]
        for height, dataset in enumerate(datasets):
            values = [mean for (name, way, _), mean in classes.items() if (name, way) == (dataset, method)]
            if values:
                axes.plot([min(values), max(values)], [height + shift] * 2, color=colour, linewidth=1.0)
                axes.plot(values, [height + shift] * len(values), "o", color=colour, markersize=4)
    axes.set(yticks=range(len(datasets)), xlabel="coverage of a class by itself (%), mean over draws")
    axes.set_yticklabels([plain(name) for name in datasets])
    axes.invert_yaxis()
    handles = [
        mark(method, color=COLOURS[place % len(COLOURS)], marker="o", linestyle="")
        for place, method in enumerate(methods)
    ]
    legend_below(figure, handles)
    return figure
