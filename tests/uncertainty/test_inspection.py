from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_moons
from sklearn.exceptions import NotFittedError

from condiff import COINClassifier, COINRegressor, load
from condiff.uncertainty import Inspection


def moons() -> tuple[COINClassifier, Any]:
    X, y = make_moons(200, noise=0.08, random_state=0)
    labels = np.full(200, -1)
    labels[[np.flatnonzero(y == c)[0] for c in (0, 1)]] = [0, 1]
    return COINClassifier(layers=200, folds=0).fit(X, labels), X


@pytest.fixture(scope="module")
def model() -> COINClassifier:
    return moons()[0]


def test_changes_are_those_of_the_answers(model: COINClassifier) -> None:
    found = Inspection(model)
    node_of_row = model.record_.node_of_row
    base = model.classes_[model.record_.base.argmax(axis=1)][node_of_row]
    changed = np.flatnonzero(base != model.transduction_)
    assert len(changed) > 3
    assert sorted(change.row for change in found.changes(most=1000)) == changed.tolist()
    assert found.n_changed == len(changed)
    for change in found.changes():
        assert (change.before, change.after) == (base[change.row], model.transduction_[change.row])


def test_what_a_point_received_adds_up_to_its_answer(model: COINClassifier) -> None:
    dense = np.eye(200) - model.strength_ * (np.diag(model.graph_.degree) - model.graph_.weights.toarray())
    power = np.linalg.matrix_power(dense, model.layers_)
    found = Inspection(model)
    np.testing.assert_allclose(found.reach, power[:, model.record_.nodes].sum(axis=1), atol=1e-10)
    change = found.changes()[0]
    node = model.record_.node_of_row[change.row]
    assert change.own == pytest.approx(power[node, node], abs=1e-10)
    agreeing = model.record_.base.argmax(axis=1) == model.record_.output[node].argmax()
    assert change.received == pytest.approx(power[node, agreeing].sum(), abs=1e-10)
    assert 0 < sum(neighbour.share for neighbour in change.neighbours) <= 1 + 1e-12
    weights = model.graph_.weights.toarray()[node]
    weights[node] = 0
    assert model.record_.node_of_row[change.neighbours[0].row] == weights.argmax()


def test_largest_changes_first_and_no_more_than_asked(model: COINClassifier) -> None:
    sizes = [change.size for change in Inspection(model).changes(most=3)]
    assert len(sizes) == 3
    assert sizes == sorted(sizes, reverse=True)


def test_suggestions_are_uncertain_unlabelled_and_not_joined(model: COINClassifier) -> None:
    found = Inspection(model)
    wishes = found.suggestions(most=5, strategy="margin")
    assert len(wishes) == 5
    rows = [wish.row for wish in wishes]
    node_of_row = model.record_.node_of_row
    assert all(found.label[node_of_row[row]] is None for row in rows)
    near = model.graph_.weights[node_of_row[rows]][:, node_of_row[rows]].toarray() > 0
    assert not (near & ~np.eye(5, dtype=bool)).any()
    gaps = [wish.probability - wish.rival_probability for wish in wishes]
    assert gaps == sorted(gaps)
    assert all(wish.answer != wish.rival for wish in wishes)
    everything = np.sort(model.probabilities_of(model.record_.output), axis=1)
    assert gaps[0] == pytest.approx((everything[:, -1] - everything[:, -2]).min(), abs=1e-12)


def test_components_without_labels_come_first() -> None:
    generator = np.random.default_rng(0)
    X = np.concatenate([generator.normal(place, 1, (number, 2)) for place, number in ((0, 40), (90, 25), (-90, 30))])
    y = np.full(95, -1)
    y[[0, 1]] = 0, 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = COINClassifier(folds=0).fit(X, y)
    first, second, third = Inspection(fitted).suggestions(most=3)
    assert (first.unreached, second.unreached, third.unreached) == (30, 25, 0)
    assert first.row >= 65
    assert first.reach == second.reach == 0


def test_held_out_answers_give_the_score() -> None:
    X, y = load_iris(return_X_y=True)
    names = np.array(["a", "b", "c"], dtype=object)
    labels = np.where(np.arange(150) % 5 == 0, names[y], None)
    fitted = COINClassifier().fit(X, labels)
    held_out = Inspection(fitted).held_out()
    assert held_out is not None
    truth, probabilities = held_out
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    right = fitted.classes_[probabilities.argmax(axis=1)] == np.array(truth, dtype=object)
    assert right.mean() == pytest.approx(fitted.cv_score_)


def test_too_few_labels_to_hold_out(model: COINClassifier) -> None:
    assert Inspection(model).held_out() is None


def test_values() -> None:
    angle = np.linspace(0, 3, 120)
    X = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    y = np.full(120, np.nan)
    y[:60:4] = 10 * angle[:60:4]
    fitted = COINRegressor(layers=16).fit(X, y)
    found = Inspection(fitted)
    truth, answers = found.held_out() or ([], np.zeros((0, 1)))
    assert len(truth) == 15
    assert np.corrcoef(truth, answers[:, 0])[0, 1] > 0.8
    change = found.changes(most=1)[0]
    assert change.received is None
    assert change.size == pytest.approx(abs(change.after - change.before))
    wishes = found.suggestions(most=3)
    assert wishes[0].probability is None
    # No label is beyond the middle, so that the far end is reached least.
    assert all(wish.row > 60 for wish in wishes)


def test_equal_rows_are_one_point_and_a_loaded_model_says_the_same(tmp_path: Path) -> None:
    fitted, X = moons()
    doubled = np.concatenate([X, X])
    labels = np.full(400, -1)
    labels[200:230] = fitted.transduction_[:30]
    again = COINClassifier(layers=20, folds=0).fit(doubled, labels)
    found = Inspection(again)
    assert len(found.row) == 200
    assert found.row.max() < 200
    again.save(tmp_path / "model")
    loaded = Inspection(load(tmp_path / "model"))
    assert loaded.changes() == found.changes()
    assert loaded.suggestions() == found.suggestions()


def test_a_model_that_is_not_fitted() -> None:
    with pytest.raises(NotFittedError):
        Inspection(COINClassifier())
