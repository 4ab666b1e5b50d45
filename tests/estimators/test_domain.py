"""Scaling and reduction of features, graphs of points and given ones, and new points that follow the flow."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch

from condiff.diffusion import SOLVERS
from condiff.diffusion.flow import Flow
from condiff.errors import InvalidInputError
from condiff.estimators.domain import Domain, FeatureMap, follow
from condiff.estimators.inputs import Nodes
from condiff.graph import Graph, kernel_graph


def points(n: int = 50, columns: int = 6) -> np.ndarray:
    return np.random.default_rng(0).normal(3.0, 2.0, (n, columns))


def test_standard_scaling_gives_unit_columns() -> None:
    rows = points() * np.array([1, 10, 100, 1, 1, 1e-3])
    scaled = FeatureMap.fit(rows, scaling="standard", width=64).scaled(rows)
    np.testing.assert_allclose(scaled.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(scaled.std(axis=0), 1)


def test_without_scaling_distances_stay() -> None:
    rows = points() * np.array([1, 10, 100, 1, 1, 1e-3])
    scaled = FeatureMap.fit(rows, scaling="none", width=64).scaled(rows)
    np.testing.assert_allclose(scaled[0] - scaled[1], rows[0] - rows[1], atol=1e-12)


@pytest.mark.parametrize(("largest", "standardised"), [(1.0, False), (1000.0, True)])
def test_auto_scaling_standardises_only_where_a_column_dominates(largest: float, standardised: bool) -> None:
    rows = points(columns=10) * np.array([largest, *[1.0] * 9])
    scaled = FeatureMap.fit(rows, scaling="auto", width=64).scaled(rows)
    assert np.allclose(scaled.std(axis=0), 1) == standardised


def test_a_constant_column_stays_silent() -> None:
    rows = points()
    rows[:, 2] = 0.1 + 0.2
    rows[::2, 2] = 0.3  # rounding noise
    scaled = FeatureMap.fit(rows, scaling="standard", width=64).scaled(rows)
    assert np.abs(scaled[:, 2]).max() < 1e-9


def test_inputs_are_centred_with_mean_variance_one() -> None:
    rows = points() * 7
    inputs = FeatureMap.fit(rows, scaling="none", width=64).inputs(rows)
    np.testing.assert_allclose(inputs.mean(axis=0), 0, atol=1e-12)
    assert inputs.var(axis=0).mean() == pytest.approx(1)


def test_wide_rows_are_reduced_to_their_principal_components() -> None:
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(80, 3)) @ rng.normal(size=(3, 20)) + 5.0
    inputs = FeatureMap.fit(rows, scaling="none", width=3).inputs(rows)
    assert inputs.shape == (80, 3)
    # Three components hold everything, so that distances are those of the rows but for the common unit.
    pairs = rng.integers(0, 80, (30, 2))
    before = np.linalg.norm(rows[pairs[:, 0]] - rows[pairs[:, 1]], axis=1)
    after = np.linalg.norm(inputs[pairs[:, 0]] - inputs[pairs[:, 1]], axis=1)
    np.testing.assert_allclose(after, before * (after.sum() / before.sum()), rtol=1e-8)


@pytest.mark.parametrize("width", [4, 64])
def test_sparse_rows_become_dense_inputs_and_are_not_shifted_for_distances(width: int) -> None:
    rows = sp.random_array((40, 30), density=0.2, rng=np.random.default_rng(0), format="csr")
    features = FeatureMap.fit(rows, scaling="auto", width=width)
    assert features.scaled(rows) is rows
    inputs = features.inputs(rows)
    assert inputs.shape == (40, min(width, 30))
    np.testing.assert_allclose(inputs.mean(axis=0), 0, atol=1e-10)


def test_sparse_and_dense_inputs_agree_where_all_columns_are_kept() -> None:
    rows = sp.random_array((40, 30), density=0.2, rng=np.random.default_rng(0), format="csr")
    sparse = FeatureMap.fit(rows, scaling="none", width=64).inputs(rows)
    dense = FeatureMap.fit(rows.toarray(), scaling="none", width=64).inputs(rows.toarray())
    np.testing.assert_allclose(sparse, dense, atol=1e-12)


def test_very_wide_dense_rows_take_at_most_as_many_components_as_rows() -> None:
    rows = np.random.default_rng(0).normal(size=(12, 2500))
    assert FeatureMap.fit(rows, scaling="none", width=64).inputs(rows).shape == (12, 12)


def test_rows_that_are_all_equal_give_finite_inputs() -> None:
    rows = np.ones((5, 3))
    features = FeatureMap.fit(rows, scaling="standard", width=64)
    np.testing.assert_array_equal(features.inputs(rows), np.zeros((5, 3)))


PLAIN: dict[str, Any] = {"scaling": "none", "width": 64}
KNN: dict[str, Any] = {**PLAIN, "n_neighbors": 5, "bandwidth_rank": 3, "metric": "auto"}


def nodes_of(rows: Any) -> Nodes:
    return Nodes.merged(rows, np.ones(rows.shape[0], dtype=bool))


def cloud(n: int = 30) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(n, 3))


def ring(n: int) -> np.ndarray:
    return np.roll(np.eye(n), 1, axis=1) + np.roll(np.eye(n), -1, axis=1)


def given(adjacency: Any, n: int = 6) -> Domain:
    return Domain.of_graph(Nodes.separate(cloud(n)), adjacency, purpose="the test", extensible=True, **PLAIN)


def test_points_are_joined_to_their_nearest() -> None:
    nodes = nodes_of(cloud())
    expected = kernel_graph(nodes.points, 5, 3, tuning="pair")
    np.testing.assert_allclose(
        Domain.of_points(nodes, **KNN).graph.weights.toarray(), expected.weights.toarray(), atol=1e-12
    )


@pytest.mark.parametrize(("form", "metric"), [(np.asarray, "euclidean"), (sp.csr_array, "cosine")])
def test_auto_metric_follows_the_form_of_the_data(form: Any, metric: str) -> None:
    assert Domain.of_points(nodes_of(form(np.abs(cloud()))), **KNN).metric == metric


def test_fewer_points_than_neighbours_is_no_problem() -> None:
    domain = Domain.of_points(nodes_of(cloud(3)), **KNN)
    assert (domain.cut, domain.rank) == (3, 3)
    assert domain.graph.n_nodes == 3


def test_one_point_is_a_graph_without_edges() -> None:
    domain = Domain.of_points(nodes_of(cloud(1)), **KNN)
    assert domain.graph.n_nodes == 1
    assert domain.weights_of(cloud(2)).nnz == 0


@pytest.mark.parametrize(
    "form",
    [np.asarray, sp.csr_array, sp.coo_matrix, nx.from_numpy_array],
    ids=["dense", "csr", "coo", "networkx"],
)
def test_a_given_graph_gets_self_loops_and_the_symmetric_normalisation(form: Any) -> None:
    adjacency = ring(6)
    np.testing.assert_allclose(given(form(adjacency)).graph.weights.toarray(), (adjacency + np.eye(6)) / 3, atol=1e-12)


@pytest.mark.parametrize(
    ("adjacency", "message"),
    [
        (ring(5), "the graph has 5 nodes, but there are 6 points"),
        (np.triu(ring(6)), "symmetric"),
        (-ring(6), "negative"),
        (np.ones((6, 5)), "square"),
    ],
)
def test_a_graph_that_cannot_be_used_is_one_clear_error(adjacency: np.ndarray, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        given(adjacency)


def test_a_function_gets_the_distinct_rows() -> None:
    rows = cloud(6)
    seen = []

    def function(found: np.ndarray) -> np.ndarray:
        seen.append(found)
        return ring(len(found))

    nodes = nodes_of(np.vstack([rows, rows]))
    domain = Domain.of_function(nodes, function, purpose="the test", **PLAIN)
    np.testing.assert_array_equal(seen[0], nodes.points)
    assert domain.graph.n_nodes == 6
    assert domain.weights_of(cloud(2)).nnz == 0  # a function does not say how new points hang on the graph


def test_new_rows_are_found_or_hung_on_their_neighbours() -> None:
    domain = Domain.of_points(nodes_of(cloud()), **KNN)
    rows = domain.points[[4, 7]] + 0.01
    assert domain.find(domain.points[[4, 7]]).tolist() == [4, 7]
    assert domain.find(rows).tolist() == [-1, -1]
    weights = domain.weights_of(rows)
    assert weights.shape == (2, 30)
    assert weights.toarray().argmax(axis=1).tolist() == [4, 7]


def test_edges_of_a_new_node_are_weighed_as_those_of_the_graph() -> None:
    adjacency = ring(6)
    domain = given(adjacency)
    # A new node with the edges of node 0 and no effect on the others' degrees.
    weights = domain.weights_of(cloud(1), adjacency[:1]).toarray()
    np.testing.assert_allclose(weights, adjacency[:1] / 3)


@pytest.mark.parametrize(
    ("adjacency", "message"),
    [
        (np.ones((2, 5)), r"must be 2 x 6 \(new points x training points\), not 2 x 5"),
        (np.ones((3, 6)), "must be 2 x 6"),
        (-np.ones((2, 6)), "finite and not negative"),
        (np.full((2, 6), np.nan), "finite and not negative"),
    ],
)
def test_edges_of_new_nodes_that_make_no_sense_are_refused(adjacency: np.ndarray, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        given(ring(6)).weights_of(cloud(2), adjacency)


def test_a_graph_of_neighbours_takes_no_edges_of_new_points() -> None:
    with pytest.raises(InvalidInputError, match="precomputed"):
        Domain.of_points(nodes_of(cloud(6)), **KNN).weights_of(cloud(2), np.ones((2, 6)))


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_rows_take_the_form_of_the_nodes(form: Any) -> None:
    domain = Domain.of_points(nodes_of(form(np.abs(cloud()))), **KNN)
    for other in (np.asarray, sp.csr_array):
        assert sp.issparse(domain.in_own_form(other(cloud(2)))) == (form is sp.csr_array)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_a_domain_comes_back_from_its_dict(form: Any) -> None:
    domain = Domain.of_points(nodes_of(form(np.abs(cloud()))), **KNN)
    again = Domain.from_dict(domain.to_dict())
    np.testing.assert_array_equal(again.fingerprints, domain.fingerprints)
    new = domain.in_own_form(np.abs(cloud(4)) + 0.5)
    np.testing.assert_array_equal(again.weights_of(new).toarray(), domain.weights_of(new).toarray())


solvers = pytest.mark.parametrize("solver", sorted(SOLVERS))


def setting(n: int = 12):
    rng = np.random.default_rng(0)
    weights = np.triu(rng.random((n, n)) * (rng.random((n, n)) < 0.5), 1)
    graph = Graph.of(weights + weights.T).normalised("symmetric", self_loops="add")
    return graph, rng.dirichlet(np.ones(3), n), rng


@solvers
def test_a_point_without_neighbours_keeps_its_own_answer(solver: str) -> None:
    graph, at_nodes, rng = setting()
    at_new = rng.dirichlet(np.ones(3), 2)
    found = follow(Flow(graph, 5, 0.3, solver=solver), at_nodes, at_new, sp.csr_array((2, 12)))
    np.testing.assert_array_equal(found, at_new)


@solvers
def test_without_layers_the_base_answers(solver: str) -> None:
    graph, at_nodes, rng = setting()
    at_new = rng.dirichlet(np.ones(3), 2)
    found = follow(Flow(graph, 0, 0.3, solver=solver), at_nodes, at_new, sp.csr_array(np.ones((2, 12))))
    np.testing.assert_array_equal(found, at_new)


@solvers
def test_answers_stay_probabilities(solver: str) -> None:
    graph, at_nodes, rng = setting()
    weights = sp.csr_array(rng.random((4, 12)) * 5)
    found = follow(Flow(graph, 8, 0.2, solver=solver), at_nodes, rng.dirichlet(np.ones(3), 4), weights)
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-6)
    assert (found >= -1e-9).all()


def test_explicit_layers_are_those_that_a_node_would_take() -> None:
    """A node whose edges the others do not feel, in one matrix with them."""
    graph, at_nodes, rng = setting()
    at_new, weights = rng.dirichlet(np.ones(3), 1), rng.random((1, 12)) / 12
    L = np.diag(graph.degree) - graph.weights.toarray()
    joint = np.block([[L, np.zeros((12, 1))], [-weights, weights.sum(axis=1, keepdims=True)]])
    expected = np.linalg.matrix_power(np.eye(13) - 0.2 * joint, 6) @ np.vstack([at_nodes, at_new])
    found = follow(Flow(graph, 6, 0.2), at_nodes, at_new, sp.csr_array(weights))
    np.testing.assert_allclose(found, expected[12:], atol=1e-12)


@pytest.mark.parametrize("solver", ["exact", "chebyshev"])
def test_the_other_solvers_come_close_to_the_joint_heat_flow(solver: str) -> None:
    graph, at_nodes, rng = setting()
    at_new, weights = rng.dirichlet(np.ones(3), 1), rng.random((1, 12)) / 12
    L = np.diag(graph.degree) - graph.weights.toarray()
    joint = np.block([[L, np.zeros((12, 1))], [-weights, weights.sum(axis=1, keepdims=True)]])
    expected = torch.linalg.matrix_exp(torch.as_tensor(-2.0 * joint)).numpy() @ np.vstack([at_nodes, at_new])
    found = follow(Flow(graph, 10, 0.2, solver=solver), at_nodes, at_new, sp.csr_array(weights))
    np.testing.assert_allclose(found, expected[12:], atol=2e-3)


def test_a_point_on_top_of_settled_neighbours_takes_their_value() -> None:
    graph, _, rng = setting()
    settled = np.tile([0.2, 0.3, 0.5], (12, 1))
    weights = sp.csr_array(np.full((2, 12), 1.0))
    found = follow(Flow(graph, 60, 0.3), settled, rng.dirichlet(np.ones(3), 2), weights)
    np.testing.assert_allclose(found, settled[:2], atol=1e-6)


def test_the_base_outputs_are_left_as_they_were() -> None:
    graph, at_nodes, rng = setting()
    at_new = rng.dirichlet(np.ones(3), 2)
    nodes_before, new_before = at_nodes.copy(), at_new.copy()
    follow(Flow(graph, 3, 0.2), at_nodes, at_new, sp.csr_array(np.ones((2, 12))))
    np.testing.assert_array_equal(at_nodes, nodes_before)
    np.testing.assert_array_equal(at_new, new_before)


def test_columns_follow_edges_where_neighbours_are_alike_or_unlike() -> None:
    chance, group = np.random.default_rng(0), np.arange(200) % 2
    edges = np.triu(chance.random((200, 200)) < np.where(group[:, None] == group, 0.06, 0.01), 1)
    adjacency = (edges | edges.T).astype(float)

    def domain(columns: np.ndarray) -> Domain:
        nodes = Nodes.separate(columns)
        return Domain.of_graph(nodes, adjacency, scaling="auto", width=8, purpose="a test", extensible=True)

    noise = chance.normal(size=(200, 3))
    assert not domain(noise).columns_follow_edges()
    assert not domain(np.ones((200, 1))).columns_follow_edges()
    assert domain(noise + group[:, None]).columns_follow_edges()
    known = domain(noise)
    np.testing.assert_allclose(known.edges().toarray(), adjacency, atol=1e-12)
    reading = known.reading_edges(8)
    assert known.edges_are_new and reading.read(reading.points)[0].shape == (200, 200)
    assert not domain(adjacency).edges_are_new
