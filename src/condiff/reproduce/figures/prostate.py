"""Prostate cancer: ROC and precision-recall curves, and the genes that lead the answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from condiff.errors import InvalidInputError
from condiff.pages.canvas import COLOURS, HIGHLIGHT, legend_below, mark, panels, patch, plain
from condiff.reproduce.curves import Kind, mean_curve
from condiff.reproduce.rows import labels, method_place
from condiff.reproduce.summary import summarise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from condiff.reproduce.genes import Alteration
    from condiff.reproduce.runs import Run

#: Methods drawn in colour by default; the others are grey.
SHOWN = ("AdaBoost", "P-NET", "ResNet", "COIN")
_AXES: dict[Kind, tuple[str, str, str]] = {
    "roc": ("ROC", "false-positive rate", "true-positive rate"),
    "prc": ("precision and recall", "recall", "precision"),
}
_AREAS: dict[Kind, str] = {"roc": "roc_auc", "prc": "auprc"}
_GREY = "0.72"


def draw_curves(runs: Sequence[Run], *, shown: Sequence[str] = SHOWN) -> Figure:
    """Mean curves of every method: those of ``shown`` in colour with a band of one standard deviation over the splits.

    Parameters
    ----------
    runs
        Runs with the points of their curves, of one data set.
    shown
        Methods to put forward, by name; the others are thin and grey, without a band.
    """
    named = _by_label(runs)
    if not named:
        raise InvalidInputError("no run has the points of its curves, so there are none to show")
    forward = [label for label, own in named.items() if own[0].method in shown]
    others = [colour for colour in COLOURS if colour != HIGHLIGHT]
    colours = {
        label: HIGHLIGHT if named[label][0].method == "COIN" else others[place % len(others)]
        for place, label in enumerate(forward)
    }
    figure, [axes] = panels(1, 2, (9.6, 5.95), grid="both")
    for kind, panel in zip(_AXES, axes, strict=True):
        for label, own in named.items():
            _draw(panel, own, kind, colours.get(label))
        _finish(panel, kind)
    splits = len({run.split for own in named.values() for run in own})
    band = f"; band: one standard deviation over {splits} splits" if splits > 1 else ""
    figure.suptitle(f"mean of all runs{band}; in brackets: the areas under both curves", fontsize=9, color="0.3")
    # Those in colour first: who reads along a column finds them together.
    handles = [
        mark(
            _with_areas(label, named[label]),
            color=colours.get(label, _GREY),
            linewidth=1.9 if label in colours else 0.9,
        )
        for label in [*colours, *(label for label in named if label not in colours)]
    ]
    legend_below(figure, handles, 3, 8.5)
    return figure


def _by_label(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """The runs of each method and its settings, in the paper's order, by what the table calls them."""
    with_curves = [run for run in runs if mean_curve([run], "roc") is not None]
    rows = [row for row in summarise(with_curves) if row.metric == _AREAS["roc"]]
    rows.sort(key=lambda row: method_place(row.task, row.method))
    return {
        label: [run for run in with_curves if (run.method, run.settings) == (row.method, row.settings)]
        for row, label in zip(rows, labels(rows), strict=True)
    }


def _draw(axes: Axes, runs: Sequence[Run], kind: Kind, colour: str | None) -> None:
    curve = mean_curve(runs, kind)
    assert curve is not None
    places, mean, spread = curve.places, curve.mean, curve.spread
    if kind == "roc":
        # Where every ROC curve begins and ends.
        places, mean = np.array([0.0, *places, 1.0]), np.array([0.0, *mean, 1.0])
        spread = np.array([0.0, *spread, 0.0])
    if colour is None:
        axes.plot(places, mean, color=_GREY, linewidth=0.9, zorder=1.5)
        return
    axes.plot(places, mean, color=colour, linewidth=1.9, zorder=3)
    low, high = np.clip([mean - spread, mean + spread], 0, 1)
    axes.fill_between(places, low, high, color=colour, alpha=0.14, linewidth=0, zorder=2)


def _finish(axes: Axes, kind: Kind) -> None:
    title, across, up = _AXES[kind]
    if kind == "roc":
        axes.plot([0, 1], [0, 1], color="0.45", linewidth=0.9, linestyle=(0, (1, 2)))
    axes.set(xlim=(0, 1), ylim=(0, 1.01), xlabel=across, ylabel=up)
    axes.set_title(title, loc="left", fontsize=10)
    axes.set_aspect("equal", adjustable="box")


def _with_areas(label: str, runs: Sequence[Run]) -> str:
    areas = (np.mean([run.metrics[name] for run in runs]) for name in _AREAS.values())
    return plain(f"{label} ({' / '.join(f'{area:.3f}' for area in areas)})")


def draw_genes(alterations: Sequence[Alteration]) -> Figure:
    """What each alteration adds to the output: a bar each, coloured by its kind, with how many patients have it."""
    if not alterations:
        raise InvalidInputError("there are no alterations to show")
    kinds = list(dict.fromkeys(sorted(each.kind for each in alterations)))
    colours = dict(zip(kinds, COLOURS * len(kinds), strict=False))
    figure, [[axes]] = panels(1, 1, (6.4, 1.3 + 0.26 * len(alterations)), grid="x")
    for height, each in enumerate(alterations):
        axes.barh(
            height,
            100 * each.effect,
            xerr=100 * each.spread,
            height=0.72,
            color=colours[each.kind],
            alpha=0.9,
            error_kw={"ecolor": "0.25", "elinewidth": 1.0, "capsize": 2.0},
        )
        end = 100 * (each.effect + (each.spread if each.effect >= 0 else -each.spread))
        axes.annotate(
            f"{each.patients:,}",
            (end, height),
            (4 if each.effect >= 0 else -4, 0),
            textcoords="offset points",
            ha="left" if each.effect >= 0 else "right",
            va="center",
            fontsize=7.5,
            color="0.35",
        )
    axes.axvline(0.0, color="0.35", linewidth=0.8)
    axes.set_yticks(range(len(alterations)), [plain(each.gene) for each in alterations], style="italic", fontsize=8.5)
    axes.set_ylim(len(alterations) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.margins(x=0.1)
    axes.set_xlabel("added to the probability of a metastatic cancer, mean over all patients (points)")
    about = "beside each bar: patients who have it; whiskers: standard deviation over initialisations"
    axes.set_title(about, loc="right", fontsize=8, color="0.35")
    legend_below(figure, [patch(plain(kind), color=colour, alpha=0.9) for kind, colour in colours.items()])
    return figure
