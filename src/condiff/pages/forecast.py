"""Pictures and the page of a forecast: what is known of a series, its holes, and a fan of what may come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from condiff.pages.canvas import HIGHLIGHT, OURS, bare, legend_below, mark, panels, patch, plain, svg
from condiff.pages.report import Card, Cell, Column, Picture, Report, Section, Table, Text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from condiff.estimators.forecasting import Imputed, PanelForecaster

Array = NDArray[np.float64]

# Series in a picture, and steps of the past beside so many of the future.
_SHOWN, _PAST = 12, 60
# Of a map: series up to which names are written, and edges that are drawn per series.
_NAMED, _STRONGEST = 40, 4
# Series up to which a page has a map, and so many that it has fans of.
_MAPPED, _FANS = 400, 120
# How much of the colour the narrowest interval has, the forecast having all of it; and the widest.
_DEEPEST, _PALEST = 0.62, 0.18


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

    @classmethod
    def of(cls, model: PanelForecaster, levels: Sequence[float]) -> Fan:
        """The fan of a fitted forecaster."""
        values, middle = model.known_values_, model.predict()
        bands = {level: model.predict_quantiles([0.5 - level / 200, 0.5 + level / 200]) for level in levels}
        days = len(values)
        return cls(model.names_, model.times_[:days], model.times_[days:], values, middle, bands)

    def shades(self) -> dict[float, str]:
        """The colour of each interval, the widest first: the narrower, the deeper."""
        return _shades(list(self.bands))

    def most_known(self) -> list[int]:
        """The series with the most known values, in their order, as many as a picture shows."""
        known = np.isfinite(self.values).sum(axis=0)
        return sorted(np.argsort(-known, kind="stable")[:_SHOWN].tolist())


@dataclass(frozen=True, eq=False)
class Surroundings:
    """The neighbours of series.

    Attributes
    ----------
    weights
        Between the series.
    places
        (series, 2): to the right and upwards; None where nothing is known of places, and neighbours are drawn together.
    steps
        The mean absolute step of each series, in whose units changes are shown.
    """

    weights: sp.csr_array
    places: Array | None
    steps: Array

    def drawn(self) -> Array:
        """Where to draw each series."""
        return drawn_together(self.weights) if self.places is None else self.places

    def lines(self) -> list[tuple[int, int, float]]:
        """The strongest edges of each series, and their weights relative to the strongest of all."""
        both = sp.csr_array(self.weights.maximum(self.weights.T))
        found: dict[tuple[int, int], float] = {}
        for one in range(both.shape[0]):
            begin, end = both.indptr[one : one + 2]
            for place in begin + np.argsort(-both.data[begin:end], kind="stable")[:_STRONGEST]:
                other = int(both.indices[place])
                if other != one and both.data[place] > 0:
                    found[min(one, other), max(one, other)] = float(both.data[place])
        top = max(found.values(), default=1.0)
        return [(one, other, weight / top) for (one, other), weight in found.items()]


def drawn_together(weights: sp.csr_array) -> Array:
    """Places such that neighbours are near each other, (series, 2): springs along edges, all others repel."""
    dense = np.asarray((weights + weights.T).todense(), dtype=np.float64) / 2
    np.fill_diagonal(dense, 0.0)
    n = len(dense)
    dense /= max(dense.max(), 1e-300)
    angle = 2 * np.pi * np.arange(n) / max(n, 1)
    places = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    ideal = 2 / np.sqrt(max(n, 1))
    for heat in np.linspace(0.2, 0.005, 200):
        apart = places[:, None] - places
        distance = np.maximum(np.linalg.norm(apart, axis=2), 1e-3)
        force = (ideal / distance) ** 2 - dense * distance / ideal
        moved = (apart * (force / distance)[..., None]).sum(axis=1) * ideal
        # A pull to the middle keeps parts that nothing joins on the page.
        moved -= 0.3 * places
        length = np.maximum(np.linalg.norm(moved, axis=1, keepdims=True), 1e-12)
        places = places + moved / length * np.minimum(length, heat)
    return np.asarray(places)


def draw_map(fan: Fan, around: Surroundings) -> Figure:
    """The series at their places, joined to neighbours, coloured by what is to change; rings are how much is known."""
    from matplotlib.collections import LineCollection
    from matplotlib.colors import Normalize

    places, lines = around.drawn(), around.lines()
    figure, axes = panels(1, 1, (7.2, 5.4), grid="both")
    axis = axes[0][0]
    ends = [[places[one], places[other]] for one, other, _ in lines]
    shades = [(0.45, 0.45, 0.45, 0.15 + 0.5 * weight) for *_, weight in lines]
    axis.add_collection(LineCollection(ends, colors=shades, linewidths=[0.5 + 1.5 * weight for *_, weight in lines]))
    last = np.array(
        [column[np.isfinite(column)][-1] if np.isfinite(column).any() else np.nan for column in fan.values.T]
    )
    steps = np.where(around.steps > 0, around.steps, np.nan)
    change = np.nan_to_num((fan.forecast.mean(axis=0) - last) / steps)
    most = max(float(np.quantile(np.abs(change), 0.95)), 1e-6)
    known = np.isfinite(fan.values[-_PAST:]).mean(axis=0)
    x, y = places.T
    size = 170 if len(places) <= 40 else 70
    axis.scatter(
        x,
        y,
        s=size * (0.25 + 0.75 * known),
        facecolors="none",
        edgecolors="0.35",
        linewidths=0.8,
        zorder=3,
    )
    dots = axis.scatter(
        places[:, 0], places[:, 1], s=0.25 * size, c=change, cmap="RdBu_r", norm=Normalize(-most, most), zorder=4
    )
    dots.set_edgecolor("0.35")
    dots.set_linewidth(0.4)
    if len(places) <= _NAMED:
        for name, place, above in zip(fan.names, places, _names_above(places), strict=True):
            # Lines do not cross names.
            behind = {"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.5}
            axis.annotate(
                plain(name),
                place,
                (0, 9 if above else -9),
                textcoords="offset points",
                ha="center",
                va="bottom" if above else "top",
                fontsize=7,
                bbox=behind,
            )
    bar = figure.colorbar(dots, ax=axis, shrink=0.6, pad=0.02)
    bar.set_label("mean change to come, in usual steps", fontsize=8)
    bar.ax.tick_params(labelsize=7)
    bare(axis)
    if around.places is not None:
        axis.set_aspect("equal", adjustable="datalim")
    axis.margins(0.08)
    handles = [
        mark("series", color="0.35", marker="o", linewidth=0, markersize=4),
        mark(
            "known lately: the wider the ring, the more", color="0.35", marker="o", linewidth=0, markerfacecolor="none"
        ),
        mark("neighbours", color="0.5", linewidth=1.2),
    ]
    legend_below(figure, handles)
    return figure


def _names_above(places: Array) -> list[bool]:
    """Whether the name of each series is written above it: where the nearest other one is below, but not far below."""
    span = np.maximum(np.ptp(places, axis=0), 1e-12)
    apart = (places[:, None] - places) / span
    distance = np.hypot(*np.moveaxis(apart, 2, 0)) + 9 * np.eye(len(places))
    nearest = distance.argmin(axis=1)
    rows = np.arange(len(places))
    return [bool(each) for each in (apart[rows, nearest, 1] > 0) & (distance[rows, nearest] < 0.12)]


def draw_fans(fan: Fan, series: Sequence[int] | None = None) -> Figure:
    """One panel per series: the known values, steps without one marked below, and the fan."""
    chosen = fan.most_known() if series is None else list(series)
    columns = min(3, len(chosen))
    rows = -(-len(chosen) // columns)
    # The legend needs an inch and a quarter for each of its entries.
    width = max(3.6 * columns, 1.25 * (3 + len(fan.bands)))
    figure, axes = panels(rows, columns, (width, 2.1 * rows + 0.4))
    spots = [axis for row in axes for axis in row]
    for axis, place in zip(spots, chosen, strict=False):
        _draw_fan(axis, fan, place)
    for axis in spots[len(chosen) :]:
        axis.set_visible(False)
    handles = [
        mark("known", color="0.25", marker=".", linewidth=0.8, markersize=4),
        mark("missing", color=HIGHLIGHT, marker="|", linewidth=0),
        mark("forecast", color=OURS, linewidth=1.6),
        *(patch(f"{level:g} %", color=shade) for level, shade in sorted(fan.shades().items())),
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
    # A pale line leads the eye over the holes.
    seen = np.isfinite(known)
    axis.plot(steps[seen], known[seen], color="0.8", linewidth=0.7, zorder=1.5)
    axis.plot(
        holes, np.full(len(holes), 0.01), "|", color=HIGHLIGHT, markersize=5, transform=axis.get_xaxis_transform()
    )
    ahead = len(fan.times) + np.arange(len(fan.coming))
    # A single step is drawn as wide as a step, so that it can be seen.
    wide = np.array([ahead[0] - 0.5, ahead[0] + 0.5]) if len(ahead) == 1 else ahead
    for level, shade in fan.shades().items():
        low, high = (np.broadcast_to(end[:, place], len(wide)) for end in fan.bands[level])
        axis.fill_between(wide, low, high, color=shade, linewidth=0)
    axis.plot(wide, np.broadcast_to(fan.forecast[:, place], len(wide)), color=OURS, linewidth=1.6)
    axis.axvline(len(fan.times) - 0.5, color="0.6", linewidth=0.7, linestyle=(0, (2, 2)), zorder=1)
    _finish(axis, fan.names[place], {first: fan.times[first], int(ahead[-1]): fan.coming[-1]})


def _finish(axis: Axes, name: str, ends: dict[int, str]) -> None:
    """The name of a series, and when its picture begins and ends."""
    axis.set_title(plain(name), fontsize=9)
    axis.set_xticks(list(ends), [plain(time) for time in ends.values()], fontsize=7)
    if len(ends) == 2:
        begin, end = axis.get_xticklabels()
        begin.set_horizontalalignment("left")
        end.set_horizontalalignment("right")
    axis.tick_params(axis="y", labelsize=7)


def draw_filled(names: Sequence[str], times: Sequence[str], whole: Imputed, levels: Sequence[float]) -> Figure:
    """One panel per series with holes: the known values, what the holes were filled with, and how sure that is."""
    most = np.argsort(-whole.holes.sum(axis=0), kind="stable")[:_SHOWN]
    chosen = sorted(int(place) for place in most if whole.holes[:, place].any()) or [0]
    columns = min(3, len(chosen))
    rows = -(-len(chosen) // columns)
    figure, axes = panels(rows, columns, (max(3.6 * columns, 1.25 * (2 + len(levels))), 2.1 * rows + 0.4))
    spots = [axis for row in axes for axis in row]
    first = max(0, len(times) - 2 * _PAST)
    steps, holes = np.arange(first, len(times)), whole.holes[first:]
    shades = _shades(levels)
    bands = {level: whole.quantiles([0.5 - level / 200, 0.5 + level / 200])[:, first:] for level in shades}
    for axis, place in zip(spots, chosen, strict=False):
        known, filled = (
            np.where(each, whole.values[first:, place], np.nan) for each in (~holes[:, place], holes[:, place])
        )
        for level, (low, high) in bands.items():
            axis.fill_between(steps, low[:, place], high[:, place], color=shades[level], linewidth=0)
        axis.plot(steps, whole.values[first:, place], color=OURS, linewidth=1.0)
        axis.plot(steps, known, color="0.25", marker=".", linewidth=0.8, markersize=3)
        axis.plot(steps, filled, color=HIGHLIGHT, marker="o", linewidth=0, markersize=2.2)
        _finish(axis, names[place], {first: times[first], len(times) - 1: times[-1]})
    for axis in spots[len(chosen) :]:
        axis.set_visible(False)
    handles = [
        mark("known", color="0.25", marker=".", linewidth=0.8, markersize=4),
        mark("filled", color=HIGHLIGHT, marker="o", linewidth=0, markersize=3),
        *(patch(f"{level:g} %", color=shade) for level, shade in sorted(shades.items())),
    ]
    legend_below(figure, handles)
    return figure


def _shades(levels: Sequence[float]) -> dict[float, str]:
    """Opaque, so that the legend shows what the picture has where intervals lie on each other; the widest first."""
    from matplotlib.colors import to_hex, to_rgb

    parts = np.linspace(_PALEST, _DEEPEST, len(levels)) if len(levels) > 1 else [0.3]
    own = np.array(to_rgb(OURS))
    found = zip(sorted(levels, reverse=True), parts, strict=True)
    return {level: to_hex(tuple(1 - part * (1 - own))) for level, part in found}


def forecaster_page(
    model: PanelForecaster, name: str, command: str, levels: Sequence[float] = (80, 95), places: Array | None = None
) -> str:
    """The page of a fitted forecaster; ``places`` are where its series are drawn, as in :class:`Surroundings`."""
    around = Surroundings(model.graph_.weights, places, model.backtest_.scale)
    held = {level: model.spread_.held_out_coverage(level / 100) for level in levels}
    return forecast_page(
        Fan.of(model, levels), around, name, model.shares_in_words(), model.backtest_.scores(), held, command
    )


def forecast_page(
    fan: Fan,
    around: Surroundings,
    name: str,
    said: str,
    scores: dict[str, tuple[float, float, float]],
    coverage: dict[float, float],
    command: str,
) -> str:
    """The page of a forecast: what it is made of, how the back-test went, the map, and a fan for each series."""
    table = Table(
        "The rolling back-test: forecasts made from the steps before alone. Errors in units of the mean step from one "
        "known value to the next (MASE), mean absolute errors (MAE) and root mean square errors (RMSE).",
        [Column("part", "text"), Column("MASE"), Column("MAE"), Column("RMSE")],
        [[Cell(part), *map(_number, errors)] for part, errors in scores.items()],
        [part == "forecast" for part in scores],
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
    shown_series = range(min(len(fan.names), _FANS))
    pictures = []
    for begin in shown_series[::_SHOWN]:
        part = list(shown_series[begin : begin + _SHOWN])
        shown = f"{fan.names[part[0]]} to {fan.names[part[-1]]}" if len(part) > 1 else fan.names[part[0]]
        about = (
            f"{len(part)} series with their last known values, their holes and the forecast of {len(fan.coming)} steps"
        )
        pictures.append(Picture(shown, svg(draw_fans(fan, part), f"Forecasts of {shown}", about), f"{shown}."))
    sections = [Section("What the forecast is made of", [table])] if scores else []
    if 1 < len(fan.names) <= _MAPPED:
        about = f"{len(fan.names)} series, their strongest neighbours and the change that is forecast"
        picture = Picture("Neighbours", svg(draw_map(fan, around), "Neighbours", about), _about_map(around))
        sections.append(Section("Who is a neighbour of whom", [picture]))
    left = len(fan.names) - len(shown_series)
    more = [Text(f"{left:,} more series are in the forecast's file alone.")] if left else []
    sections.append(Section("The forecasts", [*pictures, *more]))
    return Report(name, "A forecast", f"{said[:1].upper()}{said[1:]}.", cards, sections).page(command)


def _about_map(around: Surroundings) -> str:
    where = "neighbours are drawn near each other" if around.places is None else "each is where it is"
    return f"The series: {where}, joined to its {_STRONGEST} strongest neighbours, coloured by the change to come."


def _number(value: float) -> Cell:
    if not np.isfinite(value):
        return Cell("-")
    return Cell(f"{value:,.0f}" if abs(value) >= 999.95 else f"{value:#.4g}", value)
