from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import torch
from sklearn.base import clone
from sklearn.datasets import load_digits, make_blobs
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import LabelSpreading

from condiff import COINClassifier
from condiff.diffusion import SOLVERS
from condiff.errors import InvalidInputError, StepSizeError, StepSizeWarning, UnlabelledComponentWarning

#: A fit of a twentieth of a second, where the fit's quality is not the question.
FAST: dict[str, Any] = {"epochs": 15, "n_inits": 1, "folds": 0}


def blobs(n: int = 90, per_class: int = 4, centers: int = 3, seed: int = 0, spread: float = 1.0):
    """Clusters, all true classes, and the same with all but a few hidden as -1."""
    X, y = make_blobs(n, centers=centers, n_features=4, cluster_std=spread, random_state=seed)
    return X, y, hide(y, per_class)


def hide(y: np.ndarray, per_class: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    labels = np.full(len(y), -1)
    for label in np.unique(y):
        labels[rng.choice(np.flatnonzero(y == label), per_class, replace=False)] = label
    return labels


def objects(labels: np.ndarray, names: list[Any], missing: Any) -> np.ndarray:
    found = np.empty(len(labels), dtype=object)
    found[:] = [missing if label < 0 else names[label] for label in labels]
    return found


def two_rings(n: int = 20) -> tuple[np.ndarray, np.ndarray]:
    """Two rings, joined by one weak edge, and the ring of every node."""
    ring = np.roll(np.eye(n), 1, axis=1) + np.roll(np.eye(n), -1, axis=1)
    adjacency = np.kron(np.eye(2), ring)
    adjacency[0, n] = adjacency[n, 0] = 0.1
    return adjacency, np.repeat([0, 1], n)


# ---- labels --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "missing"),
    [
        (["a", "b", "c"], None),
        (["a", "b", "c"], float("nan")),
        (["a", "b", "c"], ""),
        (["a", "b", "c"], pd.NA),
        ([10, 20, 30], None),
        ([10, 20, 30], -1),
        ([1.0, 2.0, 3.0], float("nan")),
    ],
)
def test_however_a_label_is_left_out_the_fit_is_the_same(names: list[Any], missing: Any) -> None:
    X, y, labels = blobs()
    reference = COINClassifier(**FAST).fit(X, labels)
    model = COINClassifier(**FAST).fit(X, objects(labels, names, missing))
    assert model.classes_.tolist() == names
    assert model.transduction_.tolist() == [names[code] for code in reference.transduction_]
    np.testing.assert_array_equal(model.predict_proba(X), reference.predict_proba(X))
    assert (reference.transduction_ == y).mean() > 0.95


@pytest.mark.parametrize("dtype", ["category", "string", "object"])
def test_pandas_labels_and_frames_work(dtype: str) -> None:
    X, y, labels = blobs()
    frame = pd.DataFrame(X, columns=list("wxyz"))
    target = pd.Series([None if label < 0 else "abc"[label] for label in labels], dtype=dtype)
    model = COINClassifier(**FAST).fit(frame, target)
    assert model.feature_names_in_.tolist() == list("wxyz")
    assert (model.predict(frame) == np.array(list("abc"))[y]).mean() > 0.95


def test_float_labels_are_left_out_with_nan() -> None:
    X, y, labels = blobs()
    model = COINClassifier(**FAST).fit(X, np.where(labels < 0, np.nan, labels))
    assert (model.transduction_ == y).mean() > 0.95


def test_minus_one_and_one_are_two_classes() -> None:
    X, y, _ = blobs(centers=2)
    model = COINClassifier(**FAST).fit(X, np.where(y == 0, -1, 1))
    assert model.classes_.tolist() == [-1, 1]
    assert (model.transduction_ == np.where(y == 0, -1, 1)).mean() > 0.95


