"""COVID-19 in England: forecasts beside the truth, the error against what is missing, and a map without geography."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from condiff.errors import InvalidInputError
from condiff.pages.canvas import COLOURS, HIGHLIGHT, legend_below, mark, panels, patch, plain
from condiff.reproduce.figures.along import line_styles, name_at_right
from condiff.reproduce.metrics import metric
from condiff.reproduce.rows import labels, method_place

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from condiff.reproduce.datasets.panel import Panel
    from condiff.reproduce.protocols.covid import Forecasts
    from condiff.reproduce.rows import Row

    Floats = NDArray[np.float64]

_COLUMNS = 3
_TRAINING = "#E8F0F7"
_STEPS = 400
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


def draw_forecasts(shown: Forecasts, *, regions: Sequence[int] | None = None) -> Figure:
    """A panel per region: known cases filled, hidden ones hollow, and the forecasts of the test days as lines.

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
    styles = _forecast_styles(list(shown.forecasts))
    flat = [axes for line in grid for axes in line]
    for axes, region in zip(flat, chosen, strict=False):
        _forecast_panel(axes, shown, region, styles)
    for axes in flat[len(chosen) :]:
        axes.set_visible(False)
    for line in grid:
        line[0].set_ylabel("cases a day")
    for axes in flat[max(len(chosen) - columns, 0) : len(chosen)]:
        axes.set_xlabel("day")
        axes.tick_params(labelbottom=True)
    handles = [mark("known", **_KNOWN), mark("hidden", **_HIDDEN)]
    handles += [mark(plain(name), **style) for name, style in styles.items()]
    handles.append(patch("days of training", color=_TRAINING))
    legend_below(figure, handles, min(6, len(handles)))
    return figure


def _spread_out(values: np.ndarray[Any, Any], count: int = 6) -> list[int]:
    """Regions evenly spaced among all by their number of cases, the largest first; those of next to none left out."""
    order = np.argsort(-np.nansum(values, axis=0), kind="stable")
    places = np.linspace(0, max(round(0.8 * (len(order) - 1)), 0), min(count, len(order)))
    return [int(order[round(place)]) for place in places]


def _forecast_panel(axes: Axes, shown: Forecasts, region: int, styles: dict[str, dict[str, Any]]) -> None:
    days = np.arange(len(shown.values))
    truth, known = shown.values[:, region], shown.known[:, region]
    axes.axvspan(-0.5, shown.train_days - 0.5, color=_TRAINING, linewidth=0, zorder=0)
    axes.plot(days, truth, color="0.82", linewidth=1.0, zorder=1)
    axes.plot(days[~known], truth[~known], **_HIDDEN)
    axes.plot(days[known], truth[known], clip_on=False, **_KNOWN)
    for name, style in styles.items():
        axes.plot(shown.test_days, shown.forecasts[name][:, region], **style)
    axes.set_title(plain(shown.name_of(region)), fontsize=9.5, loc="left")
    axes.set_xlim(-0.5, len(days) - 0.5)
    axes.set_ylim(bottom=min(0.0, *(float(shown.forecasts[name][:, region].min()) for name in styles)))


def _forecast_styles(names: list[str]) -> dict[str, dict[str, Any]]:
    others = iter([colour for colour in COLOURS if colour != HIGHLIGHT] * len(names))
    return {
        name: {"color": HIGHLIGHT if name == "COIN" else next(others), "linewidth": 2.0 if name == "COIN" else 1.3}
        | {"zorder": 5 if name == "COIN" else 3}
        for name in names
    }


def draw_missing(rows: Sequence[Row]) -> Figure:
    """The mean error against the part that is hidden, with its standard error by masks; a panel for the causal variant.

    Parameters
    ----------
    rows
        Of a summary, whose conditions have the part that is ``missing``.
    """
    cells: dict[bool, dict[str, dict[float, Row]]] = {}
    for row, label in zip(rows, labels(rows), strict=True):
        missing = row.condition.get("missing")
        if isinstance(missing, float | int) and row.mean is not None:
            panel = cells.setdefault(bool(row.condition.get("causal")), {})
            panel.setdefault(label, {})[missing] = row
    if not cells:
        raise InvalidInputError("no row is of a data set with a part missing, so there is nothing to compare")
    kinds = sorted(cells)
    figure, [line] = panels(1, len(kinds), (6.6 * len(kinds), 5.2), grid="both")
    names = sorted({name for panel in cells.values() for name in panel}, key=lambda name: method_place("covid", name))
    styles = line_styles(names)
    for causal, axes in zip(kinds, line, strict=True):
        _missing_panel(axes, cells[causal], styles)
        about = "standardised by the days of training" if causal else "standardised by all days, as in the paper"
        axes.set_title(about, fontsize=10, loc="left")
    line[0].set_ylabel(metric(rows[0].metric).title)
    figure.suptitle("band: one standard error of the mean over masks", fontsize=9, color="0.3")
    return figure


def _missing_panel(axes: Axes, panel: dict[str, dict[float, Row]], styles: dict[str, dict[str, Any]]) -> None:
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
    name_at_right(axes, ends, styles)


