from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

from condiff.errors import InvalidInputError
from condiff.estimators.domain import Domain
from condiff.estimators.nodes import Nodes
from condiff.graph import kernel_graph

PLAIN: dict[str, Any] = {"scaling": "none", "width": 64}
KNN: dict[str, Any] = {**PLAIN, "n_neighbors": 5, "bandwidth_rank": 3, "metric": "auto"}


def nodes_of(rows: Any) -> Nodes:
    return Nodes.merged(rows, np.ones(rows.shape[0], dtype=bool))


def points(n: int = 30) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(n, 3))


def ring(n: int) -> np.ndarray:
    return np.roll(np.eye(n), 1, axis=1) + np.roll(np.eye(n), -1, axis=1)


def given(adjacency: Any, n: int = 6) -> Domain:
    return Domain.of_graph(Nodes.separate(points(n)), adjacency, purpose="the test", extensible=True, **PLAIN)


def test_points_are_joined_to_their_nearest() -> None:
    nodes = nodes_of(points())
    expected = kernel_graph(nodes.points, 5, 3, tuning="pair")
    np.testing.assert_allclose(
        Domain.of_points(nodes, **KNN).graph.weights.toarray(), expected.weights.toarray(), atol=1e-12
    )


@pytest.mark.parametrize(("form", "metric"), [(np.asarray, "euclidean"), (sp.csr_array, "cosine")])
def test_auto_metric_follows_the_form_of_the_data(form: Any, metric: str) -> None:
    assert Domain.of_points(nodes_of(form(np.abs(points()))), **KNN).metric == metric


def test_fewer_points_than_neighbours_is_no_problem() -> None:
    domain = Domain.of_points(nodes_of(points(3)), **KNN)
    assert (domain.cut, domain.rank) == (3, 3)
    assert domain.graph.n_nodes == 3


def test_one_point_is_a_graph_without_edges() -> None:
    domain = Domain.of_points(nodes_of(points(1)), **KNN)
    assert domain.graph.n_nodes == 1
    assert domain.weights_of(points(2)).nnz == 0


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
    rows = points(6)
    seen = []

    def function(found: np.ndarray) -> np.ndarray:
        seen.append(found)
        return ring(len(found))

    nodes = nodes_of(np.vstack([rows, rows]))
    domain = Domain.of_function(nodes, function, purpose="the test", **PLAIN)
    np.testing.assert_array_equal(seen[0], nodes.points)
    assert domain.graph.n_nodes == 6
    assert domain.weights_of(points(2)).nnz == 0  # a function does not say how new points hang on the graph


def test_new_rows_are_found_or_hung_on_their_neighbours() -> None:
    domain = Domain.of_points(nodes_of(points()), **KNN)
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
    weights = domain.weights_of(points(1), adjacency[:1]).toarray()
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
        given(ring(6)).weights_of(points(2), adjacency)


def test_a_graph_of_neighbours_takes_no_edges_of_new_points() -> None:
    with pytest.raises(InvalidInputError, match="precomputed"):
        Domain.of_points(nodes_of(points(6)), **KNN).weights_of(points(2), np.ones((2, 6)))


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_rows_take_the_form_of_the_nodes(form: Any) -> None:
    domain = Domain.of_points(nodes_of(form(np.abs(points()))), **KNN)
    for other in (np.asarray, sp.csr_array):
        assert sp.issparse(domain.in_own_form(other(points(2)))) == (form is sp.csr_array)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_a_domain_comes_back_from_its_dict(form: Any) -> None:
    domain = Domain.of_points(nodes_of(form(np.abs(points()))), **KNN)
    again = Domain.from_dict(domain.to_dict())
    np.testing.assert_array_equal(again.fingerprints, domain.fingerprints)
    new = domain.in_own_form(np.abs(points(4)) + 0.5)
    np.testing.assert_array_equal(again.weights_of(new).toarray(), domain.weights_of(new).toarray())