@pytest.mark.parametrize("with_missing", [False, True])
def test_truth_values_are_classes(with_missing: bool) -> None:
    X, y, labels = blobs(centers=2)
    target = objects(labels, [False, True], None) if with_missing else y.astype(bool)
    model = COINClassifier(**FAST).fit(X, target)
    assert model.transduction_.dtype == bool
    assert (model.transduction_ == y.astype(bool)).mean() > 0.95


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (np.where(np.arange(90) < 5, 0, -1), "only one class, '0'.*-1 marks points without a label"),
        (np.full(90, -1.5), "only one class|Unknown label type"),
        (np.full(90, np.nan), "every target is missing"),
        (np.array([1, "a", None] * 30, dtype=object), "mix numbers and text"),
        (None, "requires y"),
    ],
)
def test_targets_that_cannot_be_learnt_are_one_clear_error(target: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        COINClassifier(**FAST).fit(blobs()[0], target)


def test_a_class_that_is_there_but_once_is_learnt_too() -> None:
    X, y, _ = blobs()
    model = COINClassifier().fit(X, hide(y, 1))
    assert (model.transduction_ == y).mean() > 0.95


# ---- answers for the training points -------------------------------------------------------------------------------


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array, pd.DataFrame], ids=["dense", "sparse", "frame"])
def test_training_rows_get_their_fitted_answer_in_any_order_and_subset(form: Any) -> None:
    X, _, labels = blobs(spread=4.0)
    X, labels = np.vstack([np.abs(X), np.abs(X[:7])]), np.append(labels, np.full(7, -1))
    columns = {"columns": list("wxyz")} if form is pd.DataFrame else {}
    model = COINClassifier(**FAST).fit(form(X, **columns), labels)
    np.testing.assert_array_equal(model.predict(form(X, **columns)), model.transduction_)
    probabilities = model.predict_proba(form(X, **columns))
    assert len(np.unique(probabilities.round(12), axis=0)) > 20  # the rows are told apart
    for rows in (np.random.default_rng(0).permutation(len(X)), np.arange(0, 97, 7), [3, 3, 3], [96]):
        np.testing.assert_array_equal(model.predict(form(X[rows], **columns)), model.transduction_[rows])
        np.testing.assert_array_equal(model.predict_proba(form(X[rows], **columns)), probabilities[rows])


def test_training_rows_among_new_ones_keep_their_answer() -> None:
    X, _, labels = blobs(spread=4.0)
    model = COINClassifier(**FAST).fit(X, labels)
    mixed = np.vstack([X[5] + 0.3, X[5], X[0] - 0.3, X[0]])
    np.testing.assert_array_equal(model.predict_proba(mixed)[[1, 3]], model.predict_proba(X[[5, 0]]))


def test_equal_rows_get_equal_answers_whatever_their_labels() -> None:
    X, _, labels = blobs()
    X[1] = X[0]
    labels[:2] = 0, 1  # they contradict each other
    model = COINClassifier(**FAST).fit(X, labels)
    assert model.transduction_[0] == model.transduction_[1]
    assert model.graph_.n_nodes == 89


def test_the_order_of_the_rows_does_not_matter() -> None:
    X, _, labels = blobs(spread=3.0)
    order = np.random.default_rng(1).permutation(len(X))
    one, two = COINClassifier().fit(X, labels), COINClassifier().fit(X[order], labels[order])
    np.testing.assert_allclose(one.predict_proba(X), two.predict_proba(X), atol=1e-4)


def test_probabilities_are_probabilities_and_predict_takes_the_largest() -> None:
    X, _, labels = blobs(spread=4.0)
    model = COINClassifier(**FAST).fit(X, objects(labels, ["x", "y", "z"], None))
    for rows in (X, X + 0.05):
        p = model.predict_proba(rows)
        np.testing.assert_allclose(p.sum(axis=1), 1)
        assert p.min() >= 0
        np.testing.assert_array_equal(model.classes_[p.argmax(axis=1)], model.predict(rows))


# ---- answers for new points ----------------------------------------------------------------------------------------


def test_new_points_are_answered_as_a_fit_with_them_would() -> None:
    X, y, _ = blobs(200)
    known, new = np.arange(160), np.arange(160, 200)
    labels = np.concatenate([hide(y[known], 4), np.full(40, -1)])
    inductive = COINClassifier(folds=0).fit(X[known], labels[known])
    transductive = COINClassifier(folds=0).fit(X, labels)
    assert (inductive.predict(X[new]) == y[new]).mean() > 0.95
    assert (inductive.predict(X[new]) == transductive.transduction_[new]).mean() > 0.95
    np.testing.assert_allclose(inductive.predict_proba(X[new]), transductive.predict_proba(X[new]), atol=0.15)