def draw_regions(panel: Panel, *, edges: int = 500) -> Figure:
    """A map without geography: regions as circles, close together where many people move between them.

    A circle's area is the number of all cases, its colour the day by which half of them were reported; lines are the
    strongest movements of a mean day, both directions together, and each region's own strongest.

    Parameters
    ----------
    panel
        Values as counts, not standardised.
    edges
        How many of the strongest movements to draw.
    """
    from matplotlib.ticker import MaxNLocator

    if panel.n_regions < 3:
        raise InvalidInputError(f"a map needs at least 3 regions, not {panel.n_regions}")
    moved = _movements(panel)
    places = layout(moved)
    values = np.nan_to_num(panel.values)
    totals = values.sum(axis=0)
    if (totals < 0).any():
        raise InvalidInputError("circles show numbers of cases, which cannot be negative: pass the panel as reported")
    figure, [[axes]] = panels(1, 1, (7.4, 6.6))
    axes.set_axis_off()
    _draw_movements(axes, moved, places, edges)
    share = np.divide(totals, totals.max(), out=np.zeros_like(totals), where=totals.max() > 0)
    order = np.argsort(-totals, kind="stable")  # small circles above large ones
    marks = axes.scatter(
        places[order, 0],
        places[order, 1],
        s=12 + 620 * share[order],
        c=_half_days(values)[order],
        cmap="viridis",
        edgecolors="white",
        linewidths=0.7,
        zorder=3,
    )
    bar = figure.colorbar(marks, ax=axes, pad=0.01, aspect=35, shrink=0.75)
    bar.set_label("day by which half of the cases were reported")
    bar.locator = MaxNLocator(integer=True)
    bar.update_ticks()
    bar.outline.set_visible(False)
    axes.set_aspect("equal")
    axes.margins(0.04)
    about = f"{panel.n_regions} regions, placed by daily movements alone; area: {totals.sum():,.0f} cases in all"
    axes.set_title(about, fontsize=10, loc="left")
    return figure


def layout(weights: sp.csr_array) -> Floats:
    """Places in the plane, (n, 2), in the unit disc: springs along the edges, and all points push each other away.

    The start is the two slowest modes of the graph's normalised Laplacian, so that nothing in it is random.
    """
    n = weights.shape[0]
    pull = _normalised(weights.toarray())
    places = _slow_modes(pull)
    ideal = 1.0 / np.sqrt(n)
    strength = pull / max(pull.max(), np.finfo(float).tiny)
    # Weights differ by orders of magnitude: their roots keep the weak ones in play.
    strength = np.sqrt(strength)
    for step in range(_STEPS):
        apart = places[:, None] - places[None]
        squares = (apart**2).sum(-1) + 1e-9
        push = ideal**2 / squares
        force = (apart * (push - strength * np.sqrt(squares) / ideal * 0.35)[..., None]).sum(axis=1)
        force -= 0.8 * places  # keeps what is not joined to the rest in the picture
        size = np.sqrt((force**2).sum(-1, keepdims=True)) + 1e-12
        reach = 0.08 * (1 - step / _STEPS)
        places = places + force / size * np.minimum(size, reach)
    places = places - places.mean(axis=0)
    return np.asarray(places / max(np.sqrt((places**2).sum(-1)).max(), 1e-12))


def _normalised(dense: Floats) -> Floats:
    degree = dense.sum(axis=1)
    scale = np.divide(1.0, np.sqrt(degree), out=np.zeros_like(degree), where=degree > 0)
    return np.asarray(scale[:, None] * dense * scale)


def _slow_modes(normalised: Floats) -> Floats:
    _, modes = np.linalg.eigh(np.eye(len(normalised)) - normalised)
    places = modes[:, 1:3]
    # An eigenvector's sign is a matter of taste and of the library's version.
    largest = np.abs(places).argmax(axis=0)
    places = places * np.sign(places[largest, [0, 1]])
    # Regions without edges would start on one point, where nothing pushes them apart.
    angle = np.arange(len(places)) * np.pi * (3 - np.sqrt(5))
    return np.asarray(places + 1e-3 * np.stack([np.cos(angle), np.sin(angle)], axis=1))


def _movements(panel: Panel) -> sp.csr_array:
    """The mean day's movements, both directions together, those who stay left out."""
    mean = sum(panel.weights[1:], panel.weights[0]) / panel.n_days
    both = sp.csr_array(mean + mean.T)
    return sp.csr_array(both - sp.diags_array(both.diagonal()))


def _half_days(values: Floats) -> Floats:
    """The first day by which half of a region's cases were reported."""
    totals = values.sum(axis=0)
    shares = np.divide(values.cumsum(axis=0), totals, out=np.zeros_like(values), where=totals > 0)
    day = (shares < 0.5).sum(axis=0).clip(max=len(values) - 1)
    return np.asarray(day, dtype=np.float64)


def _draw_movements(axes: Any, moved: sp.csr_array, places: Floats, edges: int) -> None:
    from matplotlib.collections import LineCollection

    upper = sp.triu(moved, k=1).tocoo()
    best = np.zeros(len(places))
    for ends in upper.coords:
        np.maximum.at(best, ends, upper.data)
    own = np.maximum.reduce([upper.data >= best[ends] for ends in upper.coords])
    strongest = np.argsort(-upper.data, kind="stable")
    strongest = strongest[(np.arange(len(strongest)) < edges) | own[strongest]]
    rows, columns = (ends[strongest] for ends in upper.coords)
    weight = upper.data[strongest]
    relative = np.sqrt(weight / weight.max()) if weight.size else weight
    lines = LineCollection(
        list(np.stack([places[rows], places[columns]], axis=1)),
        linewidths=0.25 + 2.4 * relative,
        colors=[(0.35, 0.35, 0.4, 0.12 + 0.4 * float(each)) for each in relative],
        zorder=1,
    )
    axes.add_collection(lines)
