"""Answers that are left out: too uncertain, or out of the labels' scope."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from condiff import COINClassifier
from condiff.errors import InvalidInputError
from condiff.uncertainty.scope import nearness, reach

pytestmark = pytest.mark.filterwarnings("ignore::condiff.errors.UnlabelledComponentWarning")


def _clusters() -> tuple[Any, Any, Any]:
    """Three clusters, two of them labelled."""
    generator = np.random.default_rng(0)
    of = np.repeat([0, 1, 2], 40)
    X = generator.normal(size=(120, 2)) + 6 * np.array([[0, 0], [1, 0], [0, 1]])[of]
    given = np.full(120, -1)
    given[[*range(12), *range(40, 52)]] = of[[*range(12), *range(40, 52)]]
    return X, of, given


def _fast() -> COINClassifier:
    return COINClassifier(base=LogisticRegression(), layers=2)


def test_a_walk_of_two_steps_on_a_line() -> None:
    shares = np.array([[0, 1, 0, 0], [0.5, 0, 0.5, 0], [0, 0.5, 0, 0.5], [0, 0, 1, 0]])
    labelled = np.array([[True], [False], [False], [False]])
    found = reach(shares, labelled)[:, 0]
    # Eight steps: the chance of not having met the left end yet, by the transitions among the other three.
    rest = np.linalg.matrix_power(shares[1:, 1:], 8).sum(axis=1)
    assert np.allclose(found, [1, *(1 - rest)])


def test_rows_twice_as_far_as_usual_are_less_near() -> None:
    assert nearness(np.array([0.5, 2.0, 4.0]), np.ones(3)).tolist() == [1.0, 1.0, 0.5]


def test_a_class_without_labels_is_out_of_scope() -> None:
    X, of, given = _clusters()
    model = _fast().fit(X, given)
    score = model.out_of_scope(X)
    assert ((score >= 0) & (score <= 1)).all()
    open_rows = given < 0
    assert score[open_rows & (of == 2)].min() > np.quantile(score[open_rows & (of != 2)], 0.9)
    assert np.allclose(score[given >= 0], 0, atol=0.5)
    answers = model.predict(X, none_of_these=0.05)
    assert (answers[of == 2] == -1).mean() > 0.9
    assert (answers[open_rows & (of != 2)] == -1).mean() < 0.2


def test_new_rows_far_from_everything_are_out_of_scope() -> None:
    X, of, given = _clusters()
    model = _fast().fit(X[of < 2], given[of < 2])
    near, far = X[of == 0] + 0.01, X[of == 0] - 60
    assert model.out_of_scope(near).max() < model.out_of_scope(far).min()
    assert (model.predict(far, none_of_these=0.05) == -1).all()
    assert (model.predict(near, none_of_these=0.05) == 0).mean() > 0.8


def test_uncertain_answers_are_left_out() -> None:
    X, _, given = _clusters()
    model = _fast().fit(X, given)
    sure = model.predict_proba(X).max(axis=1)
    answers = model.predict(X, abstain=0.02)
    assert (answers == -1).tolist() == (1 - sure > 0.02).tolist()
    assert (model.predict(X, abstain=1.0) == model.predict(X)).all()
    with pytest.raises(InvalidInputError, match="abstain must be a number between 0 and 1, not 20"):
        model.predict(X, abstain=20)


@pytest.mark.parametrize(
    ("names", "marker"), [(["no", "yes"], None), ([1.0, 2.0], np.nan), ([-1, 4], None), ([False, True], None)]
)
def test_what_marks_an_answer_that_was_left_out(names: list[Any], marker: Any) -> None:
    X, _, given = _clusters()
    labels = np.full(120, None, dtype=object)
    for code, name in enumerate(names):
        labels[given == code] = name
    found = _fast().fit(X, labels).predict(X, none_of_these=0.3)
    left_out = [value for value in found.tolist() if not (value is not None and value in names)]
    assert left_out and all(value is marker or value != value for value in left_out)
