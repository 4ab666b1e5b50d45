import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.distributed.problems import problem

from condiff.distributed import Partition, blocks, partition
from condiff.errors import InvalidInputError, MissingDependencyError
from condiff.graph import Graph


def ring(n_nodes):
    nodes = np.arange(n_nodes)
    half = sp.csr_array((np.ones(n_nodes), (nodes, (nodes + 1) % n_nodes)), shape=(n_nodes, n_nodes))
    return Graph.of(half + half.T)


@pytest.mark.parametrize("method", ["metis", "bfs", "blocks"])
@pytest.mark.parametrize("parts", [1, 2, 3, 5])
def test_parts_are_nearly_equal_and_cut_few_edges(method, parts):
    if method == "metis":
        pytest.importorskip("pymetis")
    graph = ring(300)
    made = partition(graph, parts, method)
    assert made.assignment.shape == (300,)
    assert made.sizes.max() <= 1.1 * 300 / parts
    # A breadth-first walk goes both ways round the ring, so that a part may have two runs of nodes.
    assert made.edge_cut(graph) <= (0 if parts == 1 else 2 * parts)


def test_metis_cuts_less_than_the_order_of_nodes():
    pytest.importorskip("pymetis")
    graph = problem().graph
    shuffled = np.random.default_rng(0).permutation(graph.n_nodes)
    graph = Graph.of(graph.weights[shuffled][:, shuffled])
    cuts = {method: partition(graph, 4, method).edge_cut(graph) for method in ("metis", "bfs", "blocks")}
    assert cuts["metis"] < cuts["bfs"] < cuts["blocks"]


def test_edge_cut_counts_by_hand():
    weights = np.zeros((4, 4))
    weights[0, 1] = weights[1, 2] = weights[2, 3] = weights[3, 0] = 1.0
    half = Partition(np.array([0, 0, 1, 1]), 2)
    assert half.edge_cut(Graph.of(weights)) == 2
    assert half.edge_cut(Graph.of(weights + weights.T)) == 2


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 40), st.integers(1, 8), st.integers(0, 2**32 - 1))
def test_bisection_reaches_every_node_of_any_graph(n_nodes, parts, seed):
    parts = min(parts, n_nodes)
    weights = np.random.default_rng(seed).random((n_nodes, n_nodes)) < 0.05  # mostly in several components
    made = partition(Graph.of(weights.astype(float)), parts, "bfs")
    assert made.sizes.sum() == n_nodes
    assert made.sizes.max() - made.sizes.min() <= parts.bit_length()


def test_the_same_graph_gives_the_same_parts():
    graph = problem().graph
    assert np.array_equal(partition(graph, 4).assignment, partition(graph, 4).assignment)


def test_without_metis_the_walk_serves(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "pymetis", None)
    assert partition(ring(20), 2).method == "bfs"
    with pytest.raises(MissingDependencyError, match=r"condiff\[cluster\]"):
        partition(ring(20), 2, "metis")


def test_blocks_differ_by_one_node():
    assert blocks(10, 4).sizes.tolist() == [3, 3, 2, 2]


@pytest.mark.parametrize(
    ("assignment", "parts", "message"),
    [
        (np.array([0, 1, 2]), 2, "numbers from 0 to 1, not from 0 to 2"),
        (np.array([0.0, 1.0]), 2, "whole number"),
        (np.array([0, 0]), 2, "part 1 of 2 holds no node"),
    ],
)
def test_a_wrong_assignment_is_refused(assignment, parts, message):
    with pytest.raises(InvalidInputError, match=message):
        Partition(assignment, parts)


@pytest.mark.parametrize(
    ("parts", "method", "message"), [(0, "auto", "parts"), (9, "bfs", "parts"), (2, "x", "method")]
)
def test_wrong_arguments_are_refused(parts, method, message):
    with pytest.raises(InvalidInputError, match=message):
        partition(ring(8), parts, method)
