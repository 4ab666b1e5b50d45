"""Bases of few labels: scikit-learn's answers, the posterior mean, and back from arrays."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.preprocessing import StandardScaler

from condiff.bases import classical
from condiff.bases.classical import Base, Labelled
from condiff.errors import InvalidFileError, InvalidInputError

X, Y = load_wine(return_X_y=True)
X = StandardScaler().fit_transform(X)
ROWS = np.arange(0, len(X), 9)


def classes(n: int = 3) -> Labelled:
    rows = ROWS[Y[ROWS] < n]
    return Labelled(X, rows, Y[rows], np.ones(len(rows)), 3)


def values() -> Labelled:
    return Labelled(X[:, 1:], ROWS, X[ROWS, :1], np.ones(len(ROWS)), 1)


FITS: list[Callable[[Labelled], Base]] = [
    classical.fit_logistic,
    classical.fit_trees,
    classical.fit_gaussian_process,
    lambda data: classical.blend([(classical.fit_logistic(data), 1.0), (classical.fit_trees(data), 2.0), (None, 1.0)]),
]


@pytest.mark.parametrize("fit", FITS)
@pytest.mark.parametrize("data", [classes(), classes(2), values()])
def test_it_learns_and_comes_back_from_arrays(fit: Callable[[Labelled], Base], data: Labelled) -> None:
    base = fit(data)
    found = base.outputs(data.inputs)
    assert found.shape == (len(X), data.n_outputs)
    if data.classifies:
        np.testing.assert_allclose(found.sum(axis=1), 1.0)
        assert (found >= 0).all()
        assert (found.argmax(axis=1) == Y)[np.isin(Y, data.targets)].mean() > 0.85
    else:
        assert np.corrcoef(found[:, 0], X[:, 0])[0, 1] > 0.5
    np.testing.assert_array_equal(Base.from_dict(base.to_dict()).outputs(data.inputs), found)


@pytest.mark.parametrize("fit", [classical.fit_logistic, classical.fit_trees, classical.fit_discriminant])
def test_a_class_without_a_label_has_no_chance(fit: Callable[[Labelled], Base]) -> None:
    np.testing.assert_array_equal(fit(classes(2)).outputs(X)[:, 2], 0.0)


def test_linear_bases_are_scikit_learns() -> None:
    data = classes()
    logistic = LogisticRegression(class_weight="balanced", max_iter=300).fit(X[ROWS], Y[ROWS])
    np.testing.assert_allclose(classical.fit_logistic(data).outputs(X), logistic.predict_proba(X), atol=1e-6)
    lda = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto").fit(X[ROWS], Y[ROWS])
    discriminant = classical.fit_discriminant(data)
    assert discriminant is not None
    np.testing.assert_allclose(discriminant.outputs(X), lda.predict_proba(X), atol=1e-9)
    ridge = Ridge().fit(StandardScaler().fit(X[:, 1:]).transform(X[ROWS, 1:]), X[ROWS, 0])
    found = classical.fit_logistic(values()).outputs(X[:, 1:])[:, 0]
    np.testing.assert_allclose(found, ridge.predict(X[:, 1:]), atol=1e-9)


def test_one_label_per_class_has_no_discriminant() -> None:
    rows = np.array([0, 70, 140])
    assert classical.fit_discriminant(Labelled(X, rows, Y[rows], np.ones(3), 3)) is None


def test_the_process_is_the_posterior_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("_SCALES", (1.0,)), ("_LINEAR", (0.5,)), ("_NOISE", (0.3,))):
        monkeypatch.setattr(classical, name, value)
    data = values()
    base = classical.fit_gaussian_process(data)
    centred = data.inputs - data.inputs.mean(axis=0)
    rate, size = base.rates[0], (centred**2).sum(axis=1).mean()

    def kernel(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return 0.5 * np.exp(-rate * ((a[:, None] - b) ** 2).sum(axis=2)) + 0.5 * a @ b.T / size

    here, mean = centred[ROWS], data.targets.mean()
    pulls = np.linalg.solve(kernel(here, here) + 0.3 * np.eye(len(here)), data.targets - mean)
    np.testing.assert_allclose(base.outputs(data.inputs), kernel(centred, here) @ pulls + mean, atol=1e-9)


def test_any_estimator_can_be_wrapped_but_not_saved() -> None:
    base = classical.fit_wrapped(classes(2), LogisticRegression())
    assert (base.outputs(X)[:, 2] == 0).all()
    with pytest.raises(InvalidInputError, match="LogisticRegression cannot be saved without a pickle"):
        base.to_dict()
    assert classical.fit_wrapped(values(), Ridge()).outputs(X[:, 1:]).shape == (len(X), 1)


def test_an_unknown_base_is_refused() -> None:
    with pytest.raises(InvalidFileError, match="base 'Oracle'"):
        Base.from_dict({"kind": "Oracle"})
