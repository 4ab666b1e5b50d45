"""Labels that are chances, labels that may be wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from condiff import COINClassifier, load
from condiff.errors import InvalidInputError


def _clusters(seed: int = 0) -> tuple[Any, Any]:
    generator = np.random.default_rng(seed)
    y = np.arange(90) % 3
    return generator.normal(size=(90, 2)) + 4 * np.array([[0, 0], [1, 0], [0, 1]])[y], y


def _fast(**options: Any) -> COINClassifier:
    return COINClassifier(base=LogisticRegression(), layers=3, **options)


def test_certain_chances_are_labels() -> None:
    X, y = _clusters()
    given = np.where(np.arange(90) < 30, y, -1)
    chances = np.full((90, 3), np.nan)
    chances[:30] = np.eye(3)[y[:30]]
    hard, soft = _fast().fit(X, given), _fast().fit(X, chances)
    assert np.allclose(hard.predict_proba(X), soft.predict_proba(X))
    assert (hard.predict_set(X, 0.8) == soft.predict_set(X, 0.8)).all()
    assert np.array_equal(_fast().fit(X, chances.tolist()).predict_proba(X), soft.predict_proba(X))


def test_votes_of_several_annotators() -> None:
    X, y = _clusters()
    votes = np.full((90, 3), np.nan)
    votes[:45] = 0.7 * np.eye(3)[y[:45]] + 0.1
    frame = pd.DataFrame(votes, columns=["a", "b", "c"])
    model = _fast().fit(X, frame)
    assert model.classes_.tolist() == ["a", "b", "c"]
    assert (model.predict(X) == np.array(["a", "b", "c"])[y]).mean() > 0.9
    assert model.predict_set(X, 0.8)[np.arange(90), y].mean() > 0.7
    # Doubts of the annotators make the model less sure.
    certain = _fast(calibration=None).fit(X, np.where(np.isnan(votes), np.nan, votes.round()))
    assert (
        certain.predict_proba(X[45:]).max(axis=1).mean()
        > _fast(calibration=None).fit(X, votes).predict_proba(X[45:]).max(axis=1).mean()
    )


@pytest.mark.parametrize("row", [[0.5, 0.2, 0.2], [1.2, -0.2, 0.0], [0.5, 0.5, np.nan]])
def test_rows_that_are_no_chances_are_refused(row: list[float]) -> None:
    X, y = _clusters()
    chances = np.eye(3)[y]
    chances[7] = row
    with pytest.raises(InvalidInputError, match="row 7 of y must be chances"):
        _fast().fit(X, chances)


def test_wrong_labels_are_found_and_answered(tmp_path: Path) -> None:
    X, y = _clusters()
    given = np.where(np.arange(90) < 45, y, -1)
    wrong = np.array([0, 10, 20])
    given[wrong] = (y[wrong] + 1) % 3
    model = COINClassifier(base="residual", label_noise="auto").fit(X, given)
    assert model.doubted_[wrong].sum() >= 2 and model.doubted_.sum() <= 5
    found = np.flatnonzero(model.doubted_)
    assert (model.predict(X)[found] == y[found]).mean() > 0.6
    trusted = (given >= 0) & ~model.doubted_
    assert (model.predict(X)[trusted] == given[trusted]).all()
    again = load(model.save(tmp_path / "model"))
    assert (again.predict(X) == model.predict(X)).all() and (again.doubted_ == model.doubted_).all()
