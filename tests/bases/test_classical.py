"""Bases of few labels: scikit-learn's answers, the posterior mean, and back from arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.covariance import LedoitWolf
from sklearn.datasets import load_wine
from sklearn.linear_model import LogisticRegression, Ridge, RidgeCV
from sklearn.preprocessing import StandardScaler

from condiff.bases import classical
from condiff.bases.classical import Base, Inputs, Labelled
from condiff.errors import InvalidFileError, InvalidInputError

X, Y = load_wine(return_X_y=True)
X = StandardScaler().fit_transform(X)
ROWS = np.arange(0, len(X), 9)


def classes(n: int = 3) -> Labelled:
    rows = ROWS[Y[ROWS] < n]
    return Labelled(Inputs(X), rows, Y[rows], np.ones(len(rows)), 3)


def values() -> Labelled:
    return Labelled(Inputs(X[:, 1:]), ROWS, X[ROWS, :1], np.ones(len(ROWS)), 1)


FITS: list[Callable[[Labelled], Base]] = [
    classical.fit_linear,
    classical.fit_trees,
    classical.fit_gaussian_process,
    lambda data: classical.blend([(classical.fit_linear(data), 1.0), (classical.fit_trees(data), 2.0), (None, 1.0)]),
]


@pytest.mark.parametrize("fit", FITS)
@pytest.mark.parametrize("data", [classes(), classes(2), values()])
def test_it_learns_and_comes_back_from_arrays(fit: Callable[[Labelled], Base], data: Labelled) -> None:
    base = fit(data)
    found = base.outputs(data.inputs.values)
    assert found.shape == (len(X), data.n_outputs)
    if data.classifies:
        np.testing.assert_allclose(found.sum(axis=1), 1.0)
        assert (found >= 0).all()
        assert (found.argmax(axis=1) == Y)[np.isin(Y, data.targets)].mean() > 0.85
    else:
        assert np.corrcoef(found[:, 0], X[:, 0])[0, 1] > 0.5
    np.testing.assert_array_equal(Base.from_dict(base.to_dict()).outputs(data.inputs.values), found)


@pytest.mark.parametrize("fit", [classical.fit_linear, classical.fit_trees, classical.fit_discriminant])
def test_a_class_without_a_label_has_no_chance(fit: Callable[[Labelled], Base]) -> None:
    np.testing.assert_array_equal(fit(classes(2)).outputs(X)[:, 2], 0.0)


def test_linear_bases_are_scikit_learns() -> None:
    data = classes()
    for evens_out, balance in ((True, "balanced"), (False, None)):
        logistic = LogisticRegression(C=0.3, class_weight=balance, max_iter=300).fit(X[ROWS], Y[ROWS])
        found = classical.fit_linear(replace(data, evens_out=evens_out)).outputs(X)
        np.testing.assert_allclose(found, logistic.predict_proba(X), atol=1e-6)
    ridge = RidgeCV(np.logspace(-2, 3, 16)).fit(X[ROWS, 1:], X[ROWS, 0])
    found = classical.fit_linear(values()).outputs(X[:, 1:])[:, 0]
    np.testing.assert_allclose(found, ridge.predict(X[:, 1:]), atol=1e-9)


def test_the_discriminant_is_scikit_learns_with_the_covariance_that_all_classes_share() -> None:
    data = classes()
    means = np.stack([X[ROWS][Y[ROWS] == label].mean(axis=0) for label in range(3)])
    residuals = (X[ROWS] - means[Y[ROWS]]) * np.sqrt(len(ROWS) / (len(ROWS) - 3))
    shared = LedoitWolf(assume_centered=True).fit(residuals).covariance_
    linear = means @ np.linalg.inv(shared)
    z = X @ linear.T - 0.5 * (linear * means).sum(axis=1) + np.log(np.bincount(Y[ROWS]) / len(ROWS))
    found = classical.fit_discriminant(data)
    assert found is not None
    np.testing.assert_allclose(found.outputs(X), softmax(z, axis=1), atol=1e-4)


def test_a_tilt_helps_small_classes_and_believes_a_third_of_estimated_sizes() -> None:
    rows = np.concatenate([np.flatnonzero(label == Y)[:count] for label, count in enumerate((12, 6, 2))])
    data = Labelled(Inputs(X), rows, Y[rows], np.ones(len(rows)), 3)
    plain = classical.blend([(classical.fit_linear(data), 1.0)])
    found = classical.tilted(plain, data)
    assert found.tilt is not None
    np.testing.assert_allclose(found.tilt / found.tilt[0], (np.array([13, 7, 3]) / 13) ** (-1 / 3))
    np.testing.assert_allclose(found.outputs(X).sum(axis=1), 1.0)
    assert classical.tilted(plain, replace(data, evens_out=False)) is plain
    # Equally many labels say nothing of sizes; the points do: nine in ten are of the first class.
    many = np.concatenate([np.flatnonzero(Y == 0)[:54], np.flatnonzero(Y == 1)[:3], np.flatnonzero(Y == 2)[:3]])
    inputs, picked = Inputs(X[many]), np.array([0, 1, 2, 54, 55, 56, 57, 58, 59])
    even = Labelled(inputs, picked, Y[many][picked], np.ones(9), 3)
    tilt = classical.tilted(classical.blend([(classical.fit_linear(even), 1.0)]), even).tilt
    assert tilt is not None
    assert tilt[0] > 1.2 * tilt[1:].max()


def test_one_label_per_class_has_no_discriminant() -> None:
    rows = np.array([0, 70, 140])
    assert classical.fit_discriminant(Labelled(Inputs(X), rows, Y[rows], np.ones(3), 3)) is None


def test_the_process_is_the_posterior_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("_SCALES", (1.0,)), ("_LINEAR", (0.5,)), ("_NOISE", (0.3,))):
        monkeypatch.setattr(classical, name, value)
    data = values()
    base = classical.fit_gaussian_process(data)
    centred = data.inputs.values - data.inputs.mean
    rate, size = base.rates[0], (centred**2).sum(axis=1).mean()

    def kernel(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return 0.5 * np.exp(-rate * ((a[:, None] - b) ** 2).sum(axis=2)) + 0.5 * a @ b.T / size

    here, mean = centred[ROWS], data.targets.mean()
    pulls = np.linalg.solve(kernel(here, here) + 0.3 * np.eye(len(here)), data.targets - mean)
    np.testing.assert_allclose(base.outputs(data.inputs.values), kernel(centred, here) @ pulls + mean, atol=1e-9)


@pytest.mark.parametrize("fit", FITS)
@pytest.mark.parametrize("data", [classes(), values()])
def test_many_rows_are_answered_as_few_and_in_single_precision(
    fit: Callable[[Labelled], Base], data: Labelled, monkeypatch: pytest.MonkeyPatch
) -> None:
    base, rows = fit(data), data.inputs.values
    whole = base.outputs(rows)
    monkeypatch.setattr(classical, "_ROWS", 32)  # several blocks, each in some thread
    np.testing.assert_allclose(base.outputs(rows), whole, rtol=1e-9, atol=1e-12)
    single = base.outputs(rows.astype(np.float32))
    assert single.dtype == np.float64
    assert np.abs(single - whole).mean() < 1e-3 * np.ptp(whole)  # a row at a threshold may go the other way


def test_any_estimator_can_be_wrapped_but_not_saved() -> None:
    base = classical.fit_wrapped(classes(2), LogisticRegression())
    assert (base.outputs(X)[:, 2] == 0).all()
    with pytest.raises(InvalidInputError, match="LogisticRegression cannot be saved without a pickle"):
        base.to_dict()
    assert classical.fit_wrapped(values(), Ridge()).outputs(X[:, 1:]).shape == (len(X), 1)


def test_an_unknown_base_is_refused() -> None:
    with pytest.raises(InvalidFileError, match="base 'Oracle'"):
        Base.from_dict({"kind": "Oracle"})
