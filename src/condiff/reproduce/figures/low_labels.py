"""Accuracy over the number of labels per class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from condiff.pages.canvas import class_colours, legend_below, mark, panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from condiff.reproduce.rows import Row


def draw_low_labels(rows: Sequence[Row], features: str) -> Figure:
    """One line per method, with the standard error of the mean over draws; COIN is drawn thick."""
    mine = [row for row in rows if row.metric == "accuracy" and row.condition.get("features") == features]
    methods = list(dict.fromkeys(row.method for row in mine))
    figure, [[axes]] = panels(1, 1, (7.4, 4.6))
    handles = []
    for method, colour in zip(methods, class_colours(len(methods)), strict=True):
        found = sorted((int(row.condition.number("labels")), row.mean, row.stderr or 0.0) for row in mine
                       if row.method == method and row.mean is not None)  # fmt: skip
        width = 2.6 if method.startswith("COIN") else 1.3
        labels, means, errors = zip(*found, strict=True)
        axes.errorbar(labels, means, yerr=errors, color=colour, linewidth=width, marker="o", markersize=4)
        handles.append(mark(method, color=colour, linewidth=width, marker="o", markersize=4))
    draws = max((row.splits for row in mine), default=0)
    axes.set(xlabel="labels per class", ylabel="accuracy (%)", xticks=range(1, 6))
    axes.set_title(f"MNIST, {features}: means over {draws} draws", fontsize=10, color="0.3", loc="left")
    legend_below(figure, handles, columns=5, fontsize=8)
    return figure
