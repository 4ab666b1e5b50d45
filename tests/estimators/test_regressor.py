from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.model_selection import KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from condiff import COINRegressor
from condiff.errors import InvalidInputError, StepSizeError, UnlabelledComponentWarning

FAST: dict[str, Any] = {"epochs": 15, "n_inits": 1, "folds": 0}


def curve(n: int = 120, every: int = 8) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points along a half circle, their angle, and the same with all but every few hidden as NaN."""
    angle = np.sort(np.random.default_rng(0).uniform(0, 3, n))
    X = np.stack([np.cos(angle), np.sin(angle), 0.1 * np.cos(5 * angle)], axis=1)
    y = np.full(n, np.nan)
    y[::every] = angle[::every]
    return X, angle, y


def test_a_few_values_tell_the_others() -> None:
    X, angle, y = curve()
    model = COINRegressor().fit(X, y)
    assert model.transduction_.shape == (120,)
    assert np.abs(model.transduction_ - angle).mean() < 0.15
    assert model.cv_score_ > 0.8


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA])
def test_values_may_be_left_out_in_a_pandas_series(missing: Any) -> None:
    X, _, y = curve()
    series = pd.Series([missing if np.isnan(value) else value for value in y], dtype="Float64")
    np.testing.assert_array_equal(
        COINRegressor(**FAST).fit(X, series).transduction_, COINRegressor(**FAST).fit(X, y).transduction_
    )


def test_training_rows_get_their_fitted_value_in_any_order_and_subset() -> None:
    X, _, y = curve()
    X, y = np.vstack([X, X[:5]]), np.append(y, np.full(5, np.nan))
    model = COINRegressor(**FAST).fit(X, y)
    for rows in (np.arange(125), np.random.default_rng(0).permutation(125), [3, 3, 124]):
        np.testing.assert_array_equal(model.predict(X[rows]), model.transduction_[rows])


def test_new_points_are_answered_through_their_neighbours() -> None:
    X, angle, y = curve(160)
    known = np.arange(160) % 4 != 1
    model = COINRegressor(folds=0).fit(X[known], y[known])
    assert np.abs(model.predict(X[~known]) - angle[~known]).mean() < 0.15


@pytest.mark.parametrize(("factor", "offset"), [(1000.0, 0.0), (1e-3, 0.0), (-2.0, 50.0)])
def test_predictions_follow_the_units_of_the_target(factor: float, offset: float) -> None:
    X, _, y = curve()
    plain, scaled = COINRegressor(**FAST).fit(X, y), COINRegressor(**FAST).fit(X, factor * y + offset)
    if factor > 0:
        np.testing.assert_allclose(
            scaled.predict(X + 0.01), factor * plain.predict(X + 0.01) + offset, atol=1e-3 * abs(factor)
        )
    else:  # the mirrored network is another one, but the values are where they should be
        assert np.abs(scaled.transduction_ - (factor * y + offset))[~np.isnan(y)].mean() < 0.5 * abs(factor)


def test_several_outputs_at_once() -> None:
    X, angle, y = curve()
    Y = np.stack([y, 10 * y**2], axis=1)
    model = COINRegressor().fit(X, Y)
    assert model.transduction_.shape == (120, 2)
    assert model.predict(X[:3] + 0.01).shape == (3, 2)
    assert np.abs(model.transduction_[:, 0] - angle).mean() < 0.2
    assert np.abs(model.transduction_[:, 1] - 10 * angle**2).mean() < 4


def test_a_row_with_only_some_outputs_is_refused() -> None:
    X, _, y = curve()
    Y = np.stack([y, y], axis=1)
    Y[8, 1] = np.nan
    with pytest.raises(InvalidInputError, match="row 8 of y has some of its 2 outputs"):
        COINRegressor(**FAST).fit(X, Y)


def test_without_any_value_there_is_nothing_to_learn() -> None:
    X, _, y = curve()
    with pytest.raises(InvalidInputError, match="every target is missing"):
        COINRegressor(**FAST).fit(X, np.full_like(y, np.nan))


def test_the_same_value_everywhere_is_predicted_everywhere() -> None:
    X, _, y = curve()
    model = COINRegressor(epochs=60, folds=0).fit(X, np.where(np.isnan(y), np.nan, 7.0))
    np.testing.assert_allclose(model.transduction_, 7.0, atol=0.2)


def test_a_sample_weight_of_zero_is_an_absent_row_and_two_is_a_row_given_twice() -> None:
    X, _, y = curve()
    weights = np.ones(120)
    weights[::24], weights[8::24] = 0, 2
    weighted = COINRegressor(**FAST).fit(X, y, sample_weight=weights)
    there, twice = weights > 0, weights == 2
    repeated = COINRegressor(**FAST).fit(np.vstack([X[there], X[twice]]), np.append(y[there], y[twice]))
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), atol=1e-5)
    assert np.abs(weighted.predict(X) - COINRegressor(**FAST).fit(X, y).predict(X)).max() > 1e-3


def test_two_values_of_one_point_are_their_mean() -> None:
    X, _, y = curve()
    y[0] = 1.0
    twice = COINRegressor(**FAST).fit(np.vstack([X, X[:1]]), np.append(y, 3.0))
    y[0] = 2.0
    weights = np.ones(120)
    weights[0] = 2
    once = COINRegressor(**FAST).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(twice.predict(X), once.predict(X), atol=0.05)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_a_given_adjacency_carries_the_values(form: Any) -> None:
    line = np.eye(40, k=1) + np.eye(40, k=-1)
    truth = np.repeat([0.0, 5.0], 20)
    line[19, 20] = line[20, 19] = 0.01
    y = np.full(40, np.nan)
    y[[5, 15, 25, 35]] = truth[[5, 15, 25, 35]]
    X = np.random.default_rng(0).normal(size=(40, 2))
    model = COINRegressor(graph="precomputed", layers=400, folds=0).fit(X, y, adjacency=form(line))
    assert ((model.transduction_ > 2.5) == (truth > 2.5)).mean() > 0.9
    cross = np.zeros((1, 40))
    cross[0, [29, 30, 31]] = 1
    assert model.predict(np.zeros((1, 2)), adjacency=form(cross))[0] > 2.5
    with pytest.warns(UserWarning, match="came without adjacency"):
        model.predict(np.zeros((1, 2)))


def test_points_that_no_value_reaches_are_flagged() -> None:
    X, _ = make_blobs(60, centers=[[0, 0], [100, 0]], random_state=0)
    y = np.where(X[:, 0] > 50, np.nan, X[:, 1])
    with pytest.warns(UnlabelledComponentWarning):
        model = COINRegressor(**FAST).fit(X, y)
    np.testing.assert_array_equal(model.unlabelled_component_, X[:, 0] > 50)


def test_strict_refuses_a_strength_past_the_limit() -> None:
    X, _, y = curve()
    with pytest.raises(StepSizeError, match="past the stability limit"):
        COINRegressor(**FAST, strength=100.0, strict=True).fit(X, y)


def test_it_works_in_a_pipeline_under_cross_validation_and_as_a_clone() -> None:
    X, angle, y = curve()
    pipeline, folds = make_pipeline(StandardScaler(), COINRegressor(folds=0)), KFold(3, shuffle=True, random_state=0)
    assert cross_val_score(pipeline, X, angle, cv=folds).min() > 0.9
    model = COINRegressor(**FAST, n_neighbors=5).fit(X, y)
    np.testing.assert_array_equal(clone(model).fit(X, y).predict(X), model.predict(X))


def test_a_fully_labelled_fit_scores_well() -> None:
    X, angle, _ = curve()
    assert COINRegressor().fit(X, angle).score(X, angle) > 0.95


def test_a_seed_gives_the_same_bytes_and_another_gives_others() -> None:
    X, _, y = curve()
    first, again, other = (COINRegressor(**FAST, random_state=seed).fit(X, y).predict(X) for seed in (1, 1, 2))
    assert first.tobytes() == again.tobytes() != other.tobytes()
