from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from condiff.errors import InvalidInputError
from condiff.graph import Graph
from condiff.graph.convert import to_csr

# Directed, weighted, with a self-loop (node 1) and an isolated node (4): W[i, j] is the pull of j on i.
WEIGHTS = np.array(
    [
        [0.0, 2.0, 0.0, 0.5, 0.0],
        [1.0, 3.0, 0.0, 0.0, 0.0],
        [0.0, 0.0, 0.0, 1.0, 0.0],
        [0.0, 4.0, 1.0, 0.0, 0.0],
        [0.0, 0.0, 0.0, 0.0, 0.0],
    ]
)
TARGETS, SOURCES = np.nonzero(WEIGHTS)
EDGES = np.stack([SOURCES, TARGETS])
VALUES = WEIGHTS[TARGETS, SOURCES]


def same(graph: Graph, weights: np.ndarray) -> bool:
    return graph.weights.shape == weights.shape and np.array_equal(graph.weights.toarray(), weights)


MATRICES: dict[str, Callable[[np.ndarray], Any]] = {
    "numpy": lambda w: w,
    "numpy float32": lambda w: w.astype(np.float32),
    "numpy float16": lambda w: w.astype(np.float16),
    "numpy long double": lambda w: w.astype(np.longdouble),
    "numpy Fortran order": np.asfortranarray,
    "nested lists": lambda w: w.tolist(),
    "scipy with explicit zeros": lambda w: sp.csr_array(
        (w.ravel(), np.tile(np.arange(5), 5), np.arange(0, 26, 5)), shape=w.shape
    ),
    "scipy with duplicates": lambda w: sp.coo_array(
        (np.tile(VALUES, 2) / 2, (np.tile(TARGETS, 2), np.tile(SOURCES, 2))), shape=w.shape
    ),
    "torch": torch.tensor,
    "torch float32": lambda w: torch.tensor(w, dtype=torch.float32),
    "torch bfloat16": lambda w: torch.tensor(w, dtype=torch.bfloat16),
    "torch with gradient": lambda w: torch.tensor(w, requires_grad=True),
    "torch COO": lambda w: torch.tensor(w).to_sparse_coo(),
    "torch COO bfloat16": lambda w: torch.tensor(w, dtype=torch.bfloat16).to_sparse_coo(),
    "torch COO uncoalesced": lambda w: torch.sparse_coo_tensor(
        np.tile(np.stack([TARGETS, SOURCES]), 2), np.tile(VALUES, 2) / 2, w.shape
    ),
    "torch CSR": lambda w: torch.tensor(w).to_sparse_csr(),
    "torch CSC": lambda w: torch.tensor(w).to_sparse_csc(),
}
for _format in ("bsr", "coo", "csc", "csr", "dia", "dok", "lil"):
    for _class in ("array", "matrix"):
        MATRICES[f"scipy {_format}_{_class}"] = getattr(sp, f"{_format}_{_class}")


@pytest.mark.parametrize("form", MATRICES)
def test_every_form_of_a_matrix_gives_the_same_graph(form: str) -> None:
    source = MATRICES[form](WEIGHTS)
    assert same(Graph.of(source), WEIGHTS)


@pytest.mark.parametrize("weights_type", [np.array, list, torch.tensor, lambda v: torch.tensor(v)[:, None]])
@pytest.mark.parametrize("edges_type", [np.array, lambda e: e.tolist(), torch.tensor, lambda e: e.astype(np.int32)])
def test_an_edge_goes_from_the_source_to_the_row_of_its_target(edges_type: Any, weights_type: Any) -> None:
    assert same(Graph.of(edges_type(EDGES), weights_type(VALUES), n_nodes=5), WEIGHTS)


def test_edges_without_weights_weigh_one() -> None:
    assert same(Graph.of(torch.tensor(EDGES), n_nodes=5), (WEIGHTS > 0).astype(float))


def test_the_number_of_nodes_is_the_largest_entry_plus_one_unless_given() -> None:
    assert Graph.of(EDGES).n_nodes == 4
    assert Graph.of(EDGES, n_nodes=9).n_nodes == 9


