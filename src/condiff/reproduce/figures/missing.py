"""How an error grows with what is missing: one line a method."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np

from condiff.errors import InvalidInputError
from condiff.reproduce.figures.canvas import COLOURS, HIGHLIGHT, panels, plain, save
from condiff.reproduce.metrics import metric
from condiff.reproduce.rows import labels, method_place

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from condiff.reproduce.rows import Row

_RATE = re.compile(r"-(?P<percent>\d+(?:\.\d+)?)-missing(?P<causal>-causal)?$")
_MARKS = "osD^v<>Ph"
# Room that a name needs at the right, as a part of the panel's height.
_NAME = 0.042


def error_against_missing(rows: Sequence[Row], target: Path) -> None:
    """Write :func:`draw_missing`."""
    save(draw_missing(rows), target)


def draw_missing(rows: Sequence[Row]) -> Figure:
    """The mean error against the part that is hidden, with its standard error by masks; a panel for the causal variant.

    Parameters
    ----------
    rows
        Of a summary, for data sets whose names end in ``-90-missing`` or ``-90-missing-causal``.
    """
    cells: dict[bool, dict[str, dict[float, Row]]] = {}
    for row, label in zip(rows, labels(rows), strict=True):
        found = _RATE.search(row.dataset)
        if found and row.mean is not None:
            panel = cells.setdefault(bool(found["causal"]), {})
            panel.setdefault(label, {})[float(found["percent"]) / 100] = row
    if not cells:
        raise InvalidInputError("no row is of a data set with a part missing, so there is nothing to compare")
    kinds = sorted(cells)
    figure, [line] = panels(1, len(kinds), (6.6 * len(kinds), 5.2), grid="both")
    names = sorted({name for panel in cells.values() for name in panel}, key=lambda name: method_place("covid", name))
    styles = _styles(names)
    for causal, axes in zip(kinds, line, strict=True):
        _panel(axes, cells[causal], styles)
        about = "standardised by the days of training" if causal else "standardised by all days, as in the paper"
        axes.set_title(about, fontsize=10, loc="left")
    line[0].set_ylabel(metric(rows[0].metric).title)
    return figure


def _panel(axes: Axes, panel: dict[str, dict[float, Row]], styles: dict[str, dict[str, Any]]) -> None:
    ends: dict[str, tuple[float, float]] = {}
    for name, style in styles.items():
        if name not in panel:
            continue
        rates = sorted(panel[name])
        means = np.array([panel[name][rate].mean for rate in rates])
        errors = np.array([panel[name][rate].stderr or 0.0 for rate in rates])
        axes.plot(rates, means, **style)
        axes.fill_between(rates, means - errors, means + errors, color=style["color"], alpha=0.13, linewidth=0)
        ends[name] = rates[-1], float(means[-1])
    axes.set_yscale("log")
    axes.minorticks_off()
    low, high = axes.get_ylim()
    ticks = [tick for power in range(-3, 4) for tick in np.array([1, 1.5, 2, 3, 5, 7]) * 10.0**power]
    shown = [tick for tick in ticks if low <= tick <= high]
    axes.set_yticks(shown, [f"{tick:g}" for tick in shown])
    axes.set_xlabel("part of the cases that is hidden")
    rates = sorted({rate for found in panel.values() for rate in found})
    ticks = [rate for rate in rates if rate == rates[-1] or rates[-1] - rate > 0.08]
    axes.set_xticks(ticks, [f"{100 * rate:g} %" for rate in ticks])
    axes.set_xlim(rates[0] - 0.03, rates[-1] + 0.015)
    _name_at_the_right(axes, ends, styles)


def _name_at_the_right(axes: Axes, ends: dict[str, tuple[float, float]], styles: dict[str, dict[str, Any]]) -> None:
    """Write the names beside the panel, as high as their lines' ends or as close to that as there is room."""
    low, high = np.log(axes.get_ylim())
    left, right = axes.get_xlim()
    order = sorted(ends, key=lambda name: ends[name][1])
    wanted = np.array([(np.log(ends[name][1]) - low) / (high - low) for name in order])
    for name, place, own in zip(order, _apart(wanted, _NAME), wanted, strict=True):
        colour = styles[name]["color"]
        start = (ends[name][0] - left) / (right - left) + 0.01
        axes.plot([start, 1.035], [own, place], color=colour, linewidth=0.6, transform=axes.transAxes, clip_on=False)
        axes.annotate(
            plain(name),
            (1.045, place),
            xycoords="axes fraction",
            va="center",
            fontsize=8,
            color=colour,
            fontweight="bold" if name.startswith("COIN") else "normal",
        )


def _apart(wanted: np.ndarray[Any, Any], gap: float) -> np.ndarray[Any, Any]:
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


def _styles(names: list[str]) -> dict[str, dict[str, Any]]:
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
