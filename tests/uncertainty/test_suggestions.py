"""What to label next: every strategy, on graphs whose right answers are plain to see."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from condiff import COINClassifier
from condiff.errors import InvalidInputError
from condiff.graph import Graph
from condiff.graph.weights import PointGraph
from condiff.uncertainty.suggestions import STRATEGIES, Field, Situation, _Covariance, suggest


def clusters(sizes: tuple[int, ...], seed: int = 0) -> tuple[Graph, np.ndarray]:
    """Round clusters in a row, joined to their neighbours by few edges or none."""
    generator = np.random.default_rng(seed)
    of = np.repeat(np.arange(len(sizes)), sizes)
    points = generator.normal(size=(len(of), 2)) + 5.0 * of[:, None]
    return PointGraph.build(points, 12, 6, tuning="pair", metric="euclidean").graph, of


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_what_is_suggested_is_open_different_and_the_same_again(strategy: str) -> None:
    graph, _ = clusters((60, 50, 40))
    labelled = np.isin(np.arange(150), [0, 70, 120])
    closed = np.arange(150) % 10 == 1
    chances = np.random.default_rng(1).dirichlet(np.ones(3), 150)
    situation = Situation(graph, labelled, chances, closed)
    found = suggest(situation, 8, strategy)
    assert len(found) == len(set(found.tolist())) == 8
    assert not (labelled | closed)[found].any()
    np.testing.assert_array_equal(found, suggest(Situation(graph, labelled, chances, closed), 8, strategy))
    assert len(suggest(Situation(graph, ~labelled, chances), 8, strategy)) <= 3


@pytest.mark.parametrize("strategy", ["coverage", "change", "variance", "sigma"])
def test_without_a_label_every_region_gets_one(strategy: str) -> None:
    graph, of = clusters((80, 60, 60, 50))
    found = suggest(Situation(graph, np.zeros(250, bool)), 4, strategy)
    assert sorted(of[found].tolist()) == [0, 1, 2, 3]


def test_when_every_region_has_a_label_the_densest_is_not_asked_for_again() -> None:
    ring = sp.diags_array([1.0, 1.0, 1.0, 1.0], offsets=[1, -1, 29, -29], shape=(30, 30)).tocsr()
    found = suggest(Situation(Graph.of(ring), np.zeros(30, bool)), 10, "coverage")
    apart = np.abs(found[:, None] - found[None, :])
    assert (np.minimum(apart, 30 - apart) > 1).sum() == 90


@pytest.mark.parametrize("strategy", ["margin", "entropy", "change", "coverage"])
def test_a_large_part_without_a_label_comes_first(strategy: str) -> None:
    whole, of = clusters((60, 40, 50))
    blocks = [whole.weights[of == part][:, of == part] for part in range(3)]
    graph = Graph.of(sp.block_diag(blocks, format="csr"))
    parts = graph.components
    labelled = np.arange(150) == 5
    chances = np.full((150, 2), 0.5)
    sizes = Situation(graph, labelled, chances).unreached
    assert sizes[0] == 0
    found = suggest(Situation(graph, labelled, chances), 2, strategy)
    assert sizes[found[0]] == sizes.max() == 50
    assert len(set(parts[found].tolist()) - {parts[5]}) == 2


def test_margin_and_entropy_ask_where_it_is_uncertain_and_not_of_neighbours() -> None:
    graph, _ = clusters((60, 60))
    chances = np.stack([np.linspace(0.5, 1.0, 120), np.linspace(0.5, 0.0, 120)], axis=1)
    labelled = np.arange(120) == 119
    for strategy in ("margin", "entropy"):
        found = suggest(Situation(graph, labelled, chances), 3, strategy)
        assert found[0] == 0
        joined = graph.weights[found][:, found].toarray() > 0
        assert not (joined & ~np.eye(3, dtype=bool)).any()


def test_change_weighs_doubt_with_influence() -> None:
    graph, of = clusters((60, 60))
    chances = np.full((120, 2), [0.99, 0.01])
    chances[of == 1] = 0.55, 0.45
    labelled = np.isin(np.arange(120), [0, 61])
    assert of[suggest(Situation(graph, labelled, chances), 1, "change")[0]] == 1


def test_the_covariance_is_that_of_a_gaussian_field() -> None:
    graph, _ = clusters((30, 25))
    field = Field.of(graph)
    np.testing.assert_allclose(field.vectors.T @ field.vectors, np.eye(field.vectors.shape[1]), atol=1e-9)
    found = _Covariance(field)
    whole = found.vectors @ found.small @ found.vectors.T
    nodes = np.array([3, 40])
    joint = whole[nodes][:, nodes] + found.noise * np.eye(2)
    expected = whole - whole[:, nodes] @ np.linalg.solve(joint, whole[nodes])
    one = _Covariance(field)
    one.add(nodes[:1])
    one.add(nodes[1:])
    found.add(nodes)
    np.testing.assert_allclose(found.vectors @ found.small @ found.vectors.T, expected, atol=1e-6 * whole.max())
    np.testing.assert_allclose(one.small, found.small, atol=1e-6 * whole.max())
    np.testing.assert_allclose(found.own - found.noise, np.diag(expected), atol=1e-6 * whole.max())
    np.testing.assert_allclose(found.squares, (expected**2).sum(axis=1), rtol=1e-4, atol=1e-6 * (whole**2).max())
    np.testing.assert_allclose(found.sums, expected.sum(axis=1), atol=1e-5 * whole.max())


def test_the_smooth_field_of_a_larger_graph_is_nearly_the_exact_one() -> None:
    graph, _ = clusters((300, 250))
    found = Field.of(graph)
    exact = np.linalg.eigvalsh(np.diag(graph.degree) - graph.weights.toarray())
    np.testing.assert_allclose(found.rates[:20], exact[:20], rtol=0.05, atol=1e-3)


def test_a_model_suggests_rows_and_says_what_is_wrong_with_the_question() -> None:
    generator = np.random.default_rng(0)
    X = np.concatenate([generator.normal(place, 1, (60, 2)) for place in (0, 5)])
    y = np.full(120, -1)
    y[[0, 60]] = 0, 1
    model = COINClassifier(base="residual", layers=10, n_inits=1).fit(X, y)
    found = model.suggest(3)
    assert len(found) == 3
    assert all(y[each.row] == -1 for each in found)
    assert found != model.suggest(3, strategy="random")
    with pytest.raises(InvalidInputError, match="strategy must be one of random"):
        model.suggest(3, strategy="best")
    with pytest.raises(InvalidInputError, match="at least one"):
        model.suggest(0)


def test_planted_errors_are_the_first_label_issues() -> None:
    generator = np.random.default_rng(0)
    X = np.concatenate([generator.normal(place, 1, (80, 2)) for place in (0, 6)])
    truth = np.repeat(["left", "right"], 80).astype(object)
    y = np.where(np.arange(160) % 4 == 0, truth, None)
    planted = [0, 20, 100, 120]
    for row in planted:
        y[row] = "right" if truth[row] == "left" else "left"
    model = COINClassifier(base="residual", layers=10, n_inits=1).fit(X, y)
    found = model.label_issues()
    assert {each.row for each in found[:4]} == set(planted)
    assert all(each.label == y[each.row] and each.answer == truth[each.row] for each in found[:4])
    assert all(each.probability < each.answer_probability and 0 <= each.neighbours <= 1 for each in found[:4])
    y[np.flatnonzero(np.arange(160) % 4 == 0)[3:-3]] = None
    assert COINClassifier(base="residual", layers=10, n_inits=1).fit(X, y).label_issues() == []
