from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from condiff.errors import InvalidInputError
from condiff.graph import Graph, kernel_graph, kernel_rows, nearest


def literal(points: np.ndarray, n_top: int, sigma: int) -> np.ndarray:
    """The kernel graph as its definition says, with dense loops."""
    n = len(points)
    weights = np.zeros((n, n))
    for i in range(n):
        distances = np.array([np.linalg.norm(points[i] - points[j]) for j in range(n)])
        ranked = np.sort(distances)  # the point itself comes first, at distance 0
        for j in range(n):
            if distances[j] < ranked[n_top - 1]:
                weights[i, j] = np.exp(-((distances[j] / ranked[sigma - 1]) ** 2))
    degree = np.diag(weights.sum(axis=1) ** -0.5)
    weights = degree @ weights @ degree
    return (weights + weights.T) / 2


def gaussian(n: int = 60, d: int = 4) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(n, d))


@pytest.mark.parametrize(("n_top", "sigma"), [(8, 4), (2, 2), (5, 5), (20, 3), (60, 60)])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array, lambda x: x.tolist()])
def test_kernel_graph_equals_its_definition(form: Any, n_top: int, sigma: int) -> None:
    graph = kernel_graph(form(gaussian()), n_top, sigma)
    np.testing.assert_allclose(graph.weights.toarray(), literal(gaussian(), n_top, sigma), rtol=1e-10, atol=1e-15)
    assert graph.is_symmetric


def test_the_defaults_are_eight_and_four() -> None:
    np.testing.assert_allclose(kernel_graph(gaussian()).weights.toarray(), literal(gaussian(), 8, 4), rtol=1e-10)


def test_ties_at_the_cut_are_all_left_out() -> None:
    # On a grid, a corner sees two points at distance 1 and one at sqrt 2: with n_top = 3 only itself is strictly below.
    side = np.arange(4.0)
    grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    graph = kernel_graph(grid, 3, 2)
    np.testing.assert_allclose(graph.weights.toarray(), literal(grid, 3, 2), rtol=1e-12)
    assert graph.n_edges == 0


def test_cosine_is_the_kernel_graph_of_unit_rows() -> None:
    points = gaussian()
    unit = points / np.linalg.norm(points, axis=1, keepdims=True)
    actual = kernel_graph(points, 6, 3, metric="cosine").weights.toarray()
    np.testing.assert_allclose(actual, literal(unit, 6, 3), rtol=1e-10, atol=1e-15)


def test_duplicates_only_join_evenly_and_finitely() -> None:
    graph = kernel_graph(np.ones((6, 3)), 4, 2)
    assert np.isfinite(graph.weights.data).all()
    rows = kernel_rows(nearest(np.ones((6, 3)), 4), 2, n_points=6)
    assert np.array_equal(rows.toarray().sum(axis=1), np.full(6, 4.0))
    assert set(rows.data) == {1.0}


def test_a_bandwidth_of_zero_gives_way_to_the_next_positive_distance() -> None:
    points = np.array([[0.0], [0.0], [0.0], [1.0], [3.0], [7.0]])
    rows = kernel_rows(nearest(points, 5), 2, n_points=6).toarray()
    np.testing.assert_allclose(rows[0], [1.0, 1.0, 1.0, np.exp(-1.0), 0.0, 0.0])
    # Without duplicates at hand the rank's own distance counts: from 7, the second nearest is 3, at distance 4.
    np.testing.assert_allclose(rows[5, [3, 4, 5]], [np.exp(-((6 / 4) ** 2)), np.exp(-1.0), 1.0])


def test_rows_of_queries_need_not_be_square() -> None:
    points = gaussian()
    rows = kernel_rows(nearest(points[:40], 6, queries=points[40:]), 3, n_points=40)
    assert rows.shape == (20, 40)
    assert np.array_equal(np.diff(rows.indptr), np.full(20, 5))
    distances = np.sort(np.linalg.norm(points[40] - points[:40], axis=1))
    np.testing.assert_allclose(
        np.sort(rows[[0]].data)[::-1], np.exp(-((distances[:5] / distances[2]) ** 2)), rtol=1e-10
    )


@pytest.mark.parametrize("rank", [0, 1, 9])
def test_the_bandwidth_rank_lies_between_two_and_the_number_of_neighbours(rank: int) -> None:
    with pytest.raises(InvalidInputError, match=f"from 2 to n_neighbors = 8, .* it is {rank}"):
        kernel_graph(gaussian(), 8, rank)


def test_more_neighbours_than_points() -> None:
    with pytest.raises(InvalidInputError, match="asked for 8 neighbours among 5 points"):
        kernel_graph(gaussian(5))


def test_the_result_is_a_graph_ready_for_a_laplacian() -> None:
    graph = kernel_graph(gaussian())
    assert isinstance(graph, Graph)
    assert graph.laplacian().symmetric
