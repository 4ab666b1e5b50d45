from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from condiff.errors import InvalidFileError
from condiff.readers.graph_folder import load_graph_folder, save_graph_folder
from condiff.readers.node import NodeDataset, largest_component, undirected

NODES = "id,label,height,weight\nanna,red,1.5,0\nbob,,0,2\n007,blue,-3,1e2\n"
EDGES = "source,target,weight\nanna,bob,0.5\n007,bob,2\n"


def written(folder: Path, nodes: str | None = NODES, edges: str | None = EDGES) -> Path:
    graph = folder / "friends"
    graph.mkdir(exist_ok=True)
    for name, text in (("nodes.csv", nodes), ("edges.csv", edges)):
        if text is not None:
            (graph / name).write_text(text, encoding="utf-8")
    return graph


def test_a_folder_is_read(tmp_path: Path) -> None:
    graph = load_graph_folder(written(tmp_path))
    assert graph.name == "friends"
    np.testing.assert_array_equal(graph.adjacency.toarray(), [[0, 0.5, 0], [0.5, 0, 2], [0, 2, 0]])
    np.testing.assert_array_equal(graph.features.toarray(), [[1.5, 0], [0, 2], [-3, 100]])
    assert graph.features.nnz == 4
    np.testing.assert_array_equal(graph.labels, [1, -1, 0])
    assert graph.class_names == ("blue", "red")


def test_edges_without_weights_in_both_directions_repeated_and_to_themselves(tmp_path: Path) -> None:
    edges = "target,source\nanna,bob\nbob,anna\nanna,bob\n007,007\n"
    graph = load_graph_folder(written(tmp_path, edges=edges))
    np.testing.assert_array_equal(graph.adjacency.toarray(), [[0, 1, 0], [1, 0, 0], [0, 0, 0]])


def test_the_largest_weight_of_an_edge_counts(tmp_path: Path) -> None:
    edges = "source,target,weight\nanna,bob,1\nbob,anna,3\nanna,bob,2\n007,anna,0\n"
    graph = load_graph_folder(written(tmp_path, edges=edges))
    np.testing.assert_array_equal(graph.adjacency.toarray(), [[0, 3, 0], [3, 0, 0], [0, 0, 0]])
    assert graph.n_edges == 1


def test_other_delimiters_quotes_marks_and_blank_lines(tmp_path: Path) -> None:
    nodes = '\ufeffx;id;label\r\n1; "a;b" ;"two\nlines"\r\n\r\n2;c; NA \r\n'
    graph = load_graph_folder(written(tmp_path, nodes=nodes, edges='source\ttarget\n"a;b"\tc\n'))
    assert graph.class_names == ("two\nlines",)
    np.testing.assert_array_equal(graph.labels, [0, -1])
    np.testing.assert_array_equal(graph.features.toarray(), [[1], [2]])
    assert graph.n_edges == 1


def test_classes_that_are_numbers_are_sorted_as_numbers(tmp_path: Path) -> None:
    nodes = "id,label,x\na,10,0\nb,9,0\nc,-1,0\nNA,9,0\n"  # in a table of text, -1 is a class like any other
    graph = load_graph_folder(written(tmp_path, nodes=nodes, edges="source,target\na,NA\n"))
    assert graph.class_names == ("-1", "9", "10")
    np.testing.assert_array_equal(graph.labels, [2, 1, 0, 1])


def test_class_names_survive_a_subgraph(tmp_path: Path) -> None:
    edges = "source,target\nanna,bob\n"
    part = largest_component(load_graph_folder(written(tmp_path, edges=edges)))
    assert part.n_nodes == 2
    assert part.class_names[part.labels[0]] == "red"


