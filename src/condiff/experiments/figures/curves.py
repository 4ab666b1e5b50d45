"""ROC and precision-recall curves of the methods, with their spread over the splits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from condiff.errors import InvalidInputError
from condiff.experiments.curves import Curve, Kind, mean_curve
from condiff.experiments.figures.canvas import COLOURS, HIGHLIGHT, panels, plain, save
from condiff.experiments.summary import labels, method_place, summarise

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from condiff.experiments.runs import Run

#: Methods that are drawn in colour where nothing else is asked for; the others are grey.
SHOWN = ("COIN", "ResNet", "P-NET", "AdaBoost")
_AXES: dict[Kind, tuple[str, str, str]] = {
    "roc": ("ROC", "false-positive rate", "true-positive rate"),
    "prc": ("precision and recall", "recall", "precision"),
}
_AREAS: dict[Kind, str] = {"roc": "roc_auc", "prc": "auprc"}


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
    figure, [axes] = panels(1, 2, (10.4, 5.0), grid="both")
    others = [colour for colour in COLOURS if colour != HIGHLIGHT]
    coloured = [label for label, own in named.items() if own[0].method in shown]
    colours = {
        label: HIGHLIGHT if named[label][0].method == "COIN" else others[place % len(others)]
        for place, label in enumerate(coloured)
    }
    for kind, panel in zip(_AXES, axes, strict=True):
        for label, own in named.items():
            curve = mean_curve(own, kind)
            assert curve is not None
            text = f"{label} ({_area(own, _AREAS[kind]):.3f})"
            _draw(panel, curve, plain(text), colours.get(label))
        _finish(panel, kind, runs)
    splits = max(curve.splits for own in named.values() if (curve := mean_curve(own, "roc")) is not None)
    about = f"mean over all runs; the band is one standard deviation over the {splits} splits" if splits > 1 else "mean"
    figure.suptitle(f"{about}; in brackets the area", fontsize=9, color="0.3")
    return figure


def _by_label(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """The runs of each method and its settings, in the paper's order, by what the table calls them."""
    with_curves = [run for run in runs if mean_curve([run], "roc") is not None]
    rows = [row for row in summarise(with_curves) if row["metric"] == _AREAS["roc"]]
    rows.sort(key=lambda row: method_place(row["task"], row["method"]))
    return {
        label: [run for run in with_curves if (run.method, run.settings) == (row["method"], row["settings"])]
        for row, label in zip(rows, labels(rows), strict=True)
    }


def _area(runs: Sequence[Run], name: str) -> float:
    return sum(run.metrics[name] for run in runs) / len(runs)


def _draw(axes: Axes, curve: Curve, label: str, colour: str | None) -> None:
    if colour is None:
        axes.plot(curve.places, curve.mean, color="0.72", linewidth=0.9, zorder=1.5, label=label)
        return
    axes.plot(curve.places, curve.mean, color=colour, linewidth=1.9, zorder=3, label=label)
    low, high = curve.mean - curve.spread, curve.mean + curve.spread
    axes.fill_between(curve.places, low, high, color=colour, alpha=0.13, linewidth=0, zorder=2)


def _finish(axes: Axes, kind: Kind, runs: Sequence[Run]) -> None:
    title, across, up = _AXES[kind]
    if kind == "roc":
        axes.plot([0, 1], [0, 1], color="0.45", linewidth=0.9, linestyle=(0, (1, 2)))
    axes.set(xlim=(0, 1), ylim=(0, 1.01), xlabel=across, ylabel=up)
    axes.set_title(title, loc="left", fontsize=10)
    axes.set_aspect("equal", adjustable="box")
    axes.legend(frameon=False, fontsize=7.5, loc="lower right" if kind == "roc" else "upper right")
