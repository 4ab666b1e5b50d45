from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from condiff.errors import CondiffError, InvalidInputError
from condiff.graph import Graph

SYMMETRIC = np.array(
    [
        [0.5, 2.0, 0.0, 1.0, 0.0, 0.0],
        [2.0, 0.0, 3.0, 0.0, 0.0, 0.0],
        [0.0, 3.0, 0.0, 0.0, 0.0, 0.0],
        [1.0, 0.0, 0.0, 0.0, 0.0, 0.0],
        [0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
        [0.0, 0.0, 0.0, 0.0, 0.0, 4.0],
    ]
)
# Node 2 pulls on others but averages over nobody: its row is empty, its column is not.
DIRECTED = np.array([[0.0, 1.0, 2.0], [3.0, 0.0, 4.0], [0.0, 0.0, 0.0]])


def changed(value: complex, at: tuple[int, int] = (1, 2)) -> np.ndarray:
    weights = np.array(SYMMETRIC, dtype=np.result_type(SYMMETRIC, type(value)))
    weights[at] = value
    return weights


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones((3, 4)), "a square matrix of weights, but this one is 3 x 4"),
        (np.ones((0, 0)), "no nodes"),
        (torch.empty((2, 0), dtype=torch.long), "no nodes"),
        (changed(-2.0), r"1 are negative, the first one \(-2\) between nodes 1 and 2"),
        (changed(np.nan), r"1 are NaN or infinite, the first one \(nan\) between nodes 1 and 2"),
        (changed(np.inf, (5, 5)), r"the first one \(inf\) between nodes 5 and 5"),
        (changed(-np.inf, (4, 0)), r"1 are NaN or infinite, the first one \(-inf\) between nodes 4 and 0"),
        (changed(1j), "weights must be real numbers, not complex128"),
    ],
)
def test_a_bad_matrix_is_refused_in_one_line_that_names_the_place(weights: np.ndarray, message: str) -> None:
    forms = [weights] if weights.shape[0] < 3 else [weights, sp.coo_array(weights), torch.tensor(weights)]
    for form in forms:
        with pytest.raises(InvalidInputError, match=message) as error:
            Graph.of(form)
        assert "\n" not in str(error.value)
        assert isinstance(error.value, CondiffError)
        assert isinstance(error.value, ValueError)


def test_weights_are_canonical() -> None:
    weights = Graph.of(sp.coo_array(([1, 0, 2, 3], ([1, 1, 0, 0], [2, 0, 1, 1])), shape=(3, 3))).weights
    assert weights.has_canonical_format
    assert weights.nnz == 2
    assert weights.indices.dtype == weights.indptr.dtype == np.int32
    assert weights.dtype == np.float64


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_floating_point_weights_keep_their_precision(dtype: type) -> None:
    assert Graph.of(SYMMETRIC.astype(dtype)).weights.dtype == dtype


def test_counts_and_degrees() -> None:
    graph = Graph.of(SYMMETRIC)
    assert (graph.n_nodes, graph.n_edges, graph.is_symmetric) == (6, 3, True)
    assert np.array_equal(graph.degree, SYMMETRIC.sum(axis=1))
    directed = Graph.of(DIRECTED)
    assert (directed.n_nodes, directed.n_edges, directed.is_symmetric) == (3, 4, False)
    assert np.array_equal(directed.degree, [3.0, 7.0, 0.0])


def test_a_graph_without_edges_is_a_graph() -> None:
    graph = Graph.of(np.zeros((3, 3)))
    assert (graph.n_edges, graph.is_symmetric) == (0, True)
    assert len(set(graph.components)) == 3
    assert np.array_equal(graph.normalised().weights.toarray(), np.zeros((3, 3)))
    assert np.array_equal(graph.normalised(self_loops="add").weights.toarray(), np.eye(3))


@pytest.mark.parametrize("rounding", [0.0, 1e-12, -1e-12])
def test_symmetry_overlooks_rounding_only(rounding: float) -> None:
    assert Graph.of(changed(3.0 + rounding)).is_symmetric
    assert not Graph.of(changed(3.0 + 1e-6)).is_symmetric


