"""Pictures along a number: the strength of a layer, the diffusion time, the labels per class."""

from __future__ import annotations

from collections import defaultdict
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np

from condiff.errors import InvalidInputError
from condiff.pages.canvas import COLOURS, HIGHLIGHT, legend_below, mark, panels, plain
from condiff.reproduce.metrics import metric
from condiff.reproduce.rows import dataset_place, dataset_title

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from condiff.reproduce import demo
    from condiff.reproduce.runs import Run

_MEDIAN = {"color": "#E8820C", "linewidth": 1.6, "linestyle": "-"}
_MEAN = {"color": "#2E9E3F", "linewidth": 1.4, "linestyle": (0, (3, 1.5))}
_LIMITS: tuple[dict[str, Any], ...] = (
    {"color": "0.25", "linestyle": (0, (6, 2)), "linewidth": 1.1},
    {"color": "0.25", "linestyle": (0, (1, 1.5)), "linewidth": 1.4},
    {"color": "0.25", "linestyle": (0, (6, 2, 1, 2)), "linewidth": 1.1},
)
_MARKS = "osD^v<>Ph"
# Room that a name needs at the right, as a part of the panel's height.
_NAME = 0.042


def draw_strength(runs: Sequence[Run], *, limits: Mapping[str, Mapping[str, float]] | None = None) -> Figure:
    """The paper's ablation: box plots of the accuracy at each strength.

    A row of panels for each number of layers, a column for each data set.

    Parameters
    ----------
    runs
        Runs with the settings ``layers`` and ``strength``.
    limits
        For each data set, strengths to mark by name: ``{"cora": {"stable up to": 0.346, "positive up to": 0.174}}``.
        The same name has the same line in all panels.
    """
    cells: dict[tuple[int, str], dict[float, list[float]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        number, strength = run.settings.get("layers"), run.settings.get("strength")
        if isinstance(number, int) and isinstance(strength, int | float) and "accuracy" in run.metrics:
            cells[number, run.dataset][strength].append(run.metrics["accuracy"])
    if not cells:
        raise InvalidInputError("no run has numbers for 'layers' and 'strength', so there is nothing to compare")
    task, layers = runs[0].task, sorted({number for number, _ in cells})
    datasets = sorted({dataset for _, dataset in cells}, key=lambda dataset: dataset_place(task, dataset))
    limits = {dataset: (limits or {}).get(dataset, {}) for dataset in datasets}
    names = dict.fromkeys(name for found in limits.values() for name in found)
    styles = dict(zip(names, cycle(_LIMITS), strict=False))
    size = (max(6.4, 4.2 * len(datasets)), 0.6 + 2.7 * len(layers))
    figure, grid = panels(len(layers), len(datasets), size, sharex="col", sharey="col")
    for number, line in zip(layers, grid, strict=True):
        for dataset, axes in zip(datasets, line, strict=True):
            if (number, dataset) in cells:
                _boxes(axes, cells[number, dataset])
            for name, limit in limits[dataset].items():
                axes.axvline(limit, zorder=1.5, **styles[name])
            axes.set_title(f"{plain(dataset_title(task, dataset))}, $K = {number}$", fontsize=10)
        line[0].set_ylabel(metric("accuracy").title)
    for axes in grid[-1]:
        axes.set_xlabel(r"strength of a layer, $\sigma^2$")
    shown = {"median": _MEDIAN, "mean": _MEAN, **styles}
    legend_below(figure, [mark(name, **style) for name, style in shown.items()], min(4, len(shown)), 8.5)
    return figure


def _boxes(axes: Axes, found: dict[float, list[float]]) -> None:
    strengths = sorted(found)
    gap = min(np.diff(strengths), default=1.0)
    axes.boxplot(
        [found[strength] for strength in strengths],
        positions=strengths,
        widths=0.62 * gap,
        manage_ticks=False,
        whis=1.5,
        showmeans=True,
        meanline=True,
        medianprops=_MEDIAN,
        meanprops=_MEAN,
        patch_artist=True,
        boxprops={"facecolor": "white", "edgecolor": "0.3", "linewidth": 0.9},
        whiskerprops={"color": "0.3", "linewidth": 0.9},
        capprops={"color": "0.3", "linewidth": 0.9},
        flierprops={"marker": "o", "markersize": 2.4, "markerfacecolor": "none", "markeredgecolor": "0.45"},
    )


def draw_time(runs: Sequence[demo.Run]) -> Figure:
    """How far to diffuse: the accuracy of COIN against the diffusion time, relative to the automatic one."""
    figure, [[axes]] = panels(1, 1, (7.0, 4.2))
    timed = [run for run in runs if run.time is not None]
    for colour, labels in zip(COLOURS, sorted({run.labels for run in timed}), strict=False):
        times = sorted({run.time for run in timed if run.labels == labels and run.time is not None})
        found = [[100 * r.accuracy for r in timed if (r.labels, r.time) == (labels, time)] for time in times]
        mean = np.array([np.mean(values) for values in found])
        spread = np.array([np.std(values) for values in found])
        noun = "label" if labels == 1 else "labels"
        axes.plot(times, mean, "o-", color=colour, label=f"{labels} {noun} per class", markersize=4)
        axes.fill_between(times, mean - spread, mean + spread, color=colour, alpha=0.15, linewidth=0)
    axes.axvline(1.0, color="0.35", linestyle="--", linewidth=1)
    axes.annotate("chosen from the graph ", (1.0, 0.02), xycoords=("data", "axes fraction"), ha="right", color="0.35")
    axes.set_xscale("symlog", linthresh=0.03)
    axes.set_xlim(-0.004, 11.5)
    shown = [0, 0.03, 0.1, 0.3, 1, 3, 10]
    axes.set_xticks(shown, [f"{tick:g}" for tick in shown])
    axes.set_xlabel("diffusion time, relative to the automatic one (0: the network alone)")
    axes.set_ylabel("accuracy on unlabelled digits (%)")
    draws = len({run.draw for run in timed})
    axes.set_title(f"COIN on the digits: mean ± standard deviation over {draws} draws of the labels", fontsize=10)
    axes.legend(frameon=False, loc=(0.44, 0.24))
    return figure


def draw_labels(series: Mapping[str, Sequence[tuple[float, float]]]) -> Figure:
    """The demo's accuracy against the labels per class, a line per method."""
    figure, [[axes]] = panels(1, 1, (9.0, 4.2), grid="both")
    styles = line_styles(list(series))
    for name, style in styles.items():
        axes.plot(*zip(*series[name], strict=True), **style)
    numbers = sorted({number for points in series.values() for number, _ in points})
    axes.set_xticks(numbers, [f"{number:g}" for number in numbers])
    axes.set(xlabel="labels per class", ylabel="accuracy on unlabelled digits (%)")
    name_at_right(axes, {name: points[-1] for name, points in series.items()}, styles)
    return figure


def name_at_right(axes: Axes, ends: Mapping[str, tuple[float, float]], styles: Mapping[str, dict[str, Any]]) -> None:
    """Write the names beside the panel, as high as their lines' ends or as close to that as there is room."""
    order = sorted(ends, key=lambda name: ends[name][1])
    # From data to parts of the panel, whatever its scales.
    starts = axes.transAxes.inverted().transform(axes.transData.transform([ends[name] for name in order]))
    for name, place, (start, own) in zip(order, apart(starts[:, 1], _NAME), starts, strict=True):
        colour, way = styles[name]["color"], [start + 0.01, 1.035]
        axes.plot(way, [own, place], color=colour, linewidth=0.6, transform=axes.transAxes, clip_on=False)
        axes.annotate(
            plain(name),
            (1.045, place),
            xycoords="axes fraction",
            va="center",
            fontsize=8,
            color=colour,
            fontweight="bold" if name.startswith("COIN") else "normal",
        )


def apart(wanted: np.ndarray[Any, Any], gap: float) -> np.ndarray[Any, Any]:
    """Ascending places that are at least ``gap`` apart, the closest to these in the least squares sense."""
    # Less the gaps before them they must only not fall: the isotonic regression, by pooling neighbours that do.
    shifted = wanted - gap * np.arange(len(wanted))
    pools: list[tuple[float, int]] = []
    for value in shifted:
        total, count = float(value), 1
        while pools and pools[-1][0] / pools[-1][1] > total / count:
            before, number = pools.pop()
            total, count = total + before, count + number
        pools.append((total, count))
    level = np.concatenate([np.full(count, total / count) for total, count in pools]) if pools else shifted
    return np.asarray(level + gap * np.arange(len(wanted)))


def line_styles(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Colours, marks and dashes that tell lines apart; COIN's is thick and on top."""
    others = [colour for colour in (*COLOURS, "0.45") if colour != HIGHLIGHT]
    styles: dict[str, dict[str, Any]] = {}
    for number, name in enumerate(name for name in names if name != "COIN"):
        styles[name] = {
            "color": others[number % len(others)],
            "marker": _MARKS[number % len(_MARKS)],
            "markersize": 3.6,
            "linewidth": 1.1,
            "linestyle": "-" if number < len(others) else (0, (4, 1.5)),
        }
    if "COIN" in names:
        styles["COIN"] = {"color": HIGHLIGHT, "marker": "o", "markersize": 4.6, "linewidth": 2.4, "zorder": 5}
    return styles
