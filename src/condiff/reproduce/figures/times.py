"""The paper's picture of time: what an epoch takes against what a whole run takes, coloured by accuracy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from condiff.errors import InvalidInputError
from condiff.reproduce.figures.canvas import HIGHLIGHT, panels, plain, save
from condiff.reproduce.figures.labels import Label, label_points
from condiff.reproduce.metrics import metric
from condiff.reproduce.published import published
from condiff.reproduce.rows import labels

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from condiff.reproduce.rows import Row

_PAPER = "0.55"


def time_complexity(rows: Sequence[Row], target: Path, *, with_published: bool = False) -> None:
    """Write :func:`draw_times`."""
    save(draw_times(rows, with_published=with_published), target)


def draw_times(rows: Sequence[Row], *, with_published: bool = False) -> Figure:
    """Seconds an epoch and seconds a run of every method, coloured by its accuracy; a panel for each data set.

    Methods that have no epochs have no place and are named in a corner. With ``with_published``, the paper's times, on
    an RTX 3090, are small hollow marks.
    """
    judged = [row for row in rows if row.metric == "accuracy" and row.mean is not None]
    datasets = list(dict.fromkeys(row.dataset for row in judged if row.seconds_per_epoch))
    if not datasets:
        raise InvalidInputError("no row has an accuracy and the time of an epoch, so there are no times to show")
    figure, [line] = panels(1, len(datasets), (6.4 * len(datasets), 5.0), grid="both")
    jobs = []
    for dataset, axes in zip(datasets, line, strict=True):
        here = [row for row in judged if row.dataset == dataset]
        timed = [row for row in here if row.seconds_per_epoch]
        written = _scatter(figure, axes, timed)
        if with_published:
            written += _scatter_published(axes, timed)
        untimed = [row.method for row in here if not row.seconds_per_epoch]
        if untimed:
            axes.set_title(f"without epochs: {', '.join(untimed)}", loc="right", fontsize=7.5, color="0.35")
        axes.set_title(plain(here[0].title), loc="left", fontsize=10)
        axes.set(xscale="log", yscale="log", xlabel="time of an epoch (s)")
        axes.margins(0.12)
        jobs.append((axes, written))
    line[0].set_ylabel("convergence time of a run (s)")
    for axes, written in jobs:  # last: labels keep clear of all that is there
        label_points(axes, written)
    return figure


def _scatter(figure: Figure, axes: Axes, rows: list[Row]) -> list[Label]:
    accuracy = [row.mean or 0.0 for row in rows]
    # One method far below the others would take all the colours; it shares the lowest, as a box plot's outlier would.
    first, third = np.percentile(accuracy, [25, 75])
    low = max(min(accuracy), first - 1.5 * (third - first))
    x, y = [row.seconds_per_epoch or 0.0 for row in rows], [row.seconds_per_run or 0.0 for row in rows]
    style: dict[str, Any] = {"edgecolors": "0.25", "linewidths": 0.6, "zorder": 3}
    marks = axes.scatter(x, y, s=46, c=accuracy, cmap="viridis", vmin=low, **style)
    bar = figure.colorbar(marks, ax=axes, extend="min" if low > min(accuracy) else "neither", pad=0.02, aspect=30)
    bar.set_label(metric("accuracy").title)
    bar.outline.set_visible(False)
    colours = [HIGHLIGHT if row.method == "COIN" else "0.1" for row in rows]
    return [Label(*each) for each in zip(x, y, labels(rows), colours, strict=True)]


def _scatter_published(axes: Axes, rows: list[Row]) -> list[Label]:
    found = {}
    for row in rows:
        epoch, run = (
            published(row.task, row.dataset, row.method, f"{name}_rtx3090")
            for name in ("seconds_per_epoch", "seconds_to_converge")
        )
        if epoch and run:
            found[row.method] = Label(epoch.value, run.value, row.method, _PAPER)
    if found:
        x, y = [label.x for label in found.values()], [label.y for label in found.values()]
        axes.scatter(x, y, s=16, facecolors="none", edgecolors=_PAPER, linewidths=0.8)
        about = "hollow: published, on an RTX 3090"
        axes.annotate(about, (0.02, 0.98), xycoords="axes fraction", va="top", fontsize=8, color=_PAPER)
    return list(found.values())
