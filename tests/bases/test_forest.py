"""Trees as arrays: scikit-learn's answers, the same trees with and without numba, and files that lead nowhere."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor

from condiff import kernels
from condiff.bases.forest import Forest
from condiff.errors import InvalidFileError

X, Y = load_wine(return_X_y=True)


def grown(**changes: int) -> Forest:
    settings = {"n_trees": 20, "n_tried": 3, "fewest": 1, "seed": 0} | changes
    return Forest.grow(X[::6], np.eye(3)[Y[::6]], np.ones(len(X[::6])), **settings)


def test_it_answers_as_scikit_learn_does() -> None:
    classifier = ExtraTreesClassifier(30, random_state=0).fit(X[::5], Y[::5])
    forest = Forest.from_sklearn(classifier.estimators_)
    np.testing.assert_allclose(forest.outputs(X), classifier.predict_proba(X), atol=1e-12)
    values = np.stack([X[:, 0], X[:, 1]], axis=1)
    regressor = ExtraTreesRegressor(20, random_state=0).fit(X[::5], values[::5])
    np.testing.assert_allclose(Forest.from_sklearn(regressor.estimators_).outputs(X), regressor.predict(X), rtol=1e-12)


def test_grown_trees_fit_their_own_rows_and_leave_enough_in_a_leaf() -> None:
    np.testing.assert_allclose(grown().outputs(X[::6]), np.eye(3)[Y[::6]], atol=1e-12)  # no ties: leaves are pure
    assert np.unique(grown(fewest=5).leaves(X[::6]), return_counts=True)[1].min() >= 5


def test_grown_trees_are_about_as_good_as_scikit_learns() -> None:
    ours = grown(n_trees=200).outputs(X).argmax(axis=1)
    theirs = ExtraTreesClassifier(200, max_features=3, random_state=0).fit(X[::6], Y[::6]).predict(X)
    assert abs((ours == Y).mean() - (theirs == Y).mean()) < 0.06


def test_a_root_alone_answers_with_the_weighted_mean() -> None:
    weights = np.linspace(1.0, 2.0, len(X[::6]))
    forest = Forest.grow(X[::6], X[::6, :1], weights, n_trees=3, n_tried=2, fewest=40, seed=0)
    np.testing.assert_allclose(forest.outputs(X), np.average(X[::6, 0], weights=weights))


def test_trees_are_the_same_without_numba(monkeypatch: pytest.MonkeyPatch) -> None:
    if not kernels.available():
        pytest.skip("numba is not installed")
    compiled, leaves = grown(), grown().leaves(X)
    monkeypatch.setattr(kernels, "available", lambda: False)
    plain = grown()
    for name in ("feature", "threshold", "left", "right", "value"):
        np.testing.assert_allclose(getattr(plain, name), getattr(compiled, name), rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(compiled.leaves(X), leaves)


@pytest.mark.parametrize("change", ["child", "circle", "root", "short"])
def test_trees_that_lead_nowhere_are_refused(change: str) -> None:
    state = {name: value.copy() for name, value in grown().to_dict().items()}
    inner = int(np.flatnonzero(state["feature"] >= 0)[0])
    if change == "child":
        state["left"][inner] = 10**6
    elif change == "circle":
        state["right"][inner] = inner
    elif change == "root":
        state["roots"][0] = -1
    else:
        state["threshold"] = state["threshold"][:-1]
    with pytest.raises(InvalidFileError, match="lead nowhere"):
        Forest.from_dict(state)


def test_compiled_means_are_numpys_to_the_bit() -> None:
    generator = np.random.default_rng(0)
    points, targets = generator.normal(size=(60, 5)), np.eye(3)[generator.integers(0, 3, 60)]
    forest = Forest.grow(points, targets, np.ones(60), n_trees=30, n_tried=2, fewest=1, seed=0)
    rows = generator.normal(size=(40_000, 5))  # places enough for the compiled loops
    found, leaves = forest.outputs(rows), forest.leaves(rows)
    np.testing.assert_array_equal(found, forest.value[leaves].mean(axis=1))
    np.testing.assert_array_equal(leaves[:100], forest.leaves(rows[:100]))
    np.testing.assert_array_equal(forest.outputs(rows[:100]), found[:100])
