"""Accuracy over the number of labels per class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from condiff.pages.canvas import class_colours, legend_below, mark, panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from condiff.reproduce.rows import Row
#: Accuracy below which a picture does not go: methods that fail there would press all others together.
LOWEST = 75.0


def draw_low_labels(rows: Sequence[Row], features: str) -> Figure:
    """One line per method, with the standard error of the mean over draws; COIN is drawn thick."""
    mine = [row for row in rows if row.metric == "accuracy" and row.condition.get("features") == features]
    methods = list(dict.fromkeys(row.method for row in mine))
    figure, [[axes]] = panels(1, 1, (7.4, 4.6))
    handles = []
    for method, colour in zip(methods, class_colours(len(methods)), strict=True):
        own = [row for row in mine if row.method == method and row.mean is not None]
        found = sorted((int(row.condition.number("labels")), row.mean, row.stderr or 0.0) for row in own)
        width = 2.6 if method.startswith("COIN") else 1.3
        labels, means, errors = zip(*found, strict=True)
        axes.errorbar(labels, means, yerr=errors, color=colour, linewidth=width, marker="o", markersize=4)
        named = f"{method} ({draws_of([row.splits for row in own])})"
        if min(means) < LOWEST:  # cut off by the edge
            named += f", {min(means):.0f} to {max(means):.0f} %"
        handles.append(mark(named, color=colour, linewidth=width, marker="o", markersize=4))
    axes.set(xlabel="labels per class", ylabel="accuracy (%)", xticks=range(1, 6))
    if axes.get_ylim()[0] < LOWEST < axes.get_ylim()[1]:
        axes.set_ylim(bottom=LOWEST)
    title = f"MNIST, {features}: means and standard errors over draws of the labels (how many)"
    axes.set_title(title, fontsize=10, color="0.3", loc="left")
    legend_below(figure, handles, columns=3, fontsize=8)
    return figure


def draws_of(numbers: Sequence[int]) -> str:
    """How many draws are behind the points of a line: one number, or the fewest and the most."""
    return f"{min(numbers)}" if min(numbers) == max(numbers) else f"{min(numbers)} to {max(numbers)}"
