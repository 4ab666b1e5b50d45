"""The graphs that the classifier takes, and the diffusion it runs on them."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from tests.estimators.problems import FAST, blobs, hide, two_rings

from condiff import COINClassifier, load
from condiff.diffusion import SOLVERS
from condiff.errors import (
    ChanceWarning,
    HomophilyWarning,
    InvalidInputError,
    StepSizeError,
    StepSizeWarning,
    UnlabelledComponentWarning,
)

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


@pytest.mark.parametrize("given", [True, False], ids=["given", "nearest"])
def test_many_components_are_no_reason_to_diffuse_for_long(given: bool) -> None:
    """Heat that cannot leave triangles is level within them soon, and further layers would change nothing."""
    triangle = np.repeat(np.arange(200), 3)
    chance = np.random.default_rng(0)
    X = 20 * chance.normal(size=(200, 3))[triangle] + 0.01 * chance.normal(size=(600, 3))
    kind = (X[3 * triangle, 0] > 0).astype(int)
    labels = np.where((np.arange(600) % 3 == 0) & (triangle < 150), kind, -1)
    joined = sp.csr_array((triangle[:, None] == triangle) & ~np.eye(600, dtype=bool)).astype(float)
    how: dict[str, Any] = {"graph": "precomputed"} if given else {"n_neighbors": 3, "bandwidth_rank": 2}
    with pytest.warns(UnlabelledComponentWarning, match=r"150 points lie in 50 component"):
        model = COINClassifier(**FAST, **how).fit(X, labels, adjacency=joined if given else None)
    assert len(np.unique(model.graph_.components)) == 200
    assert 0 < model.layers_ < 50
    assert (model.transduction_ == kind).mean() > 0.9


@pytest.mark.parametrize("per_class", [1, 8])
def test_a_network_reads_the_edges_where_columns_know_nothing(per_class: int, tmp_path: Path) -> None:
    chance, truth = np.random.default_rng(0), np.arange(300) % 3
    edges = np.triu(chance.random((300, 300)) < np.where(truth[:, None] == truth, 0.08, 0.004), 1)
    adjacency, shown = sp.csr_array((edges | edges.T).astype(float)), hide(truth, per_class)
    noise = chance.normal(size=(300, 2))
    model = COINClassifier(graph="precomputed", n_inits=1).fit(noise, shown, adjacency=adjacency)
    assert "of the edges" in str(model.choice_)
    assert (model.transduction_ == truth).mean() > 0.9
    np.testing.assert_array_equal(model.predict(noise), model.transduction_)
    cross = adjacency[[0, 1, 2]]  # the same friends as the first three have
    again = load(model.save(tmp_path / "model"))
    for each in (model, again):
        assert each.predict(noise[:3] + 1, adjacency=cross).tolist() == [0, 1, 2]
    with pytest.warns(UserWarning, match="reads edges that it was not given"):
        model.predict(noise[:3] + 1)
    # Asked for by name, a network reads columns.
    assert "edges" not in str(COINClassifier(**FAST).fit(noise, shown, adjacency=adjacency).choice_)


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
    model = COINClassifier(graph="precomputed", calibration=None, **FAST).fit(X, hide(ring, 2), adjacency=adjacency)
    new = np.random.default_rng(1).normal(size=(5, 3))
    with pytest.warns(UserWarning, match="5 points are new and came without adjacency"):
        found = model.predict_proba(new)
    np.testing.assert_allclose(found, model.base_outputs(new), atol=1e-9)


@pytest.mark.parametrize(
    ("settings", "X", "adjacency", "message"),
    [
        ({"graph": np.outer}, np.eye(4), np.ones((4, 4)), "the graph is a function"),
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
    model = COINClassifier(folds=0, calibration=None)
    with pytest.warns(UnlabelledComponentWarning, match=r"30 points lie in 1 component"):
        model.fit(X, labels)
    np.testing.assert_array_equal(model.unlabelled_component_, y == 2)
    answers = model.predict_proba(X)
    np.testing.assert_allclose(answers[y == 2], model.base_outputs(X[y == 2]), atol=1e-9)
    assert (model.transduction_[y == 2] == 1).all()  # not simply class 0
    near = X[y == 2] + 0.01
    np.testing.assert_allclose(model.predict_proba(near), model.base_outputs(near), atol=1e-9)
    # Diffusion does change the answers of the others.
    assert np.abs(answers[y != 2] - model.base_outputs(X[y != 2])).max() > 1e-6


def test_where_labels_reach_everything_nothing_is_flagged() -> None:
    X, _, labels = blobs()
    assert not COINClassifier(**FAST).fit(X, labels).unlabelled_component_.any()


def test_labels_that_neighbours_tell_nothing_of_are_no_better_than_chance() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 90)
    ring = np.roll(np.eye(90), 1, axis=1)
    with pytest.warns(ChanceWarning, match="no better than by always guessing"):
        COINClassifier(graph="precomputed").fit(rng.normal(size=(90, 4)), y, adjacency=ring + ring.T)


def test_held_out_labels_choose_the_time_on_a_given_graph() -> None:
    """Features tell the class; links go anywhere, and diffusion along them would only blur."""
    X, y, _ = blobs(centers=3, spread=0.5)
    ring = np.roll(np.eye(len(y))[np.random.default_rng(0).permutation(len(y))], 1, axis=1)
    random = ((ring + ring.T) > 0) & ~np.eye(len(y), dtype=bool)
    with pytest.warns(HomophilyWarning, match=r"19% of 21 labelled edges join equals \(34% by chance\)"):
        model = COINClassifier().fit(X, np.where(np.arange(len(y)) % 2, y, -1), adjacency=random * 1.0)
    assert model.diffusion_time_ == 0.0 and (model.transduction_ == y).mean() > 0.9
    assert model.homophily_.is_absent and str(model.homophily_) in str(model.choice_)


def test_where_no_label_can_be_held_out_labelled_edges_say_whether_to_diffuse() -> None:
    X, y, _ = blobs(centers=2, spread=0.5)
    labels = np.where(np.arange(len(y)) % 5 == 0, y, -1)
    different = (y[:, None] != y).astype(float)
    with pytest.warns(HomophilyWarning):
        model = COINClassifier(folds=0).fit(X, labels, adjacency=different)
    assert model.layers_ == 0 and model.homophily_.agreeing == 0.0
    alike = COINClassifier(folds=0).fit(X, labels, adjacency=(y[:, None] == y).astype(float))
    assert alike.layers_ > 0 and alike.homophily_.adjusted == 1.0


def sides(opposite: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Columns, classes, edges between opposite classes or at random, and two labels of each of four classes."""
    chance, y = np.random.default_rng(3), np.arange(400) % 4
    likely = np.where(y[:, None] == (y + 2) % 4, 0.08, 0.002) if opposite else 0.02
    edges = np.triu(chance.random((400, 400)) < likely, 1)
    centres = 1.5 * np.array([[1.0, 0, 0], [0, 1, 0], [-1, 0, 0], [0, -1, 0]])
    X = centres[y] + chance.normal(size=(400, 3))
    return X, y, (edges | edges.T).astype(float), np.where(np.arange(400) < 8, y, -1)


