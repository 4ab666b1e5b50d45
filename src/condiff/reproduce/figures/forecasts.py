"""Forecasts beside the truth: some regions over time, with what was hidden from the methods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from condiff.errors import InvalidInputError
from condiff.reproduce.figures.canvas import COLOURS, HIGHLIGHT, panels, plain, save

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from condiff.reproduce.protocols.covid import Forecasts

_COLUMNS = 3
_KNOWN: dict[str, Any] = {"linestyle": "", "marker": "o", "markersize": 4.2, "color": "0.15", "zorder": 4}
_HIDDEN: dict[str, Any] = {
    "linestyle": "",
    "marker": "o",
    "markersize": 2.6,
    "markerfacecolor": "white",
    "markeredgecolor": "0.6",
    "markeredgewidth": 0.7,
    "zorder": 2,
}


def case_forecasts(shown: Forecasts, target: Path, *, regions: Sequence[int] | None = None) -> None:
    """Write :func:`draw_forecasts`."""
    save(draw_forecasts(shown, regions=regions), target)


def draw_forecasts(shown: Forecasts, *, regions: Sequence[int] | None = None) -> Figure:
    """A panel a region: cases that were known filled, hidden ones hollow, and the forecasts of the test days as lines.

    Parameters
    ----------
    shown
        What was forecast, and of what.
    regions
        Which regions; by default six from the largest to the smallest number of cases.
    """
    chosen = _spread_out(shown.values) if regions is None else list(regions)
    if not chosen or not shown.forecasts:
        raise InvalidInputError("there is no region or no forecast to show")
    if wrong := [region for region in chosen if not 0 <= region < shown.values.shape[1]]:
        raise InvalidInputError(f"there is no region {wrong[0]}: they are 0 .. {shown.values.shape[1] - 1}")
    columns = min(_COLUMNS, len(chosen))
    rows = -(-len(chosen) // columns)
    figure, grid = panels(rows, columns, (0.6 + 3.5 * columns, 0.9 + 2.15 * rows), sharex=True)
    styles = _styles(list(shown.forecasts))
    flat = [axes for line in grid for axes in line]
    for axes, region in zip(flat, chosen, strict=False):
        _panel(axes, shown, region, styles)
    for axes in flat[len(chosen) :]:
        axes.set_visible(False)
    for line in grid:
        line[0].set_ylabel("cases a day")
    for axes in flat[max(len(chosen) - columns, 0) : len(chosen)]:
        axes.set_xlabel("day")
        axes.tick_params(labelbottom=True)
    _legend(figure, styles)
    return figure


def _spread_out(values: np.ndarray[Any, Any], count: int = 6) -> list[int]:
    """Regions evenly spaced among all by their number of cases, the largest first; those of next to none left out."""
    order = np.argsort(-np.nansum(values, axis=0), kind="stable")
    places = np.linspace(0, max(round(0.8 * (len(order) - 1)), 0), min(count, len(order)))
    return [int(order[round(place)]) for place in places]


def _panel(axes: Axes, shown: Forecasts, region: int, styles: dict[str, dict[str, Any]]) -> None:
    days = np.arange(len(shown.values))
    truth, known = shown.values[:, region], shown.known[:, region]
    axes.axvspan(-0.5, shown.train_days - 0.5, color="#E8F0F7", linewidth=0, zorder=0)
    axes.plot(days, truth, color="0.82", linewidth=1.0, zorder=1)
    axes.plot(days[~known], truth[~known], **_HIDDEN)
    axes.plot(days[known], truth[known], clip_on=False, **_KNOWN)
    for name, style in styles.items():
        axes.plot(shown.test_days, shown.forecasts[name][:, region], **style)
    axes.set_title(plain(shown.name_of(region)), fontsize=9.5, loc="left")
    axes.set_xlim(-0.5, len(days) - 0.5)
    axes.set_ylim(bottom=min(0.0, *(float(shown.forecasts[name][:, region].min()) for name in styles)))


def _styles(names: list[str]) -> dict[str, dict[str, Any]]:
    others = iter([colour for colour in COLOURS if colour != HIGHLIGHT] * len(names))
    return {
        name: {"color": HIGHLIGHT if name == "COIN" else next(others), "linewidth": 2.0 if name == "COIN" else 1.3}
        | {"zorder": 5 if name == "COIN" else 3}
        for name in names
    }


def _legend(figure: Figure, styles: dict[str, dict[str, Any]]) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles = [
        Line2D([], [], label="known", **_KNOWN),
        Line2D([], [], label="hidden", **_HIDDEN),
        *(Line2D([], [], label=name, **style) for name, style in styles.items()),
        Patch(color="#E8F0F7", label="days of training"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=min(6, len(handles)), frameon=False, fontsize=9)
