"""Bases of the labels alone, diffused as far as a rehearsal supports."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_digits, load_wine, make_moons
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import r2_score

from condiff import COINClassifier, COINRegressor, load
from condiff.errors import InvalidInputError
from condiff.estimators.choice import Candidate
from condiff.estimators.rehearsal import Contest, is_embedding, redundancy


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
    monkeypatch.setattr("condiff.estimators.blended.rehearse", lambda *_: [Candidate("leaves", 4)])
    X, y = load_wine(return_X_y=True)
    model = COINClassifier(base="blend").fit(X, few(y, 5))
    assert model._domain.links
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    for rows in (X, X[:40] * 1.01):
        np.testing.assert_array_equal(again.predict_proba(rows), model.predict_proba(rows))


@pytest.mark.parametrize("layers", [0, 8])
def test_known_sizes_are_kept(layers: int) -> None:
    X, y = make_moons(300, noise=0.3, random_state=0)
    settings: dict[str, Any] = {"base": "blend", "layers": layers, "calibration": None, "label_noise": True}
    model = COINClassifier(**settings, class_prior={0: 200, 1: 100}).fit(X, few(y, 5))
    np.testing.assert_allclose(model.predict_proba(X).mean(axis=0), [2 / 3, 1 / 3], atol=0.02)


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        ({0: 1}, "lacks the class 1"),
        ({0: 1, 1: 1, 2: 1}, "names 2"),
        ({0: 1, 1: -1}, "positive and finite"),
        ({0: 1, 1: "half"}, "not half for 1"),
    ],
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


def test_auto_takes_the_network_for_pixels_and_the_blend_for_a_table() -> None:
    X, y = load_digits(n_class=6, return_X_y=True)
    labels = few(y, 2)
    pixels = COINClassifier(folds=0).fit(X, labels)
    assert pixels.base_ is None
    assert "from other labels it finds" in str(pixels.choice_)
    network = COINClassifier(base="residual", folds=0).fit(X, labels)
    np.testing.assert_array_equal(pixels.predict_proba(X), network.predict_proba(X))
    X, y = load_wine(return_X_y=True)
    table = COINClassifier().fit(X, few(y, 5))
    assert table.base_ is not None
    assert table.choice_.candidates[0] == Candidate()
    assert table.choice_.chosen in table.choice_.candidates
    assert table.choice_.chosen.worth == max(each.worth for each in table.choice_.candidates)


def test_auto_takes_the_network_for_given_graphs_and_sparse_columns() -> None:
    X, y = load_wine(return_X_y=True)
    labels = few(y, 5)
    assert str(COINClassifier(epochs=5).fit(sp.csr_array(X), labels).choice_).startswith(
        "residual network (the columns are sparse)"
    )
    given = COINClassifier(epochs=5).fit(X, labels, adjacency=sp.csr_array(np.eye(len(X), k=1) + np.eye(len(X), k=-1)))
    assert "the graph was given" in str(given.choice_)
    assert "over the given graph" in str(given.choice_)


def test_the_choice_is_one_line_and_saved(tmp_path: Path) -> None:
    X, y = load_wine(return_X_y=True)
    model = COINClassifier().fit(X, few(y, 5))
    model.save(tmp_path / "model")
    again = load(tmp_path / "model").choice_
    assert again == model.choice_
    assert str(again).startswith("trees, linear models and a Gaussian process, ")
    assert "\n" not in str(again)


def test_columns_that_repeat_each_other_are_redundant_and_independent_ones_are_not() -> None:
    generator = np.random.default_rng(0)
    place = generator.normal(size=(500, 2))
    repeated = place @ generator.normal(size=(2, 20)) + 0.1 * generator.normal(size=(500, 20))
    assert redundancy(repeated, np.random.default_rng(0)) > 0.9
    assert redundancy(generator.normal(size=(500, 20)), np.random.default_rng(0)) < 0.2
    assert redundancy(place[:, :1], np.random.default_rng(0)) == 0.0


def test_a_given_label_is_the_answer_unless_labels_are_noisy() -> None:
    X, y = make_moons(200, noise=0.1, random_state=0)
    labels = few(y, 8)
    wrong = np.flatnonzero(labels == 0)[0]
    labels[wrong] = 1
    kept, doubted = (COINClassifier(label_noise=noisy).fit(X, labels) for noisy in (False, True))
    assert kept.transduction_[wrong] == 1
    np.testing.assert_allclose(kept.predict_proba(X[[wrong]]), [[0.0, 1.0]], atol=1e-9)
    assert doubted.predict_proba(X[[wrong]])[0, 1] < 0.9
    np.testing.assert_array_equal(kept.record_.output, doubted.record_.output)


def test_many_points_are_rehearsed_on_some_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = make_moons(600, noise=0.15, random_state=0)
    labels = few(y, 10)
    monkeypatch.setattr("condiff.estimators.base.STAGE", 200)
    model = COINClassifier(base="blend").fit(X, labels)
    assert len(model.choice_.candidates) > 1
    assert accuracy(model, y, labels) > 0.9
    assert model.record_.answers.shape == (20, 2)


def test_long_tails_are_learned_as_logarithms() -> None:
    generator = np.random.default_rng(0)
    X = generator.normal(size=(400, 3))
    y = np.exp(1.5 * X[:, 0] + 0.1 * generator.normal(size=400))
    labels = np.full(400, np.nan)
    labels[:40] = y[:40]
    model = COINRegressor().fit(X, labels)
    assert (model.transduction_ > 0).all()
    assert r2_score(np.log(y), np.log(model.transduction_)) > 0.9
    # Nothing is promised far past what was seen.
    assert model.predict([[50.0, 0.0, 0.0]])[0] < y[:40].max() * (y[:40].max() / y[:40].min())


MIXES: list[Any] = ["knn", "leaves", "answers", {"knn": 1, "leaves": 2, "answers": 1}]


@pytest.mark.parametrize("graph", MIXES, ids=str)
@pytest.mark.parametrize("base", ["blend", LogisticRegression()], ids=str)
def test_any_base_is_diffused_over_any_graph(graph: Any, base: Any, tmp_path: Path) -> None:
    X, y = load_wine(return_X_y=True)
    labels = few(y, 5)
    model = COINClassifier(base=base, graph=graph, layers=6, folds=0).fit(X, labels)
    assert accuracy(model, y, labels) > 0.85
    np.testing.assert_allclose(model.graph_.weights.toarray(), model.graph_.weights.toarray().T, atol=1e-12)
    assert model.strength_ <= model.certificate_.positivity_limit
    moved = X + 1e-7 * X.std(axis=0)
    assert (model.predict(moved) == model.predict(X))[labels < 0].mean() > 0.9
    if base == "blend":
        model.save(tmp_path / "model")
        np.testing.assert_array_equal(load(tmp_path / "model").predict_proba(moved), model.predict_proba(moved))


def test_a_mix_is_the_weighted_sum_of_its_graphs() -> None:
    X, y = load_wine(return_X_y=True)
    labels = few(y, 5)
    near, leaves, mixed = (
        COINClassifier(base="blend", graph=graph, layers=4, folds=0).fit(X, labels).graph_.weights.toarray()
        for graph in ("knn", "leaves", {"knn": 1, "leaves": 3})
    )
    np.testing.assert_allclose(mixed, 0.25 * near + 0.75 * leaves, atol=1e-12)


@pytest.mark.parametrize("base", ["residual", "blend"])
def test_neighbours_beside_a_given_graph_repair_it(base: str, tmp_path: Path) -> None:
    X, y = load_wine(return_X_y=True)
    labels = few(y, 3)
    generator = np.random.default_rng(0)
    noise = sp.csr_array(np.triu(generator.random((len(X), len(X))) < 0.05, 1).astype(float))
    noise = noise + noise.T
    settings: dict[str, Any] = {"base": base, "layers": 10, "folds": 0}
    given = COINClassifier(**settings).fit(X, labels, adjacency=noise)
    both = COINClassifier(**settings, graph={"precomputed": 1, "knn": 9}).fit(X, labels, adjacency=noise)
    assert accuracy(both, y, labels) > accuracy(given, y, labels)
    both.save(tmp_path / "model")
    again, edges = load(tmp_path / "model"), noise[:20]
    expected = both.predict_proba(X[:20] * 1.001, adjacency=edges)
    np.testing.assert_array_equal(again.predict_proba(X[:20] * 1.001, adjacency=edges), expected)


@pytest.mark.parametrize(
    ("graph", "given", "message"),
    [
        ({"knn": 1, "trees": 1}, False, "knn, leaves, answers, precomputed"),
        ({}, False, "must give weights"),
        ({"knn": 0, "leaves": 1}, False, "positive and finite"),
        ({"knn": "much"}, False, "positive and finite"),
        ({"precomputed": 1}, False, "no adjacency was passed"),
        ({"knn": 1}, True, "does not name"),
        ("leaves", True, "mix them"),
    ],
)
def test_mixes_that_make_no_sense_are_refused(graph: Any, given: bool, message: str) -> None:
    X, y = make_moons(40, random_state=0)
    adjacency = sp.csr_array(np.ones((40, 40))) if given else None
    with pytest.raises(InvalidInputError, match=message):
        COINClassifier(graph=graph).fit(X, y, adjacency=adjacency)


def test_a_network_is_not_trained_through_a_graph_that_knows_its_labels() -> None:
    X, y = make_moons(40, random_state=0)
    with pytest.raises(InvalidInputError, match="base='blend'"):
        COINClassifier(base="residual", graph="leaves").fit(X, y)


def test_values_are_not_diffused_where_held_out_labels_speak_against_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "condiff.estimators.blended.rehearse", lambda *_: [Candidate(), Candidate("near", 48, 5.0, 1.0)]
    )
    generator = np.random.default_rng(0)
    X = generator.normal(size=(300, 6))
    y = np.full(300, np.nan)
    y[:40] = 3 * X[:40, 0]
    model = COINRegressor().fit(X, y)
    assert model.layers_ == 0
    assert "held-out labels gain nothing from 48 layers over nearest neighbours" in str(model.choice_)


def test_unit_vectors_are_an_embedding_and_rows_of_categories_are_none() -> None:
    generator = np.random.default_rng(0)
    vectors = generator.normal(size=(300, 40))
    assert is_embedding(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))
    assert not is_embedding(vectors)
    categories = np.concatenate([np.eye(4)[generator.integers(0, 4, 300)] for _ in range(10)], axis=1)
    assert np.ptp(np.linalg.norm(categories, axis=1)) < 1e-12
    assert not is_embedding(categories)


def test_among_many_points_a_base_that_knows_less_what_it_says_than_the_network_must_be_ahead() -> None:
    behind = Contest(0.9, 0.4, other_own=0.6, lead=0.6, lead_away=-0.2)
    assert not behind.won
    assert replace(behind, of_many=True).won
    assert not replace(behind, of_many=True, other_own=0.9).won  # it finds its own answers as well as the network does
    assert replace(behind, of_many=True, lead=0.21).won
    assert not replace(behind, of_many=True, lead=0.2).won
