from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from condiff.errors import InvalidInputError
from condiff.graph import Graph, PointGraph, kernel_graph
from condiff.graph.weights import distance_graph


def literal_rows(points: np.ndarray, n_top: int, sigma: int, tuning: str = "row") -> np.ndarray:
    """The truncated Gaussian as its definition says, with dense loops."""
    n = len(points)
    distances = np.array([[np.linalg.norm(a - b) for b in points] for a in points])
    ranked = np.sort(distances, axis=1)  # the point itself comes first, at distance 0
    bandwidth = ranked[:, sigma - 1]
    weights = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            if distances[i, j] < ranked[i, n_top - 1]:
                other = bandwidth[j] if tuning == "pair" else bandwidth[i]
                weights[i, j] = np.exp(-(distances[i, j] ** 2) / (bandwidth[i] * other))
    return weights


def normalised(weights: np.ndarray) -> np.ndarray:
    degree = np.diag(weights.sum(axis=1) ** -0.5)
    return degree @ weights @ degree


def literal(points: np.ndarray, n_top: int, sigma: int) -> np.ndarray:
    weights = normalised(literal_rows(points, n_top, sigma))
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


@pytest.mark.parametrize(("n_top", "sigma"), [(8, 4), (20, 3)])
def test_pairwise_tuning_equals_its_definition(n_top: int, sigma: int) -> None:
    weights = literal_rows(gaussian(), n_top, sigma, "pair")
    actual = kernel_graph(gaussian(), n_top, sigma, tuning="pair")
    np.testing.assert_allclose(actual.weights.toarray(), normalised((weights + weights.T) / 2), rtol=1e-10, atol=1e-15)
    assert actual.is_symmetric


@pytest.mark.parametrize("tuning", ["row", "pair"])
def test_duplicates_only_join_evenly_and_finitely(tuning: Any) -> None:
    built = PointGraph.build(np.ones((6, 3)), 4, 2, tuning=tuning)
    assert np.isfinite(built.graph.weights.data).all()
    assert np.all(built.graph.weights.data > 0)
    assert np.array_equal(built.bandwidth, np.ones(6))
    if tuning == "row":  # four neighbours each, all of weight one
        assert np.array_equal(built.degree, np.full(6, 4.0))


def test_a_bandwidth_of_zero_gives_way_to_the_next_positive_distance() -> None:
    points = np.array([[0.0], [0.0], [0.0], [1.0], [3.0], [7.0]])
    built = PointGraph.build(points, 5, 2)
    # The last point has no duplicate: its second nearest is 3, at distance 4.
    assert built.bandwidth.tolist() == [1.0, 1.0, 1.0, 1.0, 2.0, 4.0]
    assert built.degree[0] == pytest.approx(3 + np.exp(-1.0))


@pytest.mark.parametrize("tuning", ["row", "pair"])
def test_a_new_point_hangs_on_the_graph_as_if_it_had_been_in_it(tuning: Any) -> None:
    points, queries = gaussian()[:50], gaussian()[50:]
    built = PointGraph.build(points, 6, 3, tuning=tuning)
    rows = built.rows_of(points, queries).toarray()
    assert rows.shape == (10, 50)
    for query, row in zip(queries, rows, strict=True):
        distances = np.linalg.norm(points - query, axis=1)
        ranked = np.sort([0.0, *distances])
        other = built.bandwidth if tuning == "pair" else ranked[2]
        weights = np.where(distances < ranked[5], np.exp(-(distances**2) / (ranked[2] * other)), 0.0)
        np.testing.assert_allclose(row, weights / np.sqrt((1 + weights.sum()) * built.degree), rtol=1e-10, atol=1e-15)


def test_the_degrees_of_the_graph_are_those_before_the_normalisation() -> None:
    built = PointGraph.build(gaussian(), 8, 4)
    np.testing.assert_allclose(built.degree, literal_rows(gaussian(), 8, 4).sum(axis=1), rtol=1e-12)


def test_an_unknown_tuning() -> None:
    with pytest.raises(InvalidInputError, match="tuning must be 'row' or 'pair', not 'column'"):
        kernel_graph(gaussian(), tuning="column")  # type: ignore[arg-type]


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


def pairwise(points: np.ndarray) -> np.ndarray:
    return np.linalg.norm(points[:, None] - points[None], axis=-1)


@pytest.mark.parametrize(("n_top", "sigma"), [(8, 4), (2, 2), (5, 5), (60, 60)])
def test_distances_alone_give_the_graph_of_the_points(n_top: int, sigma: int) -> None:
    graph = distance_graph(pairwise(gaussian()), n_top, sigma)
    np.testing.assert_allclose(graph.weights.toarray(), literal(gaussian(), n_top, sigma), rtol=1e-10, atol=1e-15)
    assert graph.is_symmetric


def test_duplicates_and_ties_are_treated_as_those_of_points() -> None:
    side = np.arange(4.0)
    grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    points = np.concatenate([grid, grid[:5], grid[:2]])
    actual, expected = distance_graph(pairwise(points), 6, 2), kernel_graph(points, 6, 2)
    np.testing.assert_allclose(actual.weights.toarray(), expected.weights.toarray(), rtol=1e-12)


def test_points_that_are_not_joined_have_no_edges_and_no_say() -> None:
    chosen = np.random.default_rng(1).permutation(60)[:25]
    weights = distance_graph(pairwise(gaussian()), 6, 3, among=chosen).weights.toarray()
    expected = np.zeros((60, 60))
    expected[np.ix_(chosen, chosen)] = literal(gaussian()[chosen], 6, 3)
    np.testing.assert_allclose(weights, expected, rtol=1e-10, atol=1e-15)


@pytest.mark.parametrize(
    ("distances", "arguments", "message"),
    [
        (np.zeros((3, 2)), {}, r"square matrix, not an array of shape \(3, 2\)"),
        (-pairwise(gaussian()), {}, "finite and not negative"),
        (np.where(np.eye(60) > 0, 0.0, np.nan), {}, "finite and not negative"),
        (pairwise(gaussian()) + 1, {}, "zero on the diagonal"),
        (pairwise(gaussian()), {"bandwidth_rank": 9}, "from 2 to n_neighbors = 8"),
        (pairwise(gaussian(5)), {}, "asked for 8 neighbours among 5 points"),
        (pairwise(gaussian()), {"among": np.arange(7)}, "asked for 8 neighbours among 7 points"),
        (pairwise(gaussian()), {"among": [3, 4, 3]}, r"different indices in 0 \.\. 59"),
        (pairwise(gaussian()), {"among": [-1, 4]}, r"different indices in 0 \.\. 59"),
        (pairwise(gaussian()), {"among": np.ones(60, dtype=bool)}, r"different indices in 0 \.\. 59"),
    ],
)
def test_distances_that_cannot_be_used(distances: np.ndarray, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        distance_graph(distances, **arguments)
