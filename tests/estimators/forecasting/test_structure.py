"""Level, trend, season and covariates of single series, and forecasts without parameters."""

from __future__ import annotations

import numpy as np
import pytest

from condiff.estimators.forecasting.structure import (
    Trend,
    drift,
    extrapolated,
    filtered,
    fit_effects,
    fit_structure,
    fit_trend,
    harmonics,
    last_values,
    naive,
    seasonal_naive,
    shared_standards,
    standards,
)

NAN = float("nan")
END = np.array([9])


def one(persistence: float, damping: float, level: float, slope: float, noise: float) -> Trend:
    numbers = (0.0, 1.0, persistence, damping, level, slope, noise)
    return Trend(*(np.array([number]) for number in numbers))


def test_a_wandering_level_without_holes_is_exponential_smoothing() -> None:
    values = np.random.default_rng(0).normal(size=(300, 1)).cumsum(axis=0)
    ratio = 0.5
    found = filtered(values, one(1.0, 0.5, ratio, 0.0, 1.0))
    # The gain of a long filter: the positive root of alpha^2 = ratio (1 - alpha).
    alpha = (-ratio + np.sqrt(ratio**2 + 4 * ratio)) / 2
    level = values[0]
    for value in values[1:]:
        level = level + alpha * (value - level)
    np.testing.assert_allclose(found.level[-1], level, atol=1e-6)


def test_after_a_hole_a_value_counts_for_more_and_the_spread_is_wider() -> None:
    trend = one(1.0, 0.5, 0.2, 0.0, 1.0)
    whole = np.zeros((30, 1))
    holed = whole.copy()
    holed[20:29] = NAN
    whole[-1] = holed[-1] = 1.0
    assert filtered(holed, trend).level[-1] > 1.5 * filtered(whole, trend).level[-1]
    assert filtered(holed, trend).variance[-1] > filtered(whole, trend).variance[-1]


def test_the_filter_is_the_regression_on_all_values_before() -> None:
    """Against the covariance of the whole past, written out."""
    a, d, q, s, r, n = 1.0, 0.9, 0.3, 0.05, 0.7, 12
    trend = one(a, d, q, s, r)
    p0, s0 = (float(each[0]) for each in trend.start())
    # States of all steps as linear maps of independent shocks: start, level shocks, slope shocks.
    level, slope = np.zeros(2 + 2 * n), np.zeros(2 + 2 * n)
    level[0], slope[1] = np.sqrt(p0), np.sqrt(s0)
    rows = []
    for step in range(n):
        level, slope = a * level + d * slope, d * slope
        level = level + np.sqrt(q) * np.eye(2 + 2 * n)[2 + step]
        slope = slope + np.sqrt(s) * np.eye(2 + 2 * n)[2 + n + step]
        rows.append(level)
    covariance = np.array(rows) @ np.array(rows).T
    values = np.random.default_rng(0).normal(size=(n, 1))
    values[[3, 4, 8]] = NAN
    known = np.flatnonzero(~np.isnan(values[:, 0]))
    inner = covariance[np.ix_(known, known)] + r * np.eye(len(known))
    expected = covariance[-1, known] @ np.linalg.solve(inner, values[known, 0])
    found = filtered(values, trend)
    assert found.level[-1, 0] == pytest.approx(expected, rel=1e-6)
    means, deviations = extrapolated(trend, found.level[-1], found.slope[-1], found.covariance[:, -1], 2)
    assert means.shape == deviations.shape == (2, 1) and deviations[1] > deviations[0]


def test_parameters_are_those_that_made_the_series() -> None:
    random = np.random.default_rng(0)
    walks = random.normal(size=(400, 5)).cumsum(axis=0)
    noise = random.normal(size=(400, 5))
    for values, low, high in ((walks, 3.0, np.inf), (noise, 0.0, 0.1), (walks + 3 * noise, 0.02, 0.5)):
        centre, scale = standards(values)
        found = fit_trend(values, centre, scale)
        assert (found.persistence == 1).all() or values is noise
        ratio = np.where(found.persistence < 1, 0.0, found.level / found.noise)
        assert ((ratio >= low) & (ratio <= high)).all()


