"""Pictures and the page of a forecast: what is known of a series, its holes, and a fan of what may come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from condiff.pages.canvas import HIGHLIGHT, OURS, legend_below, mark, panels, patch, plain, svg
from condiff.pages.report import Card, Cell, Column, Picture, Report, Section, Table, Text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = NDArray[np.float64]

# Series in a picture, and steps of the past beside so many of the future.
_SHOWN, _PAST = 12, 60


@dataclass(frozen=True, eq=False)
class Fan:
    """What is drawn of a panel.

    Attributes
    ----------
    names, times, coming
        Of the series, of the steps known and of those to come.
    values
        (steps, series), NaN where missing.
    forecast
        (horizon, series).
    bands
        For each level in percent the lower and the upper end, (2, horizon, series).
    """

    names: Sequence[str]
    times: Sequence[str]
    coming: Sequence[str]
    values: Array
    forecast: Array
    bands: dict[float, Array]

    def most_known(self) -> list[int]:
        """The series with the most known values, in their order, as many as a picture shows."""
        known = np.isfinite(self.values).sum(axis=0)
        return sorted(np.argsort(-known, kind="stable")[:_SHOWN].tolist())


def draw_fans(fan: Fan, series: Sequence[int] | None = None) -> Figure:
    """One panel per series: the known values, steps without one marked below, and the fan."""
    chosen = fan.most_known() if series is None else list(series)
    columns = min(3, len(chosen))
    rows = -(-len(chosen) // columns)
    figure, axes = panels(rows, columns, (3.6 * columns, 2.1 * rows + 0.4))
    spots = [axis for row in axes for axis in row]
    for axis, place in zip(spots, chosen, strict=False):
        _draw_fan(axis, fan, place)
    for axis in spots[len(chosen) :]:
        axis.set_visible(False)
    levels = [patch(f"{level:g} %", color=OURS, alpha=_alpha(fan, level)) for level in sorted(fan.bands)]
    handles = [
        mark("known", color="0.25", marker=".", linewidth=0.8, markersize=4),
        mark("missing", color=HIGHLIGHT, marker="|", linewidth=0),
        mark("forecast", color=OURS, linewidth=1.6),
        *levels,
    ]
    legend_below(figure, handles)
    return figure


def _draw_fan(axis: Axes, fan: Fan, place: int) -> None:
    past = max(_PAST, 3 * len(fan.coming))
    first = max(0, len(fan.times) - past)
    steps = np.arange(first, len(fan.times))
    known = fan.values[first:, place]
    axis.plot(steps, known, color="0.25", marker=".", linewidth=0.8, markersize=3)
    holes = steps[np.isnan(known)]
    axis.plot(
        holes, np.full(len(holes), 0.01), "|", color=HIGHLIGHT, markersize=5, transform=axis.get_xaxis_transform()
    )
    ahead = len(fan.times) + np.arange(len(fan.coming))
    # A single step is drawn as wide as a step, so that it can be seen.
    wide = np.array([ahead[0] - 0.5, ahead[0] + 0.5]) if len(ahead) == 1 else ahead
    for level in sorted(fan.bands, reverse=True):
        low, high = (np.broadcast_to(end[:, place], len(wide)) for end in fan.bands[level])
        axis.fill_between(wide, low, high, color=OURS, alpha=_alpha(fan, level), linewidth=0)
    axis.plot(wide, np.broadcast_to(fan.forecast[:, place], len(wide)), color=OURS, linewidth=1.6)
    axis.set_title(plain(fan.names[place]), fontsize=9)
    ends = [first, len(fan.times) - 1]
    axis.set_xticks(ends, [plain(fan.times[step]) for step in ends], fontsize=7)
    axis.tick_params(axis="y", labelsize=7)


def _alpha(fan: Fan, level: float) -> float:
    ranks = sorted(fan.bands, reverse=True)
    return 0.15 + 0.15 * ranks.index(level)


def forecast_page(
    fan: Fan, name: str, said: str, scores: Sequence[dict[str, object]], coverage: dict[float, float], command: str
) -> str:
    """The page of a forecast: what it is made of, how the back-test went, and a fan for each series."""
    best = min((float(str(row["mase"])) for row in scores if row["mase"] is not None), default=None)
    table = Table(
        "The rolling back-test. Errors in units of the mean step from one known value to the next (MASE), mean "
        "absolute and root mean square errors, of forecasts made from the days before alone.",
        [Column("part", "text"), Column("MASE"), Column("MAE"), Column("RMSE")],
        [[Cell(str(row["method"])), *(_number(row[key]) for key in ("mase", "mae", "rmse"))] for row in scores],
        [row["mase"] is not None and float(str(row["mase"])) == best for row in scores],
    )
    missing = float(np.isnan(fan.values).mean())
    cards = [
        Card("Series", f"{len(fan.names):,}", f"{len(fan.times):,} steps, {100 * missing:.0f} % missing"),
        Card("Horizon", f"{len(fan.coming)}", f"{fan.coming[0]} to {fan.coming[-1]}"),
        *(
            Card(f"{level:g} % interval", f"{100 * held:.0f}", "of the back-test's values were within it", "%")
            for level, held in coverage.items()
            if np.isfinite(held)
        ),
    ]
    order = range(len(fan.names))
    pictures = []
    for begin in range(0, min(len(fan.names), 10 * _SHOWN), _SHOWN):
        part = list(order[begin : begin + _SHOWN])
        shown = f"{fan.names[part[0]]} to {fan.names[part[-1]]}" if len(part) > 1 else fan.names[part[0]]
        about = (
            f"{len(part)} series with their last known values, their holes and the forecast of {len(fan.coming)} steps"
        )
        pictures.append(Picture(shown, svg(draw_fans(fan, part), f"Forecasts of {shown}", about), f"{shown}."))
    sections = [
        Section("What the forecast is made of", [Text(said[:1].upper() + said[1:] + "."), table]),
        Section("The forecasts", pictures),
    ]
    return Report(name, "A forecast", f"{said[:1].upper()}{said[1:]}.", cards, sections).page(command)


def _number(value: object) -> Cell:
    return Cell("-") if value is None else Cell(f"{float(str(value)):.4g}", float(str(value)))