def test_a_point_close_to_a_training_point_is_answered_alike() -> None:
    X, _, labels = blobs(spread=2.0)
    model = COINClassifier(folds=0).fit(X, labels)
    near = model.predict_proba(X + 1e-6)
    assert np.abs(near - model.predict_proba(X)).mean() < 0.1


def test_new_points_do_not_see_each_other() -> None:
    X, _, labels = blobs(spread=3.0)
    model = COINClassifier(**FAST).fit(X, labels)
    new = X[:10] + 0.2
    together = model.predict_proba(new)
    alone = np.vstack([model.predict_proba(row[None]) for row in new])
    np.testing.assert_allclose(together, alone, atol=1e-12)


def test_diffusion_reaches_new_points() -> None:
    X, _, labels = blobs(spread=3.0)
    with_diffusion = COINClassifier(**FAST, layers=30).fit(X, labels)
    new = X[:10] + 0.2
    base = with_diffusion._base_output(new)
    assert np.abs(with_diffusion.predict_proba(new) - base).max() > 0.05


def test_sparse_and_dense_rows_are_answered_alike() -> None:
    X, _, labels = blobs()
    X = np.where(np.abs(X) < 1.5, 0.0, X)
    settings: dict[str, Any] = {"metric": "euclidean", "scaling": "none", "folds": 0}
    dense = COINClassifier(**settings).fit(X, labels)
    sparse = COINClassifier(**settings).fit(sp.csr_array(X), labels)
    np.testing.assert_allclose(sparse.predict_proba(sp.csr_array(X)), dense.predict_proba(X), atol=1e-3)
    new = X[:20] + 0.1
    np.testing.assert_allclose(sparse.predict_proba(sp.csr_array(new)), dense.predict_proba(new), atol=1e-3)
    # Either form is understood afterwards, in both models.
    np.testing.assert_array_equal(dense.predict_proba(sp.csc_array(X)), dense.predict_proba(X))
    np.testing.assert_array_equal(sparse.predict_proba(X), sparse.predict_proba(sp.csr_array(X)))


# ---- weights -------------------------------------------------------------------------------------------------------


def test_a_sample_weight_of_zero_is_an_absent_row() -> None:
    X, _, labels = blobs(spread=3.0)
    weights = np.ones(len(X))
    weights[::9] = 0
    weighted = COINClassifier(**FAST).fit(X, labels, sample_weight=weights)
    without = COINClassifier(**FAST).fit(X[weights > 0], labels[weights > 0])
    np.testing.assert_array_equal(weighted.predict_proba(X), without.predict_proba(X))
    np.testing.assert_array_equal(weighted.transduction_, without.predict(X))


def test_a_sample_weight_of_two_is_a_row_given_twice() -> None:
    X, _, labels = blobs(spread=3.0)
    weights = np.ones(len(X))
    doubled = np.flatnonzero(labels == 1)
    weights[doubled] = 2
    weighted = COINClassifier(**FAST).fit(X, labels, sample_weight=weights)
    repeated = COINClassifier(**FAST).fit(np.vstack([X, X[doubled]]), np.append(labels, labels[doubled]))
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-6)
    plain = COINClassifier(**FAST).fit(X, labels)
    assert np.abs(plain.predict_proba(X) - weighted.predict_proba(X)).max() > 1e-3


@pytest.mark.parametrize(("weight", "message"), [(0.0, "zero"), (-1.0, "[Nn]egative"), (np.nan, "NaN")])
def test_sample_weights_that_make_no_sense_are_refused(weight: float, message: str) -> None:
    X, _, labels = blobs()
    weights = np.full(len(X), weight)
    with pytest.raises(ValueError, match=message):
        COINClassifier(**FAST).fit(X, labels, sample_weight=weights)


def test_class_weights_pull_towards_their_class() -> None:
    X, _, labels = blobs(spread=6.0)
    plain = COINClassifier(**FAST).fit(X, labels).predict_proba(X)
    heavy = COINClassifier(**FAST, class_weight={0: 20.0}).fit(X, labels).predict_proba(X)
    assert heavy[:, 0].mean() > plain[:, 0].mean() + 0.02


