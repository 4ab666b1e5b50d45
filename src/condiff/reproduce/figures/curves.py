"""ROC and precision-recall curves of the methods, with their spread over the splits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from condiff.errors import InvalidInputError
from condiff.reproduce.curves import Kind, mean_curve
from condiff.reproduce.figures.canvas import COLOURS, HIGHLIGHT, panels, plain, save
from condiff.reproduce.rows import labels, method_place
from condiff.reproduce.summary import summarise

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from condiff.reproduce.runs import Run

#: Methods that are drawn in colour where nothing else is asked for; the others are grey.
SHOWN = ("AdaBoost", "P-NET", "ResNet", "COIN")
_AXES: dict[Kind, tuple[str, str, str]] = {
    "roc": ("ROC", "false-positive rate", "true-positive rate"),
    "prc": ("precision and recall", "recall", "precision"),
}
_AREAS: dict[Kind, str] = {"roc": "roc_auc", "prc": "auprc"}
_GREY = "0.72"


def roc_and_pr_curves(runs: Sequence[Run], target: Path, *, shown: Sequence[str] = SHOWN) -> None:
    """Write :func:`draw_curves`."""
    save(draw_curves(runs, shown=shown), target)


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
    _legend(figure, named, colours)
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


def _legend(figure: Figure, named: dict[str, list[Run]], colours: dict[str, str]) -> None:
    from matplotlib.lines import Line2D

    def text(label: str) -> str:
        areas = (np.mean([run.metrics[name] for run in named[label]]) for name in _AREAS.values())
        return plain(f"{label} ({' / '.join(f'{area:.3f}' for area in areas)})")

    # Those in colour first: who reads along a column finds them together.
    ordered = [*colours, *(label for label in named if label not in colours)]
    handles = [
        Line2D([], [], color=colours.get(label, _GREY), linewidth=1.9 if label in colours else 0.9, label=text(label))
        for label in ordered
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False, fontsize=8.5)
