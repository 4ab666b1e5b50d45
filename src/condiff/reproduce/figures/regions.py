"""A map without geography: regions placed by who moves where, as large as their cases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from condiff.errors import InvalidInputError
from condiff.reproduce.figures.canvas import panels, require_matplotlib, save

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from condiff.reproduce.datasets.panel import Panel

    Floats = NDArray[np.float64]

_STEPS = 400


def region_map(panel: Panel, target: Path) -> None:
    """Write :func:`draw_regions`."""
    save(draw_regions(panel), target)


def draw_regions(panel: Panel, *, edges: int = 500) -> Figure:
    """Regions as circles, close together where many people move between them.

    A circle's area is the number of all cases, its colour the day by which half of them were reported; lines are the
    strongest movements of a mean day, both directions together, and each region's own strongest.

    Parameters
    ----------
    panel
        Values as counts, not standardised.
    edges
        How many of the strongest movements to draw.
    """
    require_matplotlib()
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