def test_few_labels_and_random_edges_leave_the_base_alone() -> None:
    X, _, edges, labels = sides(opposite=False)
    with pytest.warns(HomophilyWarning, match="nothing is diffused"):
        model = COINClassifier(graph="precomputed").fit(X, labels, adjacency=edges)
    assert model.layers_ == 0
    assert [each.hops for each in model.averaged_] == [0] and not model.averaged_[0].of_edges


def test_few_labels_are_not_diffused_where_columns_of_neighbours_are_unlike() -> None:
    X, y, edges, labels = sides(opposite=True)
    model = COINClassifier(graph="precomputed").fit(X, labels, adjacency=edges)
    assert model.layers_ == 0 and "no diffusion" in str(model.choice_)
    assert (model.transduction_ == y)[8:].mean() > 0.8
    asked = COINClassifier(graph="precomputed", layers=12).fit(X, labels, adjacency=edges)
    assert asked.layers_ == 12
    # Labelled neighbours that agree are believed before columns are.
    together = np.where(y[:, None] == y, 1.0, 0.0) * (np.arange(400) < 8)
    agreeing = COINClassifier(graph="precomputed").fit(X, labels, adjacency=np.maximum(edges, together + together.T))
    assert agreeing.layers_ > 0


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


def test_nothing_is_diffused_along_a_graph_that_misleads() -> None:
    X, y, labels = blobs(120, per_class=30)
    edges = np.triu(np.random.default_rng(0).random((120, 120)) < 0.08, 1).astype(float)
    misleading = edges + edges.T  # at random
    # With folds their labels say so, without them the labelled edges.
    for folds in (0, 5):
        with pytest.warns(HomophilyWarning, match="36% of 301"):
            model = COINClassifier(graph="precomputed", folds=folds).fit(X, labels, adjacency=misleading)
        assert model.diffusion_time_ == 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ChanceWarning)  # so many layers over such a graph may leave nothing
        far = COINClassifier(graph="precomputed", layers=20).fit(X, labels, adjacency=misleading)
    assert (model.transduction_ == y).mean() >= (far.transduction_ == y).mean()
    # A graph that joins like with like is used as far as it goes, and layers that were asked for are left.
    near = {folds: COINClassifier(base="residual", folds=folds).fit(X, labels) for folds in (0, 5)}
    assert near[5].diffusion_time_ == near[0].diffusion_time_ > 0
    asked = COINClassifier(graph="precomputed", layers=3).fit(X, labels, adjacency=misleading)
    assert asked.layers_ == 3


def test_without_layers_the_network_answers_alone() -> None:
    X, _, labels = blobs(spread=3.0)
    model = COINClassifier(**FAST, layers=0, label_noise=True, calibration=None).fit(X, labels)
    np.testing.assert_allclose(model.predict_proba(X), model.base_outputs(X), atol=1e-9)


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