def test_seasons_and_trends_are_told_apart_despite_holes() -> None:
    step = np.arange(96)[:, None]
    season = np.array([0, 3, 8, 2, -5, -8])[np.arange(96) % 6][:, None]
    truth = 50 + 0.5 * step + season * np.ones(4)
    values = np.where(np.random.default_rng(0).random(truth.shape) < 0.4, NAN, truth)
    effects = fit_effects(values, standards(values)[1], (6,), None)
    np.testing.assert_allclose(effects.at(np.arange(96)), season * np.ones(4), atol=0.6)
    found, _ = fit_structure(values[:90], (6,)).forecasts(values, np.array([90]), 6)
    np.testing.assert_allclose(found[0], truth[90:], atol=1.5)
    # Without two cycles there is no season to learn.
    assert fit_effects(values[:11], np.ones(4), (6,), None).periods == ()


@pytest.mark.parametrize("logs", [False, True])
def test_effects_do_not_depend_on_the_units_of_a_covariate_or_on_the_level_of_values(logs: bool) -> None:
    random = np.random.default_rng(0)
    price = 10 + random.normal(0, 0.4, (70, 1)).cumsum(axis=0)
    truth = 100 - 1.5 * price + random.normal(0, 0.3, (70, 6))
    values = np.where(random.random(truth.shape) < 0.4, NAN, truth)
    found = []
    for given in (price, 1e-3 * price, 1e4 * price + 1e6):
        covariates = np.repeat(given[:, None], 6, axis=1)
        structure = fit_structure(values[:60], (), covariates[:60], logs=logs)
        found.append(structure.forecasts(values, np.array([60]), 10, covariates)[0][0])
    np.testing.assert_allclose(found[1:], [found[0]] * 2, rtol=1e-6)
    assert np.abs(found[0] - truth[60:]).mean() < 0.5


def test_logarithms_follow_growth_by_factors() -> None:
    truth = 10 * 1.05 ** np.arange(66.0)[:, None] * np.ones(3)
    logs, _ = fit_structure(truth[:60], logs=True).forecasts(truth, np.array([60]), 6)
    np.testing.assert_allclose(logs[0], truth[60:], rtol=0.05)


def test_harmonics_span_every_profile_of_a_short_season() -> None:
    for period in (2, 5, 12):
        waves = harmonics(np.arange(period), (period,))
        assert waves.shape == (period, period - 1)
        assert np.linalg.matrix_rank(np.column_stack([np.ones(period), waves])) == period


def test_last_values() -> None:
    values = np.array([[1.0, NAN], [NAN, NAN], [3.0, 5.0], [NAN, NAN]])
    np.testing.assert_array_equal(last_values(values), [[1, NAN], [1, NAN], [3, 5], [3, 5]])


def test_forecasts_without_parameters() -> None:
    values = np.full((9, 3), NAN)
    values[:, 0] = [1, 2, 3, 1, 2, 3, 1, 2, NAN]
    values[[1, 7], 1] = 10.0, 22.0
    np.testing.assert_array_equal(naive(values, END, 2)[0, :, :2], [[2, 22]] * 2)
    assert naive(values, END, 1)[0, 0, 2] == pytest.approx(np.nanmean(values))
    # The third of the season is known from the cycle before; the second series has none but its last.
    np.testing.assert_array_equal(seasonal_naive(values, END, 3, 3)[0, :, 0], [1, 2, 3])
    line = drift(values, END, 2)[0, :, 1]
    np.testing.assert_allclose(line, [22 + 2 * 2, 22 + 2 * 3])
    np.testing.assert_array_equal(drift(values, END, 2)[0, :, 2], naive(values, END, 2)[0, :, 2])


def test_scales_of_few_values_are_drawn_towards_the_panel() -> None:
    random = np.random.default_rng(0)
    values = 100 + random.normal(0, 5, (40, 30))
    values[2:, 0] = np.nan
    values[:2, 0] = 103.0, 103.001  # two that happen to be near each other
    values[1:, 1] = np.nan
    values[:, 2] = 7.0
    mean, scale = shared_standards(values)
    assert 3 < scale[0] < 7 and 3 < scale[1] < 7 and scale[2] == 0
    assert abs(mean[0] - 100) < 5 and abs(mean[1] - 100) < 6 and mean[2] == 7
    # Series of different kinds, each with many values, are left alone.
    kinds = values[:, 3:] * 10.0 ** np.arange(-13, 14)
    for drawn, plain in zip(shared_standards(kinds), standards(kinds), strict=True):
        np.testing.assert_allclose(drawn, plain, rtol=0.1)