def test_balanced_class_weights_are_the_inverse_frequencies() -> None:
    X, y, _ = blobs(spread=3.0)
    labels = np.where(y == 0, 0, hide(y, 2))
    counts = np.bincount(labels[labels >= 0])
    by_hand = {code: counts.sum() / (3 * count) for code, count in enumerate(counts)}
    balanced = COINClassifier(**FAST, class_weight="balanced").fit(X, labels).predict_proba(X)
    np.testing.assert_allclose(
        balanced, COINClassifier(**FAST, class_weight=by_hand).fit(X, labels).predict_proba(X), atol=1e-5
    )
    plain = COINClassifier(**FAST).fit(X, labels).predict_proba(X)
    assert balanced[:, 0].mean() < plain[:, 0].mean() - 1e-3


def test_class_balance_keeps_the_mean_output_near_the_label_proportions() -> None:
    X, _, labels = blobs(spread=8.0, per_class=2)
    strays = {}
    for balance in (None, 0, 10.0):
        model = COINClassifier(folds=0, class_balance=balance, calibration=None).fit(X, labels)
        strays[balance] = np.abs(model.predict_proba(X).mean(axis=0) - 1 / 3).max()
    assert strays[None] == strays[0]
    assert strays[10.0] < 0.5 * strays[None]


# ---- graphs --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "form", [np.asarray, sp.csr_array, sp.csr_matrix, nx.from_numpy_array], ids=["dense", "csr", "matrix", "networkx"]
)
def test_a_given_adjacency_carries_the_labels(form: Any) -> None:
    adjacency, ring = two_rings()
    X = np.random.default_rng(0).normal(size=(40, 3))  # says nothing
    model = COINClassifier(graph="precomputed", **FAST, layers=200).fit(X, hide(ring, 2), adjacency=form(adjacency))
    assert (model.transduction_ == ring).mean() > 0.9
    np.testing.assert_array_equal(model.predict(X), model.transduction_)
    np.testing.assert_array_equal(model.predict(X[::-1]), model.transduction_[::-1])


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_x_itself_may_be_the_adjacency(form: Any) -> None:
    adjacency, ring = two_rings()
    model = COINClassifier(graph="precomputed", **FAST, layers=200).fit(form(adjacency), hide(ring, 2))
    assert (model.transduction_ == ring).mean() > 0.9
    np.testing.assert_array_equal(model.predict(form(adjacency)), model.transduction_)


def test_new_nodes_are_answered_through_the_edges_that_come_with_them() -> None:
    adjacency, ring = two_rings()
    X = np.random.default_rng(0).normal(size=(40, 3))
    model = COINClassifier(graph="precomputed", **FAST, layers=200).fit(X, hide(ring, 2), adjacency=adjacency)
    new = np.random.default_rng(1).normal(size=(2, 3))
    cross = np.zeros((2, 40))
    cross[0, [4, 5, 6]] = cross[1, [25, 26, 27]] = 1.0
    for edges in (cross, sp.csr_array(cross)):
        assert model.predict(new, adjacency=edges).tolist() == [ring[5], ring[26]]
    swapped = model.predict_proba(new, adjacency=cross[::-1])
    assert swapped.argmax(axis=1).tolist() == [ring[26], ring[5]]


def test_new_rows_of_an_adjacency_in_the_place_of_x_may_be_given_as_edges_too() -> None:
    adjacency, ring = two_rings()
    model = COINClassifier(graph="precomputed", **FAST, layers=200).fit(adjacency, hide(ring, 2))
    cross = np.zeros((1, 40))
    cross[0, [25, 26, 27]] = 1.0
    assert model.predict(cross, adjacency=cross).tolist() == [1]


def test_new_nodes_without_edges_are_answered_by_the_base_network_with_a_warning() -> None:
    adjacency, ring = two_rings()
    X = np.random.default_rng(0).normal(size=(40, 3))
    model = COINClassifier(graph="precomputed", **FAST).fit(X, hide(ring, 2), adjacency=adjacency)
    new = np.random.default_rng(1).normal(size=(5, 3))
    with pytest.warns(UserWarning, match="5 points are new and came without adjacency"):
        found = model.predict_proba(new)
    np.testing.assert_allclose(found, model._base_output(new), atol=1e-9)