def test_repeated_edges_add_up_even_in_small_integers() -> None:
    edges = np.array([[0, 0, 0], [1, 1, 1]])
    graph = Graph.of(edges, np.array([200, 100, 50], dtype=np.uint8))
    assert same(graph, np.array([[0.0, 0.0], [350.0, 0.0]]))


@pytest.mark.parametrize("weight", [[2.5], [[2.5]], torch.tensor([2.5])])
def test_a_single_edge_keeps_its_weight(weight: Any) -> None:
    assert same(Graph.of([[0], [1]], weight), np.array([[0.0, 0.0], [2.5, 0.0]]))


def test_no_edges_at_all() -> None:
    graph = Graph.of(torch.empty((2, 0), dtype=torch.long), n_nodes=3)
    assert same(graph, np.zeros((3, 3)))


def test_two_by_two_integers_are_weights_unless_something_says_edges() -> None:
    matrix = np.array([[0, 1], [1, 0]])
    assert same(Graph.of(matrix), matrix)
    assert same(Graph.of([[0, 0], [0, 1]], n_nodes=2), np.array([[1.0, 0.0], [1.0, 0.0]]))
    assert same(Graph.of([[0, 0], [0, 1]], [5.0, 7.0]), np.array([[5.0, 0.0], [7.0, 0.0]]))


def test_a_graph_is_returned_as_it_is() -> None:
    graph = Graph.of(WEIGHTS)
    assert Graph.of(graph) is graph


def test_the_source_is_left_as_it_was_and_not_shared() -> None:
    source = sp.csr_array((np.array([1.0, 0.0, 2.0]), np.array([2, 1, 0]), np.array([0, 2, 3, 3])), shape=(3, 3))
    data, indices = source.data.copy(), source.indices.copy()
    graph = Graph.of(source)
    assert np.array_equal(source.data, data)
    assert np.array_equal(source.indices, indices)
    source.data[:] = 99
    assert same(graph, np.array([[0.0, 0.0, 1.0], [2.0, 0.0, 0.0], [0.0, 0.0, 0.0]]))


@pytest.mark.parametrize("names", [[0, 1, 2, 3, 4], ["a", "b", "c", "d", "e"], [(0, 0), (0, 1), "x", 3.5, frozenset()]])
def test_networkx_directed_graphs_are_their_adjacency_matrix(names: list[Any]) -> None:
    networkx = pytest.importorskip("networkx")
    source = networkx.DiGraph()
    source.add_nodes_from(names)
    for i, j in zip(TARGETS, SOURCES, strict=True):
        source.add_edge(names[i], names[j], weight=WEIGHTS[i, j])
    assert same(Graph.of(source), WEIGHTS)
    assert np.array_equal(networkx.to_numpy_array(source), WEIGHTS)


def test_networkx_undirected_graphs_are_symmetric_and_loops_count_once() -> None:
    networkx = pytest.importorskip("networkx")
    source = networkx.Graph()
    source.add_nodes_from("zyx")  # not in alphabetical order: the graph's own order counts
    source.add_edge("z", "y", weight=2.0)
    source.add_edge("y", "y", weight=3.0)
    source.add_edge("y", "x")
    expected = np.array([[0.0, 2.0, 0.0], [2.0, 3.0, 1.0], [0.0, 1.0, 0.0]])
    assert same(Graph.of(source), expected)
    assert np.array_equal(networkx.to_numpy_array(source), expected)


def test_networkx_parallel_edges_add_up() -> None:
    networkx = pytest.importorskip("networkx")
    source = networkx.MultiGraph([(0, 1, {"weight": 2.0}), (0, 1, {"weight": 3.0})])
    assert same(Graph.of(source), np.array([[0.0, 5.0], [5.0, 0.0]]))


