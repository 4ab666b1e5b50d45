from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from condiff.estimators.features import FeatureMap


def points(n: int = 50, columns: int = 6) -> np.ndarray:
    return np.random.default_rng(0).normal(3.0, 2.0, (n, columns))


def test_standard_scaling_gives_unit_columns() -> None:
    rows = points() * np.array([1, 10, 100, 1, 1, 1e-3])
    scaled = FeatureMap.fit(rows, scaling="standard", width=64).scaled(rows)
    np.testing.assert_allclose(scaled.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(scaled.std(axis=0), 1)


def test_without_scaling_distances_stay() -> None:
    rows = points() * np.array([1, 10, 100, 1, 1, 1e-3])
    scaled = FeatureMap.fit(rows, scaling="none", width=64).scaled(rows)
    np.testing.assert_allclose(scaled[0] - scaled[1], rows[0] - rows[1], atol=1e-12)


@pytest.mark.parametrize(("largest", "standardised"), [(1.0, False), (1000.0, True)])
def test_auto_scaling_standardises_only_where_a_column_dominates(largest: float, standardised: bool) -> None:
    rows = points(columns=10) * np.array([largest, *[1.0] * 9])
    scaled = FeatureMap.fit(rows, scaling="auto", width=64).scaled(rows)
    assert np.allclose(scaled.std(axis=0), 1) == standardised


def test_a_constant_column_stays_silent() -> None:
    rows = points()
    rows[:, 2] = 0.1 + 0.2
    rows[::2, 2] = 0.3  # rounding noise
    scaled = FeatureMap.fit(rows, scaling="standard", width=64).scaled(rows)
    assert np.abs(scaled[:, 2]).max() < 1e-9


def test_inputs_are_centred_with_mean_variance_one() -> None:
    rows = points() * 7
    inputs = FeatureMap.fit(rows, scaling="none", width=64).inputs(rows)
    np.testing.assert_allclose(inputs.mean(axis=0), 0, atol=1e-12)
    assert inputs.var(axis=0).mean() == pytest.approx(1)


def test_wide_rows_are_reduced_to_their_principal_components() -> None:
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(80, 3)) @ rng.normal(size=(3, 20)) + 5.0
    inputs = FeatureMap.fit(rows, scaling="none", width=3).inputs(rows)
    assert inputs.shape == (80, 3)
    # Three components hold everything, so that distances are those of the rows but for the common unit.
    pairs = rng.integers(0, 80, (30, 2))
    before = np.linalg.norm(rows[pairs[:, 0]] - rows[pairs[:, 1]], axis=1)
    after = np.linalg.norm(inputs[pairs[:, 0]] - inputs[pairs[:, 1]], axis=1)
    np.testing.assert_allclose(after, before * (after.sum() / before.sum()), rtol=1e-8)


@pytest.mark.parametrize("width", [4, 64])
def test_sparse_rows_become_dense_inputs_and_are_not_shifted_for_distances(width: int) -> None:
    rows = sp.random_array((40, 30), density=0.2, rng=np.random.default_rng(0), format="csr")
    features = FeatureMap.fit(rows, scaling="auto", width=width)
    assert features.scaled(rows) is rows
    inputs = features.inputs(rows)
    assert inputs.shape == (40, min(width, 30))
    np.testing.assert_allclose(inputs.mean(axis=0), 0, atol=1e-10)


def test_sparse_and_dense_inputs_agree_where_all_columns_are_kept() -> None:
    rows = sp.random_array((40, 30), density=0.2, rng=np.random.default_rng(0), format="csr")
    sparse = FeatureMap.fit(rows, scaling="none", width=64).inputs(rows)
    dense = FeatureMap.fit(rows.toarray(), scaling="none", width=64).inputs(rows.toarray())
    np.testing.assert_allclose(sparse, dense, atol=1e-12)


def test_very_wide_dense_rows_take_at_most_as_many_components_as_rows() -> None:
    rows = np.random.default_rng(0).normal(size=(12, 2500))
    assert FeatureMap.fit(rows, scaling="none", width=64).inputs(rows).shape == (12, 12)


def test_rows_that_are_all_equal_give_finite_inputs() -> None:
    rows = np.ones((5, 3))
    features = FeatureMap.fit(rows, scaling="standard", width=64)
    np.testing.assert_array_equal(features.inputs(rows), np.zeros((5, 3)))
