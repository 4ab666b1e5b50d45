"""Fan charts and the page of a forecast."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse as sp
from matplotlib.colors import to_rgba

from condiff.estimators.forecasting.imputing import Imputed
from condiff.estimators.forecasting.shares import Spread
from condiff.pages.forecast import (
    Fan,
    Surroundings,
    draw_fans,
    draw_filled,
    draw_map,
    drawn_together,
    forecast_page,
)


def fan(series: int = 14, horizon: int = 3) -> Fan:
    random = np.random.default_rng(0)
    values = random.normal(size=(30, series)).cumsum(axis=0)
    values[5:9, 0] = np.nan
    middle = np.tile(values[-1], (horizon, 1))
    bands = {level: np.stack([middle - level / 50, middle + level / 50]) for level in (80.0, 95.0)}
    names = [f"$shop$ {place} <b>" for place in range(series)]
    return Fan(names, [str(day) for day in range(30)], [f"+{day}" for day in range(horizon)], values, middle, bands)


def ring(series: int = 14) -> sp.csr_array:
    step = np.roll(np.eye(series), 1, axis=1)
    return sp.csr_array(step + step.T)


def test_neighbours_are_drawn_near_each_other_or_where_they_are() -> None:
    places = drawn_together(ring())
    distance = np.linalg.norm(places[:, None] - places, axis=2)
    joined = ring().toarray() > 0
    assert distance[joined].mean() < 0.6 * distance[~joined & ~np.eye(14, dtype=bool)].mean()
    around = Surroundings(ring(), np.arange(28.0).reshape(14, 2), np.ones(14))
    figure = draw_map(fan(), around)
    edges, rings, dots = figure.axes[0].collections
    assert len(edges.get_segments()) == 14
    np.testing.assert_array_equal(dots.get_offsets(), around.places)
    # The series with holes has a smaller ring.
    assert rings.get_sizes()[0] < rings.get_sizes()[1]


def test_holes_are_marked_and_levels_are_bands() -> None:
    figure = draw_fans(fan(), [0])
    (axes,) = [axes for axes in figure.axes if axes.get_visible()]
    _, over, holes, ahead, now = axes.lines
    assert holes.get_xdata().tolist() == [5, 6, 7, 8]
    assert np.isfinite(over.get_ydata()).all() and len(over.get_xdata()) == 26
    # The narrower interval lies on the wider one, in the colour that the legend has.
    assert [band.get_facecolor()[0].tolist() for band in axes.collections] == [
        list(to_rgba(shade)) for shade in fan().shades().values()
    ]
    assert ahead.get_xdata().tolist() == [30, 31, 32] and now.get_xdata() == [29.5, 29.5]


def test_series_with_the_most_known_values_are_shown_first() -> None:
    assert len([axes for axes in draw_fans(fan()).axes if axes.get_visible()]) == 12
    assert 0 not in fan().most_known()
    draw_fans(fan(horizon=1), [1])


def test_filled_holes_are_points_within_their_bands() -> None:
    values = np.arange(60.0).reshape(20, 3)
    holes = np.zeros((20, 3), bool)
    holes[4:6, 1] = True
    spread = Spread(np.linspace(-1, 1, 101).reshape(-1, 1, 1), 101.0)
    whole = Imputed(values, holes, {}, {}, np.full((20, 3), 2.0), spread, -np.inf)
    figure = draw_filled(["a", "$b$", "c"], [str(day) for day in range(20)], whole, [80.0, 95.0])
    (axes,) = [axes for axes in figure.axes if axes.get_visible()]  # the others have no holes
    assert axes.get_title() == r"\$b\$"
    filled = axes.lines[2].get_ydata()
    assert np.flatnonzero(np.isfinite(filled)).tolist() == [4, 5] and filled[4] == 13.0
    assert len(axes.collections) == 2
    draw_filled(["a", "b", "c"], [str(day) for day in range(20)], replace(whole, holes=holes & False), [80.0])


def test_the_page_has_every_series_and_the_back_test() -> None:
    scores = {"forecast": (0.9, 1.0, 2.0), "drift": (float("nan"),) * 3}
    held = {80.0: 0.79, 95.0: float("nan")}
    around = Surroundings(ring(), None, np.ones(14))
    page = forecast_page(fan(), around, "shops", "the forecast is the drift", scores, held, "condiff forecast")
    assert page.count("<svg") == 3
    assert "The forecast is the drift." in page and "79" in page and "<b>" not in page.replace("<b>0", "")
