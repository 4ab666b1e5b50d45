"""Shocks that are shared over a graph: the joint filter against dense algebra, at its limits, and in groups."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from condiff.estimators.forecasting import diffused
from condiff.estimators.forecasting.diffused import Correlation, JointTrend, Kernels, fit_diffused
from condiff.estimators.forecasting.structure import Trend, extrapolated, filtered, fit_structure
from condiff.graph import Graph

NAN = float("nan")


def ring(n: int) -> Graph:
    return Graph.of(np.roll(np.eye(n), 1, axis=1) + np.roll(np.eye(n), -1, axis=1))


def made_up(n: int, seed: int = 0) -> Trend:
    random = np.random.default_rng(seed)
    slope = np.where(np.arange(n) % 2 == 0, 0.05, 0.0)
    ones = np.ones(n)
    persistence = np.where(np.arange(n) == 1, 0.9, 1.0)
    return Trend(0 * ones, ones, persistence, 0.9 * ones, random.uniform(0.2, 1, n), slope, random.uniform(0.3, 1, n))


def holes(days: int, n: int, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    return np.where(random.random((days, n)) < 0.4, NAN, random.normal(size=(days, n)).cumsum(axis=0))


def test_without_a_share_every_series_is_filtered_by_itself() -> None:
    trend, values, origins = made_up(4), holes(20, 4), np.array([7, 20])
    joint = JointTrend(trend, Correlation(share=0.0), Kernels([ring(4)]))
    means, deviations = joint.forecasts(values, origins, 3)
    alone = filtered(values, trend)
    at = origins - 1
    expected = extrapolated(trend, alone.level[at], alone.slope[at], alone.covariance[:, at], 3)
    np.testing.assert_allclose(means, expected[0].swapaxes(0, 1), atol=1e-8)
    np.testing.assert_allclose(deviations, expected[1].swapaxes(0, 1), atol=1e-8)


@pytest.mark.parametrize("noise_share", [0.0, 0.7])
def test_filter_and_smoother_are_the_regression_on_all_known_values(noise_share: float) -> None:
    """Against the covariance of all states and values, written out."""
    n, days = 3, 7
    trend, values = made_up(n), holes(days, n, 1)
    joint = JointTrend(trend, Correlation(2.0, 0.8, noise_share), Kernels([ring(n)]))
    start, (shocks, noise) = joint.start().covariance, joint.covariances(0)
    size = len(start)
    # Every state as a linear map of independent shocks.
    roots = [
        np.linalg.cholesky(start + 1e-15 * np.eye(size)),
        *[np.linalg.cholesky(shocks + 1e-15 * np.eye(size))] * days,
    ]
    state, rows = np.zeros((size, size * (days + 1))), []
    state[:, :size] = roots[0]
    for day in range(days):
        state = joint._moved(state)
        state[:, size * (day + 1) : size * (day + 2)] += roots[day + 1]
        rows.append(state[:n].copy())
    levels = np.concatenate(rows)
    covariance = levels @ levels.T
    known = np.flatnonzero(~np.isnan(values.ravel()))
    inner = covariance[np.ix_(known, known)] + np.kron(np.eye(days), noise)[np.ix_(known, known)]
    weights = np.linalg.solve(inner, values.ravel()[known])
    expected = (covariance[:, known] @ weights).reshape(days, n)
    extra = np.kron(np.eye(days), noise)[:, known] @ weights
    holed = np.isnan(values)
    found, _ = joint.smoothed(values)
    wanted = expected + extra.reshape(days, n)
    if noise_share == 0:
        np.testing.assert_allclose(found, expected, atol=1e-6)
    else:
        np.testing.assert_allclose(found[holed], wanted[holed], atol=0.15)
    ahead, _ = joint.forecasts(values, np.array([days]), 1)
    coming = joint._moved(state)[:n] @ levels.T
    np.testing.assert_allclose(ahead[0, 0], coming[:, known] @ weights, atol=1e-6)


def test_blocks_of_days_are_smoothed_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    trend, values = made_up(3), holes(150, 3)
    joint = JointTrend(trend, Correlation(), Kernels([ring(3)]))
    whole = joint.smoothed(values)
    monkeypatch.setattr(diffused, "_MOST_NUMBERS", 2 * 25 * 60)
    cut = joint.smoothed(values)
    np.testing.assert_allclose(cut[0], whole[0], atol=0.02)


def test_correlations_of_a_graph() -> None:
    kernels = Kernels([ring(6)])
    short, long = kernels.at(0.01)[0], kernels.at(1e4)[0]
    np.testing.assert_allclose(np.diag(short), 1)
    assert short[0, 1] < 0.02
    np.testing.assert_allclose(long, 1, atol=1e-6)
    middle = kernels.at(1.0)[0]
    assert middle[0, 1] > middle[0, 2] > middle[0, 3] > 0
    # A series without an edge shares nothing.
    lone = Graph.of(np.pad(np.ones((2, 2)) - np.eye(2), (0, 1)))
    assert Kernels([lone]).at(3.0)[0][2].tolist() == [0, 0, 1]


def test_shared_shocks_are_found_and_others_are_not() -> None:
    random = np.random.default_rng(0)
    apart = random.normal(size=(80, 8)).cumsum(axis=0)
    together = random.normal(size=(80, 1)).cumsum(axis=0) + 0.2 * apart
    shares = []
    for values in (apart, together):
        structure = fit_structure(values)
        shares.append(fit_diffused(structure, values, [ring(8)], None).correlation.share)
    assert shares[0] <= 0.3 and shares[1] >= 0.85


def test_a_graph_per_day_is_that_of_the_day() -> None:
    trend, values = made_up(4), holes(12, 4)
    graphs = [ring(4)] * 11 + [Graph.of(np.ones((4, 4)) - np.eye(4))]
    several = JointTrend(trend, Correlation(), Kernels(graphs))
    one = JointTrend(trend, Correlation(), Kernels([ring(4)]))
    early = np.array([11])
    np.testing.assert_allclose(several.forecasts(values, early, 1)[0], one.forecasts(values, early, 1)[0])
    late = np.array([12])
    assert np.abs(several.forecasts(values, late, 1)[0] - one.forecasts(values, late, 1)[0]).max() > 1e-6


def test_many_series_are_cut_into_groups_of_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    values = holes(40, 12)
    structure = fit_structure(values)
    whole = fit_diffused(structure, values, [ring(12)], None)
    monkeypatch.setattr(diffused, "_MOST_SERIES", 5)
    groups = diffused._groups(ring(12))
    assert sorted(np.concatenate(groups).tolist()) == list(range(12)) and max(map(len, groups)) <= 5
    parts = replace(whole, correlation=replace(whole.correlation, share=0.0, noise_share=0.0))
    found, _ = parts.forecasts(values, [ring(12)], np.array([40]), 2)
    pace = np.isclose(parts.correlation.pace, 1.0)
    if pace:
        np.testing.assert_allclose(found, structure.forecasts(values, np.array([40]), 2)[0], atol=1e-8)
    assert np.isfinite(found).all()