@pytest.mark.parametrize(
    ("settings", "X", "adjacency", "message"),
    [
        ({}, np.eye(4), np.ones((4, 4)), "set graph='precomputed'"),
        ({"graph": "precomputed"}, np.ones((4, 3)), None, "needs fit.X, y, adjacency=...., .*X is 4 x 3"),
        ({"graph": "precomputed"}, np.eye(4), np.ones((3, 3)), "3 nodes, but there are 4 points"),
        ({"graph": "precomputed"}, np.eye(4), np.triu(np.ones((4, 4))), "symmetric"),
    ],
)
def test_graphs_that_do_not_fit_are_one_clear_error(
    settings: dict[str, Any], X: np.ndarray, adjacency: Any, message: str
) -> None:
    with pytest.raises(InvalidInputError, match=message):
        COINClassifier(**settings).fit(X, [0, 1, 0, 1], adjacency=adjacency)


def test_a_function_may_build_the_graph() -> None:
    X, y, labels = blobs()

    def same_side(rows: np.ndarray) -> np.ndarray:
        distances = np.linalg.norm(rows[:, None] - rows, axis=2)
        return ((distances < 3.0) & (distances > 0)).astype(float)

    model = COINClassifier(graph=same_side, folds=0).fit(X, labels)
    assert (model.transduction_ == y).mean() > 0.95
    np.testing.assert_array_equal(model.predict(X[::-1]), model.transduction_[::-1])


def test_points_that_no_label_reaches_are_flagged_and_answered_by_the_base_network() -> None:
    X, y, _ = blobs(centers=3, spread=0.3)
    labels = np.where(y == 2, -1, hide(y, 4))
    # The unlabelled cluster lies where class 1 does, but too far for an edge.
    X[y == 2] = X[y == 1][: (y == 2).sum()] + 40 * (X[y == 1].mean(axis=0) - X[y == 0].mean(axis=0))
    model = COINClassifier(folds=0)
    with pytest.warns(UnlabelledComponentWarning, match=r"30 points lie in 1 component"):
        model.fit(X, labels)
    np.testing.assert_array_equal(model.unlabelled_component_, y == 2)
    answers = model.predict_proba(X)
    np.testing.assert_allclose(answers[y == 2], model._base_output(X[y == 2]), atol=1e-9)
    assert (model.transduction_[y == 2] == 1).all()  # not simply class 0
    near = X[y == 2] + 0.01
    np.testing.assert_allclose(model.predict_proba(near), model._base_output(near), atol=1e-9)
    # Diffusion does change the answers of the others.
    assert np.abs(answers[y != 2] - model._base_output(X[y != 2])).max() > 1e-6


def test_where_labels_reach_everything_nothing_is_flagged() -> None:
    X, _, labels = blobs()
    assert not COINClassifier(**FAST).fit(X, labels).unlabelled_component_.any()


# ---- the diffusion -------------------------------------------------------------------------------------------------


def test_given_layers_and_strength_are_used_as_they_are() -> None:
    X, _, labels = blobs()
    model = COINClassifier(**FAST, layers=7, strength=0.25).fit(X, labels)
    assert (model.layers_, model.strength_, model.diffusion_time_) == (7, 0.25, 1.75)


def test_automatic_diffusion_is_certified_and_takes_the_same_time_at_any_strength() -> None:
    X, _, labels = blobs()
    auto = COINClassifier(**FAST, strict=True).fit(X, labels)
    assert auto.certificate_.problem(auto.strength_) is None
    assert auto.diffusion_time_ == pytest.approx(auto.layers_ * auto.strength_)
    given = COINClassifier(**FAST, strength=auto.strength_ / 3).fit(X, labels)
    assert given.strength_ == auto.strength_ / 3
    assert given.diffusion_time_ == pytest.approx(auto.diffusion_time_, abs=given.strength_)
    layers = COINClassifier(**FAST, layers=4).fit(X, labels)
    assert layers.layers_ == 4
    assert layers.certificate_.problem(layers.strength_) is None


def test_automatic_diffusion_is_shorter_where_there_are_more_labels() -> None:
    X, y, labels = blobs(spread=3.0)
    few, all_of_them = COINClassifier(**FAST).fit(X, labels), COINClassifier(**FAST).fit(X, y)
    assert all_of_them.diffusion_time_ < few.diffusion_time_


