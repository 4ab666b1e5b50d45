"""Holes filled: better than straight lines where neighbours know, no worse elsewhere, and as sure as they say."""

from __future__ import annotations

import numpy as np
import pytest

from condiff import PanelForecaster
from condiff.estimators.forecasting.imputing import straight_lines

NAN = float("nan")


def test_neighbours_fill_what_lines_cannot() -> None:
    random = np.random.default_rng(0)
    truth = 30 + 4 * random.normal(size=(90, 1)) + 0.4 * random.normal(size=(90, 8))
    holes = random.random(truth.shape) < 0.4
    known = np.where(holes, NAN, truth)
    model = PanelForecaster(parts=["last value"], season=None).fit(known)
    found = model.impute()
    np.testing.assert_array_equal(found.values[~holes], truth[~holes])
    np.testing.assert_array_equal(found.holes, holes)
    own = np.abs(found.values - truth)[holes].mean()
    assert own < 0.35 * np.abs(straight_lines(known) - truth)[holes].mean()
    assert found.errors["filled"] == pytest.approx(own, rel=0.5)
    low, high = found.quantiles([0.1, 0.9])
    assert 0.7 < ((low <= truth) & (truth <= high))[holes].mean() < 0.9
    np.testing.assert_array_equal(low[~holes], truth[~holes])


def test_a_straight_line_is_filled_by_a_straight_line() -> None:
    truth = np.arange(60.0)[:, None] * np.array([1.0, -2.0, 0.5])
    known = np.where(np.random.default_rng(0).random(truth.shape) < 0.5, NAN, truth)
    known[[0, -1]] = truth[[0, -1]]
    found = PanelForecaster(parts=["last value"]).fit(known).impute()
    np.testing.assert_allclose(found.values, truth, atol=0.3)


def test_no_holes_and_nothing_but_holes() -> None:
    whole = np.random.default_rng(0).normal(size=(30, 3))
    np.testing.assert_array_equal(PanelForecaster(parts=["last value"]).fit(whole).impute().values, whole)
    sparse = np.full((30, 3), NAN)
    sparse[4, 1] = 7.0
    assert (PanelForecaster(parts=["last value"]).fit(sparse).impute().values == 7.0).all()


def test_straight_lines() -> None:
    values = np.array([[NAN, NAN], [2.0, NAN], [NAN, NAN], [6.0, NAN], [NAN, NAN]])
    np.testing.assert_array_equal(straight_lines(values)[:, 0], [2, 2, 4, 6, 6])
    np.testing.assert_array_equal(straight_lines(values)[:, 1], [4.0] * 5)
