"""The engines of the estimators: the same answers, and a word on which one it was."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import make_moons

from condiff import COINClassifier, COINRegressor

X, Y = make_moons(120, noise=0.08, random_state=0)
SETTINGS: dict[str, Any] = {"epochs": 25, "n_inits": 2, "folds": 3}


def _labels(per_class: int) -> Any:
    labels = np.full(len(Y), -1)
    for value in (0, 1):
        labels[np.flatnonzero(value == Y)[:per_class]] = value
    return labels


@pytest.mark.parametrize("per_class", [2, 8])
def test_the_reference_gives_the_same_probabilities(per_class: int) -> None:
    # Both sides of one point twice, with different labels: items that share a node.
    points, labels = np.concatenate([X, X[:2]]), np.append(_labels(per_class), [1 - Y[0], Y[1]])
    fast = COINClassifier(**SETTINGS).fit(points, labels)
    plain = COINClassifier(engine="reference", **SETTINGS).fit(points, labels)
    assert (fast.layers_, fast.strength_) == (plain.layers_, plain.strength_)
    np.testing.assert_allclose(fast.predict_proba(points), plain.predict_proba(points), atol=1e-4)


def test_the_reference_gives_the_same_values() -> None:
    values = np.where(np.arange(len(X)) % 8 == 0, X[:, 0], np.nan)
    fast = COINRegressor(**SETTINGS).fit(X, values)
    plain = COINRegressor(engine="reference", **SETTINGS).fit(X, values)
    np.testing.assert_allclose(fast.predict(X), plain.predict(X), atol=1e-4)


@pytest.mark.parametrize(
    "engine, said", [("auto", "engine projected: the diffusion is fixed"), ("reference", "as asked")]
)
def test_verbose_says_which_engine_and_why(engine: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    COINClassifier(engine=engine, verbose=True, **SETTINGS).fit(X, _labels(2))
    assert said in capsys.readouterr().out


def test_other_engines_are_refused() -> None:
    with pytest.raises(ValueError, match="engine"):
        COINClassifier(engine="gpu").fit(X, _labels(2))
