"""Functions of a matrix by their Chebyshev series, against its eigenvalues."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

from condiff.errors import InvalidInputError
from condiff.graph import Graph
from condiff.reproduce.baselines.node.problem import NodeProblem
from condiff.reproduce.baselines.node.spectral import Filter, once_per_graph

Response = Callable[[NDArray[np.float64]], NDArray[np.float64]]


def heat(eigenvalues: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.exp(-6.0 * (1 - eigenvalues))


def pagerank(eigenvalues: NDArray[np.float64]) -> NDArray[np.float64]:
    return 0.02 / (1 - 0.98 * eigenvalues)


def many_steps(eigenvalues: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray((0.99 + 0.01 * eigenvalues) ** 700)


def constant(eigenvalues: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.full_like(eigenvalues, 3.0)


@pytest.mark.parametrize("response", [heat, pagerank, many_steps, constant])
def test_a_filter_is_the_function_of_the_eigenvalues(tiny_problem: NodeProblem, response: Response) -> None:
    matrix = tiny_problem.graph.normalised("symmetric", self_loops="add").weights
    values, vectors = np.linalg.eigh(matrix.toarray())
    expected = vectors @ np.diag(response(values)) @ vectors.T
    found = Filter(matrix, response)
    columns = np.hstack([columns.numpy() for _, columns in found.columns()])
    np.testing.assert_allclose(columns, expected, atol=1e-5)
    features = tiny_problem.features
    np.testing.assert_allclose(found.of_sparse(features), expected @ features.toarray(), atol=1e-5)


def test_columns_come_in_blocks_that_make_the_whole() -> None:
    n = 150
    blocks = list(Filter(sp.eye_array(n, format="csr"), heat).columns())
    assert [(block.start, block.stop) for block, _ in blocks] == [(0, 64), (64, 128), (128, 150)]
    np.testing.assert_allclose(np.hstack([columns for _, columns in blocks]), np.eye(n), atol=1e-5)


def test_few_products_for_many_steps(tiny_problem: NodeProblem) -> None:
    matrix = tiny_problem.graph.normalised("symmetric", self_loops="add").weights
    assert len(Filter(matrix, many_steps).coefficients) < 40


def test_a_function_with_a_jump_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="too sharp"):
        Filter(sp.eye_array(3, format="csr"), np.sign)


def test_equal_graphs_share_what_was_worked_out() -> None:
    calls: list[float] = []

    @once_per_graph
    def costly(graph: Graph, scale: float) -> float:
        calls.append(scale)
        return float(graph.weights.sum()) * scale

    ring = np.roll(np.eye(5), 1, axis=0)
    one, copy, other = Graph.of(ring + ring.T), Graph.of(ring + ring.T), Graph.of(2 * (ring + ring.T))
    assert costly(one, 1.0) == costly(copy, 1.0) == 10.0
    assert calls == [1.0]
    assert costly(other, 1.0) == 20.0
    assert costly(one, 2.0) == 20.0
    assert calls == [1.0, 1.0, 2.0]
    costly(one, 3.0)
    costly(one, 1.0)
    assert calls == [1.0, 1.0, 2.0, 3.0, 1.0], "the oldest is forgotten"
