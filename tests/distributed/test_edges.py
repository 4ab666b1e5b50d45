import numpy as np
import pytest
import scipy.sparse as sp
from tests.distributed.problems import problem

from condiff.distributed import EdgeFile, GraphEdges
from condiff.distributed import edges as module
from condiff.distributed.edges import open_array
from condiff.errors import InvalidFileError, InvalidInputError


def matrix(edges):
    rows, columns, weights = (np.concatenate(parts) for parts in zip(*edges.blocks(), strict=True))
    return sp.csr_array((weights, (rows, columns)), shape=(edges.n_nodes, edges.n_nodes)).toarray()


@pytest.fixture(params=[3, 1 << 21])
def any_block(request, monkeypatch):
    monkeypatch.setattr(module, "BLOCK", request.param)


def test_a_graph_comes_back_from_its_blocks(any_block):
    graph = problem(60, directed=True).graph
    assert np.array_equal(matrix(GraphEdges(graph)), graph.weights.toarray())
    assert not GraphEdges(graph).symmetric


@pytest.mark.parametrize("columnwise", [True, False])
def test_an_edge_list_as_the_graph_of_a_target_that_averages_over_its_source(any_block, columnwise):
    pairs = np.array([[0, 1, 2, 2, 3], [1, 2, 3, 2, 0]])
    weights = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    listed = pairs if columnwise else pairs.T
    directed = np.zeros((4, 4))
    directed[pairs[1], pairs[0]] = weights
    assert np.array_equal(matrix(EdgeFile(listed, 4, weights, undirected=False)), directed)
    both = directed + directed.T - np.diag(np.diag(directed))
    assert np.array_equal(matrix(EdgeFile(listed, 4, weights)), both)


def test_a_single_edge():
    assert matrix(EdgeFile(np.array([[0, 1]]), 2)).tolist() == [[0, 1], [1, 0]]
    assert matrix(EdgeFile(np.array([[0], [1]]), 2)).tolist() == [[0, 1], [1, 0]]


@pytest.mark.parametrize(
    ("edges", "weights", "message"),
    [
        (np.zeros((3, 3), dtype=int), None, r"\(2, m\) or \(m, 2\)"),
        (np.zeros((2, 3)), None, "integers"),
        (np.zeros((2, 3), dtype=int), np.ones(2), "3 edges but the weights"),
        (np.array([[0, 1], [1, 7], [2, 0]]).T, None, "edge 1 has an end at 7, but there are 3 nodes"),
        (np.array([[0, 1], [1, -1], [2, 0]]).T, None, "edge 1 has an end at -1"),
        (np.array([[0, 1], [1, 2], [2, 0]]).T, np.array([1.0, -1.0, 1.0]), "finite and not negative"),
        (np.array([[0, 1], [1, 2], [2, 0]]).T, np.array([1.0, np.nan, 1.0]), "finite and not negative"),
    ],
)
def test_bad_edges_are_refused(edges, weights, message):
    with pytest.raises(InvalidInputError, match=message):
        matrix(EdgeFile(edges, 3, weights))


def test_files_are_data(tmp_path):
    np.save(tmp_path / "objects.npy", np.array([{}], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "several.npz", a=np.ones(2))
    (tmp_path / "text.npy").write_text("not an array")
    for name in ("objects.npy", "several.npz", "text.npy", "missing.npy"):
        with pytest.raises(InvalidFileError, match=name):
            open_array(tmp_path / name)
