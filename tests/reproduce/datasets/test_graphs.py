from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from condiff.errors import InvalidFileError, InvalidInputError
from condiff.readers.graph_folder import save_graph_folder
from condiff.readers.node import NodeDataset
from condiff.readers.npz_graph import save_npz_graph
from condiff.reproduce.datasets.graphs import load_graph


@pytest.fixture
def pair() -> NodeDataset:
    return NodeDataset("pair", sp.csr_array([[0.0, 2.0], [2.0, 0.0]]), sp.csr_array(np.eye(2)), np.array([0, -1]))


def test_a_file_and_a_folder_give_the_same_graph(pair: NodeDataset, tmp_path: Path) -> None:
    save_npz_graph(pair, tmp_path / "pair.npz")
    save_graph_folder(pair, tmp_path / "pair")
    for source in (tmp_path / "pair.npz", tmp_path / "pair"):
        loaded = load_graph(str(source))
        assert loaded.name == "pair"
        np.testing.assert_array_equal(loaded.adjacency.toarray(), pair.adjacency.toarray())
        np.testing.assert_array_equal(loaded.features.toarray(), pair.features.toarray())
        np.testing.assert_array_equal(loaded.labels, pair.labels)


def test_a_citation_graph_by_its_name(data_root: Path) -> None:
    assert load_graph("cora").n_nodes == 2708


def test_a_name_that_is_nearly_one(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"'corra' is no graph \(did you mean 'cora'\?\): give cora, citeseer"):
        load_graph("corra")
    with pytest.raises(InvalidInputError, match=r"a folder with nodes.csv and edges.csv"):
        load_graph(str(tmp_path / "graph"))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidFileError, match=r"nowhere.npz: no such file"):
        load_graph(str(tmp_path / "nowhere.npz"))