def test_features_can_be_left_out_where_they_are_not_needed(tmp_path: Path) -> None:
    graph = written(tmp_path, nodes="id,label\nanna,red\nbob,\n007,blue\n")
    assert load_graph_folder(graph, needs_features=False).features.shape == (3, 0)
    with pytest.raises(InvalidFileError, match=r"nodes.csv has no feature: add a column of numbers for each"):
        load_graph_folder(graph)


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        (None, r"friends has no nodes.csv: a graph's folder holds nodes.csv and edges.csv"),
        ("", r"nodes.csv is empty \(only white space\)"),
        ("id,label,x\n", r"nodes.csv has column names but no rows: add at least one row"),
        ("1,2,3\n4,5,6\n", r"nodes.csv: the first line looks like data"),
        ("ids,label,x\na,b,1\n", r"no column 'id' \(did you mean 'ids'\?\): its first line names 'ids', 'label', 'x'"),
        ("id,class,x\na,b,1\n", r"nodes.csv has no column 'label': its first line names"),
        ("id,label,x,x\na,b,1,2\n", r"nodes.csv has more than one column named 'x'"),
        ("id,label,x,\na,b,1,\n", r"nodes.csv: column 4 has no name: name it in the first line, or drop it"),
        (",id,label,x\n0,a,b,1\n", r"nodes.csv: the column 'index' .* to_csv\(..., index=False\)"),
        ("id,label,x\na,b,1\n\n,b,2\n", r"nodes.csv, line 4: the id is empty: give every node one"),
        ("id,label,x\na,b,1\nc,b,1\na,b,2\n", r"nodes.csv, line 4: the id 'a' is that of line 2 as well"),
        ("id,label,x,y\na,b,1,1\nc,b,,1\n", r"nodes.csv, line 3, column 'x' is empty: features are numbers"),
        (
            "id,label,x,y\na,b,1,tall\n",
            r"nodes.csv, line 2, column 'y' is 'tall', which is not .* 0 and 1",
        ),
        ("id,label,x\na,b,inf\n", r"nodes.csv, line 2, column 'x' is 'inf', which is not a finite number"),
        ("id,label,x\na,b,NaN\n", r"nodes.csv, line 2, column 'x' is 'NaN', which is not a finite number"),
        ("id,label,x\na,b\n", r"nodes.csv, line 2: 2 cells where the header has 3"),
    ],
)
def test_bad_nodes_are_named(tmp_path: Path, nodes: str | None, message: str) -> None:
    with pytest.raises(InvalidFileError, match=message) as caught:
        load_graph_folder(written(tmp_path, nodes=nodes))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        (None, r"friends has no edges.csv: a graph's folder holds nodes.csv and edges.csv"),
        (" \n", r"edges.csv is empty \(only white space\)"),
        ("source,target\n", r"edges.csv has column names but no rows: add at least one row"),
        ("from,to\nanna,bob\n", r"edges.csv has no column 'source': its first line names 'from', 'to'; add or rename"),
        ("anna,bob\nbob,007\n", r"edges.csv has no column 'source'"),
        ("source,target,weights\nanna,bob,1\n", r"column 'weights' \(did you mean 'weight'\?\), which nothing reads"),
        (
            "source,target\nanna,bob\nbob,cleo\n",
            r"edges.csv, line 3: there is no node 'cleo' in nodes.csv: add it",
        ),
        ("source,target\nanna,7\n", r"edges.csv, line 2: there is no node '7' in nodes.csv"),
        ("source,target\nanna,\n", r"edges.csv, line 2: there is no node '' in nodes.csv"),
        ("source,target,weight\nanna,bob,-1\n", r"edges.csv, line 2: the weight is '-1': give a finite number"),
        ("source,target,weight\nanna,bob,nan\n", r"edges.csv, line 2: the weight is 'nan'"),
        ("source,target,weight\nanna,bob,\n", r"edges.csv, line 2: the weight is '': give a finite number"),
        ("source,target,weight\nanna,bob,much\n", r"edges.csv, line 2: the weight is 'much'"),
    ],
)
def test_bad_edges_are_named(tmp_path: Path, edges: str | None, message: str) -> None:
    with pytest.raises(InvalidFileError, match=message) as caught:
        load_graph_folder(written(tmp_path, edges=edges))
    assert "\n" not in str(caught.value)


@st.composite
def datasets(draw: st.DrawFn) -> NodeDataset:
    n, p, classes = draw(st.integers(2, 8)), draw(st.integers(1, 4)), draw(st.integers(1, 12))
    number = st.floats(-1e6, 1e6, allow_subnormal=False) | st.integers(0, 1).map(float)
    features = np.array(draw(st.lists(number, min_size=n * p, max_size=n * p))).reshape(n, p)
    weights = np.zeros((n, n))
    upper = np.triu_indices(n, 1)
    positive = st.just(1.0) | st.floats(1e-6, 1e6)
    weights[upper] = draw(st.lists(st.just(0.0) | positive, min_size=len(upper[0]), max_size=len(upper[0])))
    weights[0, 1] = draw(positive)
    labels = np.array(draw(st.lists(st.integers(-1, classes - 1), min_size=n, max_size=n)))
    labels = np.unique(np.append(labels, -1), return_inverse=True)[1][:-1] - 1  # every class has a node
    text = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1)
    named = st.sets(text.map(lambda name: "class " + name), min_size=12, max_size=12).map(sorted)
    names = tuple(draw(named)[: int(labels.max()) + 1]) if draw(st.booleans()) else ()
    return NodeDataset("saved", undirected(sp.csr_array(weights)), sp.csr_array(features), labels, names)


@settings(deadline=None, max_examples=60)
@given(dataset=datasets())
def test_what_is_saved_is_loaded_again(tmp_path_factory: pytest.TempPathFactory, dataset: NodeDataset) -> None:
    folder = tmp_path_factory.mktemp("graphs") / "saved"
    save_graph_folder(dataset, folder)
    loaded = load_graph_folder(folder)
    np.testing.assert_array_equal(loaded.adjacency.toarray(), dataset.adjacency.toarray())
    np.testing.assert_array_equal(loaded.features.toarray(), dataset.features.toarray())
    np.testing.assert_array_equal(loaded.labels, dataset.labels)
    assert loaded.class_names == (dataset.class_names or tuple(map(str, range(dataset.n_classes))))
    assert loaded.name == dataset.name


def test_saving_leaves_other_files_alone(tmp_path: Path) -> None:
    folder = written(tmp_path)
    (folder / "notes.txt").write_text("mine")
    dataset = load_graph_folder(folder)
    save_graph_folder(dataset, folder)
    assert sorted(path.name for path in folder.iterdir()) == ["edges.csv", "nodes.csv", "notes.txt"]
    assert (folder / "nodes.csv").read_text().splitlines()[:2] == ["id,label,feature_0,feature_1", "0,red,1.5,0"]
