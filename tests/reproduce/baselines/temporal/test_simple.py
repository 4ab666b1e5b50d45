"""The methods that a forecaster would try first, on series that can be followed by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.ensemble import HistGradientBoostingRegressor

from condiff.errors import InvalidInputError
from condiff.reproduce.baselines.temporal import method
from condiff.reproduce.baselines.temporal.problem import SnapshotGraphs, TemporalProblem

NAN = float("nan")


def two_regions(values: list[list[float]], first_test: int, lags: int = 2) -> TemporalProblem:
    array = np.array(values)
    snapshots = len(array) - lags + 1
    targets = np.full((snapshots, 2), NAN)
    targets[:-1] = array[lags:]
    targets[first_test:] = NAN
    graphs = SnapshotGraphs((sp.csr_array(np.eye(2)),) * snapshots)
    parts = slice(0, first_test - 1), slice(first_test - 1, first_test), slice(first_test, snapshots)
    return TemporalProblem("two", array, targets, graphs, lags, *parts)


#: Nine days; the tests ask for the days 6, 7, 8 and 9.
SERIES = [[1.0, NAN], [2.0, NAN], [NAN, NAN], [4.0, NAN], [NAN, NAN], [NAN, NAN], [7.0, NAN], [NAN, 5.0], [9.0, NAN]]


@pytest.mark.parametrize(
    ("name", "settings", "expected"),
    [
        ("All-Zero", {}, [[0, 0], [0, 0], [0, 0], [0, 0]]),
        ("LastValue", {}, [[4, 0], [7, 0], [7, 5], [9, 5]]),
        ("RegionMean", {}, [[7 / 3, 0], [14 / 4, 0], [14 / 4, 5], [23 / 5, 5]]),
        # Day 6 is as day 3 (and 0), 7 as 4 and 1, 8 as 5 and 2, 9 as 6.
        ("SeasonalNaive", {"period": 3}, [[4, 0], [2, 0], [0, 0], [7, 0]]),
        ("SeasonalNaive", {"period": 7}, [[0, 0], [1, 0], [2, 0], [0, 0]]),
    ],
)
def test_simple_forecasts(name: str, settings: dict[str, int], expected: list[list[float]]) -> None:
    outcome = method(name)(**settings).solve(two_regions(SERIES, 4), 0)
    np.testing.assert_allclose(outcome.predictions, expected, rtol=1e-6)
    assert (outcome.epochs, outcome.seconds) == (0, 0.0)


def test_linear_regression_solves_the_normal_equations(waves: TemporalProblem) -> None:
    rows, answers = [], []
    for snapshot in range(5):
        for region in range(12):
            if not np.isnan(waves.targets[snapshot, region]):
                rows.append([*np.nan_to_num(waves.history[snapshot : snapshot + 4, region]), 1.0])
                answers.append(waves.targets[snapshot, region])
    weights = np.linalg.lstsq(np.array(rows), np.array(answers), rcond=None)[0]
    inputs = waves.inputs[waves.test].double().numpy()
    expected = inputs @ weights[:4] + weights[4]
    np.testing.assert_allclose(method("LR")().solve(waves, 0).predictions, expected, rtol=1e-4, atol=1e-5)


def test_trees_see_that_a_value_is_hidden(waves: TemporalProblem) -> None:
    known = ~np.isnan(waves.targets[:5])
    plain = HistGradientBoostingRegressor(max_iter=10, min_samples_leaf=3, random_state=0)
    plain.fit(waves.lagged[:5][known], waves.targets[:5][known])
    expected = plain.predict(waves.lagged[8:].reshape(-1, 4)).reshape(8, 12)
    found = method("GradientBoosting")(trees=10, leaf=3).solve(waves, 0).predictions
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert np.isnan(waves.lagged).any()


def test_a_lag_of_which_nothing_is_known_is_left_out(waves: TemporalProblem) -> None:
    history = waves.history.copy()
    history[:5] = np.nan  # the first lag of all training snapshots
    sparse = replace(waves, history=history, train=slice(0, 2))
    rows, targets = sparse.training_rows
    assert np.isnan(rows[:, 0]).all() and len(rows) == len(targets) > 0
    found = method("GradientBoosting")(leaf=2).solve(sparse, 0).predictions
    assert np.isfinite(found.numpy()).all()


@pytest.mark.parametrize("name", ["LR", "GradientBoosting", "MLP", "COIN"])
def test_without_a_known_target_there_is_nothing_to_learn(name: str, waves: TemporalProblem) -> None:
    with pytest.raises(InvalidInputError, match="nothing to learn from"):
        method(name)().solve(replace(waves, targets=np.full_like(waves.targets, np.nan)), 0)