def test_held_out_labels_shorten_a_diffusion_that_misleads() -> None:
    X, y, labels = blobs(120, per_class=30)
    edges = np.triu(np.random.default_rng(0).random((120, 120)) < 0.08, 1).astype(float)
    misleading = edges + edges.T  # at random
    given = {folds: COINClassifier(graph="precomputed", folds=folds) for folds in (0, 5)}
    for model in given.values():
        model.fit(X, labels, adjacency=misleading)
    assert given[5].diffusion_time_ < given[0].diffusion_time_
    assert (given[5].transduction_ == y).mean() >= (given[0].transduction_ == y).mean()
    # A graph that joins like with like is used as far as it goes, and layers that were asked for are left.
    near = {folds: COINClassifier(folds=folds).fit(X, labels) for folds in (0, 5)}
    assert near[5].diffusion_time_ == near[0].diffusion_time_ > 0
    asked = COINClassifier(graph="precomputed", layers=3).fit(X, labels, adjacency=misleading)
    assert asked.layers_ == 3


def test_without_layers_the_network_answers_alone() -> None:
    X, _, labels = blobs(spread=3.0)
    model = COINClassifier(**FAST, layers=0).fit(X, labels)
    np.testing.assert_allclose(model.predict_proba(X), model._base_output(X), atol=1e-9)


@pytest.mark.parametrize(("factor", "limit"), [(1.5, "positivity"), (4.0, "stability")])
def test_a_strength_past_a_limit_warns_or_with_strict_raises(factor: float, limit: str) -> None:
    X, _, labels = blobs()
    certificate = COINClassifier(**FAST).fit(X, labels).certificate_
    strength = factor * certificate.positivity_limit
    assert (strength > certificate.stability_limit) == (limit == "stability")
    with pytest.warns(StepSizeWarning, match=f"past the {limit} limit"):
        COINClassifier(**FAST, layers=3, strength=strength).fit(X, labels)
    with pytest.raises(StepSizeError, match=f"past the {limit} limit"):
        COINClassifier(**FAST, layers=3, strength=strength, strict=True).fit(X, labels)


@pytest.mark.parametrize("solver", sorted(set(SOLVERS) - {"euler"}))
def test_solvers_come_to_close_answers(solver: str) -> None:
    X, _, labels = blobs(spread=3.0)
    euler = COINClassifier(**FAST, layers=40, strength=0.05).fit(X, labels)
    other = COINClassifier(**FAST, layers=40, strength=0.05, solver=solver).fit(X, labels)
    np.testing.assert_allclose(other.predict_proba(X), euler.predict_proba(X), atol=0.02)
    new = X[:20] + 0.1
    np.testing.assert_allclose(other.predict_proba(new), euler.predict_proba(new), atol=0.02)


@pytest.mark.parametrize("solver", ["exact", "chebyshev", "implicit"])
def test_solvers_without_a_limit_choose_their_own_steps(solver: str) -> None:
    X, y, labels = blobs()
    model = COINClassifier(folds=0, solver=solver).fit(X, labels)
    assert (model.transduction_ == y).mean() > 0.95


# ---- calibration ---------------------------------------------------------------------------------------------------


def test_calibration_makes_heavily_decayed_outputs_honest() -> None:
    X, y = load_digits(return_X_y=True)
    X, y = X[:900], y[:900]
    labels = hide(y[:600], 4)
    raw = COINClassifier(weight_decay=0.05, calibration=None).fit(X[:600], labels)
    calibrated = COINClassifier(weight_decay=0.05).fit(X[:600], labels)
    assert raw.temperature_ == 1.0
    before, after = raw.predict_proba(X[600:]), calibrated.predict_proba(X[600:])
    np.testing.assert_array_equal(before.argmax(axis=1), after.argmax(axis=1))
    assert log_loss(y[600:], after) < 0.8 * log_loss(y[600:], before)


def test_few_labels_are_not_calibrated_nor_scored() -> None:
    X, _, _ = blobs()
    model = COINClassifier().fit(X, hide(blobs()[1], 3))
    assert model.temperature_ == 1.0
    assert np.isnan(model.cv_score_)


def test_the_held_out_score_is_an_accuracy() -> None:
    X, _, labels = blobs(per_class=8)
    assert COINClassifier().fit(X, labels).cv_score_ > 0.9
    shuffled = labels.copy()
    shuffled[labels >= 0] = np.random.default_rng(0).permutation(labels[labels >= 0])
    assert COINClassifier().fit(X, shuffled).cv_score_ < 0.75


# ---- scikit-learn --------------------------------------------------------------------------------------------------