@pytest.mark.parametrize("field", ["edge_weight", "edge_attr", "edge_attr column", "none", "several features"])
def test_pytorch_geometric_data(field: str) -> None:
    data_class = pytorch_geometric_data()
    data = data_class(edge_index=torch.tensor(EDGES), num_nodes=5)
    expected = WEIGHTS
    if field == "edge_weight":
        data.edge_weight = torch.tensor(VALUES)
        data.edge_attr = torch.ones(len(VALUES), 3)
    elif field == "edge_attr":
        data.edge_attr = torch.tensor(VALUES)
    elif field == "edge_attr column":
        data.edge_attr = torch.tensor(VALUES)[:, None]
    else:
        expected = (WEIGHTS > 0).astype(float)
        if field == "several features":
            data.edge_attr = torch.ones(len(VALUES), 3)
    assert same(Graph.of(data), expected)


@pytest.mark.parametrize(("attributes", "weight"), [([[2.5]], 2.5), ([[2.5, 1.0]], 1.0)])
def test_pytorch_geometric_data_with_one_edge(attributes: list[list[float]], weight: float) -> None:
    data = pytorch_geometric_data()(
        edge_index=torch.tensor([[0], [1]]), num_nodes=2, edge_attr=torch.tensor(attributes)
    )
    assert same(Graph.of(data), np.array([[0.0, 0.0], [weight, 0.0]]))


def pytorch_geometric_data() -> Any:
    return pytest.importorskip("torch_geometric.data").Data


BAD: dict[str, tuple[Any, str]] = {
    "strings": (np.array([["a", "b"], ["c", "d"]]), r"cannot read a graph from ndarray .* type <U1"),
    "objects": (np.array([[None, 1], [1, None]]), "type object"),
    "ragged lists": ([[1, 2], [3]], "cannot read a graph from list"),
    "nothing": (None, "cannot read a graph from NoneType"),
    "a number": (3.0, "cannot read a graph from float"),
    "a vector": (np.ones(4), r"shape \(4,\)"),
    "a cube": (np.ones((2, 2, 2)), r"shape \(2, 2, 2\)"),
    "a sparse vector": (sp.coo_array(np.ones(3)), r"square matrix.*shape \(3,\)"),
    "a sparse cube": (torch.ones(2, 2, 2).to_sparse_coo(), r"square matrix.*shape \(2, 2, 2\)"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_describes_no_graph_is_named(case: str) -> None:
    source, message = BAD[case]
    with pytest.raises(InvalidInputError, match=message) as error:
        to_csr(source)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("weight", [[1.0], [1.0] * 8, [[1.0, 2.0]] * 7, 1.0])
def test_the_wrong_number_of_edge_weights(weight: Any) -> None:
    with pytest.raises(InvalidInputError, match=f"there are {len(VALUES)} edges but the edge weights have the shape"):
        Graph.of(EDGES, weight, n_nodes=5)


def test_edge_weights_that_are_no_numbers() -> None:
    with pytest.raises(InvalidInputError, match="weights must be real numbers, not <U1"):
        Graph.of([[0, 1], [1, 0]], ["a", "b"])
    networkx = pytest.importorskip("networkx")
    with pytest.raises(InvalidInputError, match="weights must be real numbers: could not convert"):
        Graph.of(networkx.Graph([(0, 1, {"weight": "heavy"})]))


@pytest.mark.parametrize(
    ("entries", "message"), [([[0, -1], [1, 0]], "from -1 to 1"), ([[0, 5], [1, 0]], "from 0 to 5")]
)
def test_an_edge_that_leaves_the_graph(entries: list[list[int]], message: str) -> None:
    with pytest.raises(InvalidInputError, match=f"edge_index has entries {message}, but there are 3 nodes"):
        Graph.of(entries, n_nodes=3)


@pytest.mark.parametrize("entries", [np.zeros((2, 3)), np.zeros((3, 2), dtype=int)])
def test_edges_must_be_two_rows_of_integers(entries: np.ndarray) -> None:
    with pytest.raises(InvalidInputError, match=r"edge_index must hold integers in the shape \(2, edges\)"):
        Graph.of(entries, np.ones(3))


@pytest.mark.parametrize("source", [Graph.of(WEIGHTS), sp.csr_array(WEIGHTS), torch.tensor(WEIGHTS).to_sparse_coo()])
def test_edge_weights_without_edges_are_refused_rather_than_ignored(source: Any) -> None:
    with pytest.raises(InvalidInputError, match="edge_weight goes with an integer edge_index"):
        Graph.of(source, VALUES)