def test_the_worst_pair_is_named_where_symmetry_is_needed() -> None:
    weights = changed(3.5)
    weights[3, 0] = 1.25
    with pytest.raises(InvalidInputError, match="Chebyshev needs a symmetric graph") as error:
        Graph.of(weights).require_symmetric("Chebyshev")
    assert "weight (1, 2) is 3.5 and (2, 1) is 3" in str(error.value)
    assert "symmetrised()" in str(error.value)
    graph = Graph.of(SYMMETRIC)
    assert graph.require_symmetric("anything") is graph


def test_symmetrised_is_the_mean_of_both_directions() -> None:
    graph = Graph.of(DIRECTED).symmetrised()
    assert np.array_equal(graph.weights.toarray(), (DIRECTED + DIRECTED.T) / 2)
    assert graph.is_symmetric


def test_components_ignore_directions() -> None:
    assert len(set(Graph.of(DIRECTED).components)) == 1
    parts = Graph.of(SYMMETRIC).components
    assert len(set(parts[:4])) == 1
    assert len(set(parts)) == 3


def test_largest_component() -> None:
    order = [4, 2, 5, 0, 1, 3]
    graph, nodes = Graph.of(SYMMETRIC[np.ix_(order, order)]).largest_component()
    assert nodes.tolist() == [1, 3, 4, 5]
    assert np.array_equal(graph.weights.toarray(), SYMMETRIC[np.ix_([2, 0, 1, 3], [2, 0, 1, 3])])


@pytest.mark.parametrize("weights", [SYMMETRIC, DIRECTED], ids=["symmetric", "directed"])
@pytest.mark.parametrize("self_loops", ["add", "remove", "keep"])
@pytest.mark.parametrize("kind", ["symmetric", "random_walk", "none"])
def test_normalisation_against_the_dense_formula(weights: np.ndarray, kind: str, self_loops: str) -> None:
    before = {"add": weights + np.eye(len(weights)), "remove": weights - np.diag(np.diag(weights)), "keep": weights}
    expected = before[self_loops].copy()
    degree = expected.sum(axis=1)
    for i in range(len(weights)):
        for j in range(len(weights)):
            if kind == "symmetric":
                expected[i, j] = expected[i, j] / np.sqrt(degree[i] * degree[j]) if degree[i] * degree[j] else 0.0
            elif kind == "random_walk":
                expected[i, j] = expected[i, j] / degree[i] if degree[i] else 0.0
    result = Graph.of(weights).normalised(kind, self_loops)  # type: ignore[arg-type]
    np.testing.assert_allclose(result.weights.toarray(), expected, rtol=1e-14, atol=0)
    assert result.weights.has_canonical_format
    assert np.all(result.weights.data > 0)


def test_random_walk_rows_sum_to_one_or_stay_empty() -> None:
    degree = Graph.of(DIRECTED).normalised("random_walk").degree
    np.testing.assert_allclose(degree, [1.0, 1.0, 0.0], rtol=1e-14)


def test_normalisation_leaves_the_graph_itself_alone() -> None:
    graph = Graph.of(SYMMETRIC)
    graph.normalised("symmetric", "add")
    assert np.array_equal(graph.weights.toarray(), SYMMETRIC)


def test_unknown_normalisations_are_refused() -> None:
    graph = Graph.of(SYMMETRIC)
    with pytest.raises(InvalidInputError, match="self_loops must be 'add', 'remove' or 'keep', not 'yes'"):
        graph.normalised(self_loops="yes")  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match=r"normalisation must be .* not 'left'"):
        graph.normalised("left")  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_laplacian_of_a_graph(dtype: torch.dtype) -> None:
    operator = Graph.of(DIRECTED).laplacian(dtype)
    assert operator.dtype == dtype
    assert not operator.symmetric
    matrix = np.diag(DIRECTED.sum(axis=1)) - DIRECTED
    assert np.array_equal(operator(torch.eye(3, dtype=dtype)).numpy(), matrix)


def test_nodes_can_be_numbered_anew() -> None:
    weights = np.triu(np.arange(16.0).reshape(4, 4), 1)
    graph, order = Graph.of(weights + weights.T), np.array([2, 0, 3, 1])
    moved = graph.permuted(order)
    np.testing.assert_array_equal(moved.weights.toarray(), graph.weights.toarray()[np.ix_(order, order)])
    assert moved.is_symmetric
    assert moved.weights.has_sorted_indices