def test_it_works_in_a_pipeline_and_under_cross_validation() -> None:
    X, y, labels = blobs()
    pipeline = make_pipeline(StandardScaler(), COINClassifier(**FAST)).fit(X, labels)
    assert (pipeline.predict(X) == y).mean() > 0.95
    assert cross_val_score(COINClassifier(**FAST), X, y, cv=3).mean() > 0.95


def test_it_works_under_a_grid_search() -> None:
    X, y, _ = blobs()
    search = GridSearchCV(COINClassifier(**FAST), {"n_neighbors": [4, 8], "layers": [2, "auto"]}, cv=2).fit(X, y)
    assert search.best_score_ > 0.95
    assert set(search.best_params_) == {"n_neighbors", "layers"}


def test_a_clone_is_unfitted_and_fits_the_same() -> None:
    X, _, labels = blobs(spread=3.0)
    model = COINClassifier(**FAST, n_neighbors=5, class_weight="balanced").fit(X, labels)
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert not hasattr(copy, "classes_")
    np.testing.assert_array_equal(copy.fit(X, labels).predict_proba(X), model.predict_proba(X))


@pytest.mark.parametrize(
    "settings",
    [{"graph": "ring"}, {"n_neighbors": 1}, {"layers": -1}, {"strength": 0}, {"solver": "rk4"}, {"calibration": "x"}],
)
def test_parameters_out_of_range_are_named(settings: dict[str, Any]) -> None:
    X, _, labels = blobs()
    with pytest.raises(ValueError, match=f"'{next(iter(settings))}' parameter"):
        COINClassifier(**settings).fit(X, labels)


# ---- randomness ----------------------------------------------------------------------------------------------------


def test_a_seed_gives_the_same_bytes_and_another_gives_others() -> None:
    X, _, labels = blobs(spread=3.0, per_class=5)
    settings: dict[str, Any] = {"epochs": 15, "n_inits": 2}
    first, again, other = (COINClassifier(**settings, random_state=s).fit(X, labels) for s in (3, 3, 4))
    assert first.predict_proba(X + 0.1).tobytes() == again.predict_proba(X + 0.1).tobytes()
    assert first.predict_proba(X).tobytes() == again.predict_proba(X).tobytes()
    assert first.predict_proba(X).tobytes() != other.predict_proba(X).tobytes()


def test_a_generator_as_random_state_moves_on() -> None:
    X, _, labels = blobs(spread=3.0)
    generator = np.random.RandomState(0)
    one, two = (COINClassifier(**FAST, random_state=generator).fit(X, labels).predict_proba(X) for _ in range(2))
    assert one.tobytes() != two.tobytes()


def test_the_fit_leaves_global_randomness_and_threads_alone() -> None:
    X, _, labels = blobs(per_class=5)
    torch.manual_seed(12345)  # a state that no fit would leave behind
    torch_before, threads = torch.get_rng_state(), torch.get_num_threads()
    numpy_before = np.random.get_state()[1].copy()  # noqa: NPY002
    COINClassifier(epochs=5).fit(X, labels).predict_proba(X + 0.1)
    assert torch.equal(torch.get_rng_state(), torch_before)
    np.testing.assert_array_equal(np.random.get_state()[1], numpy_before)  # noqa: NPY002
    assert torch.get_num_threads() == threads


def test_verbose_tells_the_loss(capsys: pytest.CaptureFixture[str]) -> None:
    X, _, labels = blobs()
    COINClassifier(**FAST).fit(X, labels)
    assert capsys.readouterr().out == ""
    COINClassifier(**FAST, verbose=True).fit(X, labels)
    assert "epoch 10: loss" in capsys.readouterr().out


# ---- what it is for ------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_one_label_a_class_of_digits_beats_label_spreading() -> None:
    X, y = load_digits(return_X_y=True)
    gains, accuracies = [], []
    for draw in range(3):
        labels = hide(y, 1, seed=draw)
        hidden = labels < 0
        spreading = LabelSpreading(kernel="knn", n_neighbors=7, alpha=0.99, max_iter=100)
        coin = (COINClassifier(folds=0).fit(X, labels).transduction_ == y)[hidden].mean()
        gains.append(coin - (spreading.fit(X, labels).transduction_ == y)[hidden].mean())
        accuracies.append(coin)
    assert np.mean(gains) > 0.02
    assert np.mean(accuracies) > 0.8
