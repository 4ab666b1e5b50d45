from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from condiff.graph import Graph
from condiff.graph.coarse import Coarse, nearest_seeds


def path(weights: list[float]) -> Graph:
    """A path whose edges have these weights; a weight of zero cuts it."""
    return Graph.of(sp.csr_array(sp.diags_array([weights, weights], offsets=[-1, 1])))


def test_a_node_joins_the_seed_that_its_largest_weight_leads_to() -> None:
    graph = path([1.0, 5.0, 2.0, 3.0, 1.0])
    assert nearest_seeds(graph.weights, np.array([0, 5])).tolist() == [0, 0, 0, 1, 1, 1]
    # Seeds keep their order, and stay apart however strongly they are joined.
    assert nearest_seeds(graph.weights, np.array([2, 1])).tolist() == [1, 1, 0, 0, 0, 0]


def test_nodes_that_no_seed_reaches_are_left_out() -> None:
    graph = path([1.0, 0.0, 1.0, 0.0])
    assert nearest_seeds(graph.weights, np.array([3])).tolist() == [-1, -1, 0, 0, -1]
    coarse = Coarse.around(graph, np.array([3]))
    assert coarse.members.sum(axis=1).tolist() == [0, 0, 1, 1, 0]
    rows = np.array([[9.0], [9.0], [1.0], [3.0], [9.0]], dtype=np.float32)
    assert coarse.means(rows).tolist() == [[2.0]]
    sparse = coarse.means(sp.csr_array(rows))
    assert sparse.format == "csr" and sparse.dtype == np.float32 and sparse.toarray().tolist() == [[2.0]]


def test_weights_add_up_and_are_normalised_by_what_each_merged_node_holds() -> None:
    coarse = Coarse.around(path([1.0, 1.0, 2.0, 1.0, 1.0]), np.array([1, 4]))
    # Either side has two edges of weight one within, counted from both ends, and shares one of weight two.
    within, between = 4.0, 2.0
    expected = np.array([[within, between], [between, within]]) / (within + between)
    np.testing.assert_allclose(coarse.graph.weights.toarray(), expected)
    assert coarse.graph.is_symmetric


def test_a_coarse_graph_mixes_where_the_graph_does() -> None:
    """Two clusters stay apart, and each is one."""
    rng = np.random.default_rng(0)
    weights = np.kron(np.eye(2), np.ones((50, 50))) + 1e-3
    graph = Graph.of(weights * (1 - np.eye(100))).normalised()
    seeds = np.sort(rng.permutation(100)[:20])
    coarse = Coarse.around(graph, seeds)
    joined = coarse.graph.weights.toarray()
    same = (seeds[:, None] < 50) == (seeds < 50)
    np.fill_diagonal(joined, 0.0)
    within, between = (np.where(which, joined, 0.0).sum(axis=1) for which in (same, ~same))
    assert (within > 100 * between).all()
