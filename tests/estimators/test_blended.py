"""Bases of the labels alone, diffused as far as a rehearsal supports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits, load_wine, make_moons
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import r2_score

from condiff import COINClassifier, COINRegressor, load
from condiff.errors import InvalidInputError
from condiff.estimators.blended import Candidate


def few(y: np.ndarray, per_class: int, seed: int = 0) -> np.ndarray:
    generator = np.random.default_rng(seed)
    labels = np.full(len(y), -1)
    for label in np.unique(y):
        labels[generator.choice(np.flatnonzero(y == label), per_class, replace=False)] = label
    return labels


def accuracy(model: COINClassifier, y: np.ndarray, labels: np.ndarray) -> float:
    return float((model.transduction_ == y)[labels < 0].mean())


def with_and_without(X: np.ndarray, y: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
    auto, plain = (COINClassifier(base="blend", layers=layers, folds=0).fit(X, labels) for layers in ("auto", 0))
    return accuracy(auto, y, labels), accuracy(plain, y, labels)


def test_digits_are_diffused_and_gain_much() -> None:
    X, y = load_digits(return_X_y=True)
    X, y = X[:900], y[:900]
    found, without = with_and_without(X, y, few(y, 3))
    assert found > without + 0.03


def test_what_neighbours_know_nothing_of_is_hardly_diffused() -> None:
    X = np.random.default_rng(0).normal(size=(300, 8))
    y = (X[:, 0] > 0).astype(int)
    found, without = with_and_without(X, y, few(y, 10))
    assert found > without - 0.03


@pytest.mark.parametrize("base", ["blend", LogisticRegression()])
def test_new_rows_are_answered_like_old_ones(base: Any) -> None:
    X, y = load_wine(return_X_y=True)
    labels = few(y, 5)
    model = COINClassifier(base=base).fit(X, labels)
    assert accuracy(model, y, labels) > 0.85
    moved = model.predict(X + 1e-7 * X.std(axis=0))  # not the training rows, but next to them
    assert (moved == model.predict(X))[labels < 0].mean() > 0.9
    np.testing.assert_array_equal(model.predict(X), model.transduction_)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)


def test_shared_leaves_are_saved_with_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("condiff.estimators.blended.rehearse", lambda *_: [Candidate("trees", 4)])
    X, y = load_wine(return_X_y=True)
    model = COINClassifier(base="blend").fit(X, few(y, 5))
    assert model._domain.links is not None
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    for rows in (X, X[:40] * 1.01):
        np.testing.assert_array_equal(again.predict_proba(rows), model.predict_proba(rows))


def test_known_sizes_are_kept() -> None:
    X, y = make_moons(300, noise=0.3, random_state=0)
    sizes = {0: 200, 1: 100}
    model = COINClassifier(base="blend", layers=8, class_prior=sizes, calibration=None).fit(X, few(y, 5))
    np.testing.assert_allclose(model.predict_proba(X).mean(axis=0), [2 / 3, 1 / 3], atol=0.02)


@pytest.mark.parametrize(
    ("prior", "message"),
    [({0: 1}, "lacks the class 1"), ({0: 1, 1: 1, 2: 1}, "names 2"), ({0: 1, 1: -1}, "positive and finite")],
)
def test_wrong_sizes_are_refused(prior: dict[int, float], message: str) -> None:
    X, y = make_moons(40, random_state=0)
    with pytest.raises(InvalidInputError, match=message):
        COINClassifier(base="blend", class_prior=prior).fit(X, y)


def test_values_are_diffused_too(tmp_path: Path) -> None:
    angle = np.linspace(0, 3, 200)
    X = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    y = np.full(200, np.nan)
    y[::14] = angle[::14]
    model = COINRegressor(base="blend").fit(X, y)
    assert r2_score(angle, model.transduction_) > 0.9
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict(X * 1.001), model.predict(X * 1.001))
    assert r2_score(angle, COINRegressor(base=Ridge()).fit(X, y).transduction_) > 0.5


def test_the_same_seed_gives_the_same_bits_and_a_clone_too() -> None:
    X, y = load_wine(return_X_y=True)
    labels = few(y, 4)
    model = COINClassifier(base="blend", random_state=3)
    first = model.fit(X, labels).predict_proba(X)
    np.testing.assert_array_equal(clone(model).fit(X, labels).predict_proba(X), first)
