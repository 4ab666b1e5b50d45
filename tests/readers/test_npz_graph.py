from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from condiff.errors import InvalidFileError
from condiff.readers.node import NodeDataset, undirected
from condiff.readers.npz_graph import load_npz_graph, save_npz_graph

# A path of three nodes: 0 - 1 - 2, with one weight of 2.
GOOD: dict[str, Any] = {
    "adj_data": np.array([1.0, 1.0, 2.0, 2.0]),
    "adj_indices": np.array([1, 0, 2, 1]),
    "adj_indptr": np.array([0, 1, 3, 4]),
    "adj_shape": np.array([3, 3]),
    "attr_matrix": np.array([[1.0, 0.0], [0.0, 0.5], [0.0, 0.0]], dtype=np.float32),
    "labels": np.array([0, 1, -1]),
}
PATH = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 2.0], [0.0, 2.0, 0.0]])


def written(folder: Path, **changes: Any) -> Path:
    """GOOD with some keys changed, or left out where the change is None."""
    path = folder / "graph.npz"
    np.savez(path, **{key: value for key, value in (GOOD | changes).items() if value is not None})
    return path


def test_a_dense_attribute_matrix_is_read(tmp_path: Path) -> None:
    graph = load_npz_graph(written(tmp_path))
    assert graph.name == "graph"
    np.testing.assert_array_equal(graph.adjacency.toarray(), PATH)
    np.testing.assert_array_equal(graph.features.toarray(), GOOD["attr_matrix"])
    np.testing.assert_array_equal(graph.labels, [0, 1, -1])
    np.testing.assert_array_equal(graph.labelled, [0, 1])


def test_directed_edges_and_loops_become_an_undirected_graph(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        adj_data=np.array([9, 1, 2], dtype=np.uint8),
        adj_indices=np.array([0, 1, 2], dtype=np.int32),
        adj_indptr=np.array([0, 2, 3, 3], dtype=np.int32),
    )
    np.testing.assert_array_equal(load_npz_graph(str(path)).adjacency.toarray(), PATH)


def test_graphs_without_labels_or_attributes(tmp_path: Path) -> None:
    path = written(tmp_path, labels=None, attr_matrix=None)
    graph = load_npz_graph(path, needs_features=False)
    assert graph.n_features == graph.n_classes == graph.labelled.size == 0
    assert graph.n_nodes == 3
    with pytest.raises(InvalidFileError, match=r"attr_data \(or a dense attr_matrix\) is missing"):
        load_npz_graph(path)


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("adj_data", None, "is missing; the file has .adj_indices"),
        ("adj_indices", None, "is missing"),
        ("adj_indptr", None, "is missing"),
        ("adj_shape", None, "is missing"),
        ("adj_data", np.array([1.0, np.nan, 2.0, 2.0]), "has NaN or infinite"),
        ("adj_data", np.array([1.0, np.inf, 2.0, 2.0]), "has NaN or infinite"),
        ("adj_data", np.array([1.0, -1.0, 2.0, 2.0]), "has negative weights"),
        ("adj_data", np.array([1.0, 1.0]), "does not fit adj_indices"),
        ("adj_data", np.array(["a", "b", "c", "d"]), "must hold numbers"),
        ("adj_data", np.array([1, "b", None, 2], dtype=object), "holds pickled"),
        ("adj_indices", np.array([1, 0, 3, 1]), r"must be in 0 \.\. 2, but reach from 0 to 3"),
        ("adj_indices", np.array([1, 0, -1, 1]), r"must be in 0 \.\. 2"),
        ("adj_indices", np.array([1.0, 0.0, 2.0, 1.0]), "must hold whole numbers"),
        ("adj_indptr", np.array([0, 1, 4]), "must hold 4 ascending offsets"),
        ("adj_indptr", np.array([0, 3, 1, 4]), "must hold 4 ascending offsets"),
        ("adj_indptr", np.array([1, 1, 3, 4]), "must hold 4 ascending offsets"),
        ("adj_shape", np.array([3, 4]), "but an adjacency is square"),
        ("adj_shape", np.array([3]), "must be two sizes"),
        ("adj_shape", np.array([-3, 3]), "must be two sizes"),
        ("attr_matrix", np.ones((2, 2)), "has 2 rows for 3 nodes"),
        ("attr_matrix", np.ones(3), "must hold numbers in 2 dimension"),
        ("attr_matrix", np.full((3, 1), np.nan), "has NaN"),
        ("labels", np.array([0, 1]), "has 2 entries for 3 nodes"),
        ("labels", np.array([0.5, 1.0, 2.0]), "must hold one class of each node"),
        ("labels", np.eye(3, dtype=int), "must hold one class of each node"),
        ("labels", np.array([0, 1, -2]), "has entries below -1"),
    ],
)
def test_every_fault_names_the_file_and_the_key(tmp_path: Path, key: str, value: Any, problem: str) -> None:
    with pytest.raises(InvalidFileError, match=rf"graph\.npz: {key} .*{problem}|graph\.npz: {key} {problem}") as caught:
        load_npz_graph(written(tmp_path, **{key: value}))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("cut", [0, 1, 100, -1])
def test_files_that_are_cut_or_foreign_are_refused(tmp_path: Path, cut: int) -> None:
    path = written(tmp_path)
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(InvalidFileError, match=r"graph\.npz is not an \.npz file"):
        load_npz_graph(path)


def test_flipped_bytes_inside_the_archive_are_noticed(tmp_path: Path) -> None:
    path = written(tmp_path)
    content = bytearray(path.read_bytes())
    content[content.index(b"adj_indices") - 40] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(InvalidFileError, match="adj_data is not a readable array"):
        load_npz_graph(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidFileError, match=r"none\.npz: no such file"):
        load_npz_graph(tmp_path / "none.npz")


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), nodes=st.integers(1, 12), features=st.integers(0, 5), labelled=st.booleans())
def test_what_is_saved_is_loaded(
    tmp_path_factory: pytest.TempPathFactory, seed: int, nodes: int, features: int, labelled: bool
) -> None:
    random = np.random.default_rng(seed)
    dense = random.random((nodes, nodes)) * (random.random((nodes, nodes)) < 0.4)
    labels = random.integers(0, 3, nodes) if labelled else np.full(nodes, -1)
    words = sp.csr_array((random.random((nodes, features)) < 0.3).astype(float))
    graph = NodeDataset("round", undirected(sp.csr_array(dense)), words, labels)
    path = tmp_path_factory.mktemp("graphs") / "round.npz"
    save_npz_graph(graph, path)
    again = load_npz_graph(path)
    assert again.name == "round"
    np.testing.assert_array_equal(again.adjacency.toarray(), graph.adjacency.toarray())
    np.testing.assert_array_equal(again.features.toarray(), graph.features.toarray())
    np.testing.assert_array_equal(again.labels, labels)
    assert [entry.name for entry in path.parent.iterdir()] == ["round.npz"]
