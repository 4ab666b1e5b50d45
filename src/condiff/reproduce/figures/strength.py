"""The paper's ablation: what the strength of a diffusion layer does to the accuracy, for several numbers of layers."""

from __future__ import annotations

from collections import defaultdict
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np

from condiff.errors import InvalidInputError
from condiff.reproduce.figures.canvas import panels, plain, save
from condiff.reproduce.metrics import metric
from condiff.reproduce.rows import dataset_place, dataset_title

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from condiff.reproduce.runs import Run

_MEDIAN = {"color": "#E8820C", "linewidth": 1.6, "linestyle": "-"}
_MEAN = {"color": "#2E9E3F", "linewidth": 1.4, "linestyle": (0, (3, 1.5))}
_LIMITS: tuple[dict[str, Any], ...] = (
    {"color": "0.25", "linestyle": (0, (6, 2)), "linewidth": 1.1},
    {"color": "0.25", "linestyle": (0, (1, 1.5)), "linewidth": 1.4},
    {"color": "0.25", "linestyle": (0, (6, 2, 1, 2)), "linewidth": 1.1},
)


def strength_boxplots(
    runs: Sequence[Run], target: Path, *, limits: Mapping[str, Mapping[str, float]] | None = None
) -> None:
    """Write :func:`draw_strength`."""
    save(draw_strength(runs, limits=limits), target)


def draw_strength(runs: Sequence[Run], *, limits: Mapping[str, Mapping[str, float]] | None = None) -> Figure:
    """Box plots of the accuracy at each strength; a row of panels for each number of layers, a column a data set.

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
    _legend(figure, styles)
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


def _legend(figure: Figure, limits: Mapping[str, Mapping[str, Any]]) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], label=name, **style) for name, style in {"median": _MEDIAN, "mean": _MEAN, **limits}.items()
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=min(4, len(handles)), frameon=False, fontsize=8.5)
