"""Graphs of every kind that people have, read by what a file holds."""

from __future__ import annotations

import io
import json
import pickle
import zipfile
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
import torch
from safetensors.numpy import save_file

import condiff
from condiff.errors import InvalidFileError, InvalidInputError
from condiff.readers.graph_file import holds_graph, read_graph, read_links

# A path of three nodes: 0 - 1 - 2, with one weight of 2.
PATH = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 2.0], [0.0, 2.0, 0.0]])
FEATURES = np.array([[1.0, 0.0], [0.0, 0.5], [0.0, 0.0]])
LABELS = np.array([0, 1, -1])
EDGES = np.array([[0, 1], [2, 1]])


def parts(prefix: str, matrix: np.ndarray) -> dict[str, Any]:
    csr = sp.csr_array(matrix)
    return {f"{prefix}{part}": np.asarray(getattr(csr, part)) for part in ("data", "indices", "indptr", "shape")}


LAYOUTS: dict[str, dict[str, Any]] = {
    "csr": parts("adj_", PATH) | parts("attr_", FEATURES) | {"labels": LABELS},
    "dotted": parts("adj_matrix.", PATH) | parts("node_attr.", FEATURES) | {"node_label": LABELS},
    "dense": {"adj_matrix": PATH, "node_attr": FEATURES, "node_label": LABELS},
    "edges": {"edges": EDGES, "edge_weight": np.array([1.0, 2.0]), "node_features": FEATURES, "node_labels": LABELS},
    "edge_index": {"edge_index": EDGES.T, "edge_weight": np.array([1.0, 2.0]), "x": FEATURES, "y": LABELS},
}


def check(graph: Any) -> None:
    np.testing.assert_array_equal(graph.adjacency.toarray(), PATH)
    np.testing.assert_array_equal(graph.features.toarray(), FEATURES)
    np.testing.assert_array_equal(graph.labels, LABELS)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_of_npz_files(tmp_path: Path, layout: str) -> None:
    np.savez(tmp_path / "graph.npz", **LAYOUTS[layout])
    check(read_graph(tmp_path / "graph.npz", needs_features=True))
    check(condiff.read_graph(str(tmp_path / "graph.npz")))


def test_tensors(tmp_path: Path) -> None:
    arrays = LAYOUTS["edge_index"]
    save_file({key: np.ascontiguousarray(value) for key, value in arrays.items()}, tmp_path / "graph.safetensors")
    check(read_graph(tmp_path / "graph.safetensors"))
    torch.save(
        {key: torch.as_tensor(np.ascontiguousarray(value)) for key, value in arrays.items()}, tmp_path / "graph.pt"
    )
    check(read_graph(tmp_path / "graph.pt"))


@pytest.mark.parametrize("form", ["object", "data set"])
def test_a_data_of_pytorch_geometric_is_read_without_its_code(form: str, tmp_path: Path) -> None:
    data = pytest.importorskip("torch_geometric.data")
    ring = torch.tensor([[node, (node + 1) % 6] for node in range(6)]).T
    saved = data.Data(x=torch.eye(6), edge_index=ring, y=torch.tensor([0, 0, 0, 1, 1, 1]))
    torch.save(saved if form == "object" else (saved.to_dict(), None, data.Data), tmp_path / "graph.pt")
    graph = read_graph(tmp_path / "graph.pt", needs_features=True)
    assert (graph.n_nodes, graph.n_edges, graph.n_features, graph.n_classes) == (6, 6, 6, 2)


class Hostile:
    def __reduce__(self) -> Any:
        return (Path.touch, (Path("opened"),))


def test_pickles_are_never_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"x": Hostile()}, "graph.pt")
    with pytest.raises(InvalidFileError, match=r"never loaded: save plain tensors, torch\.save\(data\.to_dict"):
        read_graph("graph.pt")
    np.savez("graph.npz", adj_matrix=np.array(Hostile(), dtype=object))
    with pytest.raises(InvalidFileError, match="pickled Python objects"):
        read_graph("graph.npz")
    assert not Path("opened").exists()


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("form", [sp.coo_array, np.asarray])
@pytest.mark.parametrize("field", ["real", "integer", "pattern"])
def test_matrix_market(tmp_path: Path, symmetric: bool, form: Any, field: str) -> None:
    if field == "pattern" and form is np.asarray:
        pytest.skip("a full matrix has entries")
    matrix = form(PATH if symmetric else np.triu(PATH))
    scipy.io.mmwrite(tmp_path / "graph.mtx", matrix, field=field, symmetry="symmetric" if symmetric else "general")
    graph = read_graph(tmp_path / "graph.mtx")
    np.testing.assert_array_equal(graph.adjacency.toarray(), PATH > 0 if field == "pattern" else PATH)
    assert graph.n_features == graph.n_classes == 0
    with pytest.raises(InvalidFileError, match="without features"):
        read_graph(tmp_path / "graph.mtx", needs_features=True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("%%MatrixMarket matrix coordinate real general\n% c\n3 3 1\n1 4 1\n", "entries outside of 3 x 3, or not 1"),
        ("%%MatrixMarket matrix coordinate real general\n3 3 2\n1 2 1\n", "or not 2"),
        ("%%MatrixMarket matrix coordinate real general\n3 3 1\n1 two 1\n", "readable Matrix Market file"),
        ("%%MatrixMarket matrix coordinate real general\n3 2 0\n", "is 3 x 2, but an adjacency is square"),
        ("%%MatrixMarket matrix coordinate complex general\n3 3 0\n", "coordinate complex general"),
        ("%%MatrixMarket matrix array real general\n2 2\n1 2 3\n", "readable Matrix Market file"),
        ("%%MatrixMarket matrix coordinate real general\n% only this\n", "readable Matrix Market file"),
        ("%%MatrixMarket matrix coordinate real general\n9999999999999 9999999999999 0\n", "graph.mtx"),
        ("%%MatrixMarket\n", "readable Matrix Market file"),
    ],
)
def test_a_damaged_matrix_market_file_is_one_clear_error(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "graph.mtx").write_text(text)
    with pytest.raises(InvalidFileError, match=message):
        read_graph(tmp_path / "graph.mtx")


def test_graphml_has_names_features_and_classes(tmp_path: Path) -> None:
    graph = nx.Graph([("a", "b", {"weight": 1.0}), ("b", "c", {"weight": 2.0})])
    for node, kind, values in zip("abc", ("red", "blue", ""), FEATURES.tolist(), strict=True):
        graph.nodes[node].update({"class": kind, "first": values[0], "second": values[1], "remark": "text"})
    nx.write_graphml(graph, tmp_path / "graph.graphml")
    found = read_graph(tmp_path / "graph.graphml")
    np.testing.assert_array_equal(found.adjacency.toarray(), PATH)
    np.testing.assert_array_equal(found.features.toarray(), FEATURES)
    assert found.node_names == ("a", "b", "c")
    assert [found.class_names[code] if code >= 0 else "" for code in found.labels] == ["red", "blue", ""]


@pytest.mark.parametrize("form", [sp.csr_matrix, sp.csc_array, sp.coo_matrix])
def test_a_matrix_that_scipy_saved(tmp_path: Path, form: Any) -> None:
    sp.save_npz(tmp_path / "graph.npz", form(np.triu(PATH)))
    np.testing.assert_array_equal(read_graph(tmp_path / "graph.npz").adjacency.toarray(), PATH)
    sp.save_npz(tmp_path / "flat.npz", form(PATH[:2]))
    with pytest.raises(InvalidFileError, match=r"an adjacency is square|3 ascending offsets"):
        read_graph(tmp_path / "flat.npz")


def test_gml_names_nodes_by_their_labels(tmp_path: Path) -> None:
    text = (
        'Creator "someone"\ngraph [\n'
        '  node [ id 7 label "a" value "red" height 1.5 ]\n  node [ id 8 label "b" value "blue" height 2 ]\n'
        '  node [ id 9 label "c" ]\n  edge [ source 7 target 8 ]\n  edge [ source 8 target 9 weight 2 ]\n]\n'
    )
    (tmp_path / "graph").write_text(text)
    found = read_graph(tmp_path / "graph")
    np.testing.assert_array_equal(found.adjacency.toarray(), PATH)
    np.testing.assert_array_equal(found.features.toarray().ravel(), [1.5, 2, 0])
    assert (found.node_names, found.class_names) == (("a", "b", "c"), ("blue", "red"))
    assert found.labels.tolist() == [1, 0, -1]


@pytest.mark.parametrize("links", ["links", "edges"])
def test_json_of_nodes_and_links(tmp_path: Path, links: str) -> None:
    graph = nx.Graph([("a", "b", {"weight": 1.0}), ("b", "c", {"weight": 2.0})])
    for node, kind, values in zip("abc", ("red", "blue", None), FEATURES.tolist(), strict=True):
        graph.nodes[node].update({"class": kind, "vector": values})
    (tmp_path / "graph").write_text(json.dumps(nx.node_link_data(graph, edges=links)))
    found = read_graph(tmp_path / "graph", needs_features=True)
    np.testing.assert_array_equal(found.adjacency.toarray(), PATH)
    np.testing.assert_array_equal(found.features.toarray(), FEATURES)
    assert found.node_names == ("a", "b", "c")
    assert found.labels.tolist() == [1, 0, -1]


def test_json_of_neighbours(tmp_path: Path) -> None:
    content = {"features": FEATURES.tolist(), "labels": LABELS.tolist(), "links": [[1], [0, 2], [1]]}
    (tmp_path / "data.json").write_text(json.dumps(content))
    found = read_graph(tmp_path / "data.json", needs_features=True)
    np.testing.assert_array_equal(found.adjacency.toarray(), PATH > 0)
    np.testing.assert_array_equal(found.features.toarray(), FEATURES)
    np.testing.assert_array_equal(found.labels, LABELS)


def test_which_files_are_graphs_and_nothing_else(tmp_path: Path) -> None:
    np.savez(tmp_path / "graph.npz", **LAYOUTS["edges"])
    np.savez(tmp_path / "rows.npz", X=FEATURES, edges=LABELS)
    np.savez(tmp_path / "rows and edges.npz", X=FEATURES, edges=EDGES, y=LABELS)
    np.savez(tmp_path / "rows and matrix.npz", X=FEATURES, adj=PATH, y=LABELS)
    nx.write_graphml(nx.path_graph(3), tmp_path / "graph.graphml")
    (tmp_path / "graph.json").write_text('{"nodes": [], "links": []}')
    (tmp_path / "columns.json").write_text('{"height": [1, 2], "kind": ["a", "b"]}')
    (tmp_path / "edges.csv").write_text("source,target\na,b\n")
    files = sorted(path.name for path in tmp_path.iterdir() if holds_graph(path))
    assert files == ["graph.graphml", "graph.json", "graph.npz", "rows and edges.npz", "rows and matrix.npz"]


@pytest.mark.parametrize(
    "text",
    [
        "a b 1\nb c 2\n",
        "a b {}\nb c {'weight': 2.0, 'kind': 'x y'}\n",
        "# a comment\na,b,1\nb,c,2\nc,b,1.5\n",
        "source;target;weight\na;b;1\nb;c;2\n",
        "from\tto\na\tb\t1\nb\tc\t2\n",
    ],
)
def test_lists_of_edges(tmp_path: Path, text: str) -> None:
    (tmp_path / "graph.txt").write_text(text)
    found = read_graph(tmp_path / "graph.txt")
    np.testing.assert_array_equal(found.adjacency.toarray(), PATH)
    assert found.node_names == ("a", "b", "c")


def test_numbers_of_nodes_are_sorted_as_numbers(tmp_path: Path) -> None:
    (tmp_path / "graph.txt").write_text("10 9\n9 2\n")
    assert read_graph(tmp_path / "graph.txt").node_names == ("2", "9", "10")


def several_disks() -> bytes:
    return b"PK\x06\x07" + bytes(12) + b"\x02\0\0\0" + b"PK\x05\x06" + b"\xff" * 16 + b"\0\0"


def damaged_zip() -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("x/data.pkl", b"no pickle")
    return stream.getvalue()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a b c d\n", "line 1 is no list of edges"),
        (b"a b -1\n", "not negative"),
        (b"a b x\n", "the weight is 'x'"),
        (b"a b {x}}\n", "the weight is '{x}}'"),
        (b"a b {[1]}\n", "the weight is '{.1.}'"),
        (b"graph [ node [ id 1 ", "not a readable GML file"),
        (b'{"nodes": [{"id": 1}, {"id": 1}], "links": []}', "two nodes of one id"),
        (b'{"nodes": 3}', "not a readable graph"),
        (b'{"links": [[1], [5]], "labels": [0, 1]}', "must be in 0 .. 1, but reach from 0 to 5"),
        (b"", "is no list of edges"),
        (b"\x00\x01binary", "is no graph that can be read"),
        (b"\x1f\x8b\x08packed", "is packed: unpack it first"),
        (pickle.dumps({"edges": [[0, 1]]}), "holds pickled Python objects, which are never loaded"),
        (b"<?xml version='1.0'?><gexf><graph/></gexf>", "is a GEXF file, which is not read: export it as GraphML"),
        (b'{"nodes": [{"id": 1}], "links": [{"source": 1, "target": 2}]}', "there is no node '2', which a link names"),
        (b'{"nodes": []}', "it has no links"),
        (b"a,,1\nb,c,2\n", "line 2|line 1"),
        (b"%%MatrixMarket matrix coordinate real general\n2 3 1\n1 1 1\n", "an adjacency is square"),
        (b"%%MatrixMarket matrix array real general\n99999999 99999999\n1\n", "as no ordinary content does"),
        (b"%%MatrixMarket matrix coordinate real general\n2 2 1\n9 9 1\n", "entries outside of 2 x 2"),
        (b"%%MatrixMarket matrix coordinate real general\n2 2 1\n1 2 -1\n", "negative, infinite"),
        (b"<?xml version='1.0'?><!DOCTYPE x [<!ENTITY a 'b'>]><graphml/>", "entities of its own"),
        (b"<?xml version='1.0'?><graphml><node></graphml>", "not a readable GraphML"),
        (b"\x08\0\0\0\0\0\0\0{damaged", "not a readable file of tensors"),
        (damaged_zip(), "holds Python objects"),
        (several_disks(), "not a readable archive"),
    ],
)
def test_other_files_are_refused_in_one_line(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "graph").write_bytes(content)
    with pytest.raises(InvalidFileError, match=message) as caught:
        read_graph(tmp_path / "graph")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        ({"edges": np.zeros((3, 3), int)}, "an edge has two ends"),
        ({"edges": EDGES, "labels": np.array([0, 1])}, "must be in 0 .. 1, but reach from 0 to 2"),
        ({"edges": EDGES, "edge_weight": np.ones(3)}, "for each of 2 edges"),
        ({"edges": EDGES + 0.5}, "must hold whole numbers"),
        ({"edges": EDGES + 1, "labels": LABELS}, "goes from 1 to 3, but nodes count from 0: subtract 1"),
        ({"edges": EDGES, "labels": np.eye(3)}, "must hold one class of each node"),
        ({"edges": EDGES, "labels": np.array([0.5, 1, 2])}, "must hold one class of each node"),
        ({"adj_matrix": PATH[:2]}, "an adjacency is square"),
        ({"nothing": PATH}, r"adj_data \(or edges\) is missing"),
    ],
)
def test_wrong_arrays_are_named(tmp_path: Path, layout: dict[str, Any], message: str) -> None:
    np.savez(tmp_path / "graph.npz", **layout)
    with pytest.raises(InvalidFileError, match=message):
        read_graph(tmp_path / "graph.npz")


def test_links_between_rows_of_a_table(tmp_path: Path) -> None:
    index = {"c": 0, "b": 1, "a": 2}
    turned = PATH[::-1, ::-1]
    (tmp_path / "edges.csv").write_text("source,target,weight\na,b,1\nb,c,2\n")
    (tmp_path / "edges.txt").write_text("a b 1\nb c 2\n")
    for name in ("edges.csv", "edges.txt"):
        np.testing.assert_array_equal(read_links(tmp_path / name, index, "the table").toarray(), turned)
    scipy.io.mmwrite(tmp_path / "graph.mtx", sp.coo_array(PATH))
    np.testing.assert_array_equal(read_links(tmp_path / "graph.mtx", index, "the table").toarray(), PATH)
    one_line = "<graphml><graph>" + "".join(f'<node id="{name}"/>' for name in "abc")
    one_line += '<edge source="a" target="b"/><edge source="b" target="c"/></graph></graphml>'
    (tmp_path / "graph.graphml").write_text(one_line)
    (tmp_path / "club").mkdir()
    (tmp_path / "club" / "nodes.csv").write_text("id,label\nc,\na,x\nb,y\n")
    (tmp_path / "club" / "edges.csv").write_text("source,target\na,b\nb,c\n")
    for name in ("graph.graphml", "club"):
        np.testing.assert_array_equal(read_links(tmp_path / name, index, "the table").toarray(), turned > 0)
    with pytest.raises(InvalidInputError, match="3 nodes without names, but there are 2 rows"):
        read_links(tmp_path / "graph.mtx", {"a": 0, "b": 1}, "the table")
    with pytest.raises(InvalidFileError, match="no node 'c' in the table"):
        read_links(tmp_path / "edges.txt", {"a": 0, "b": 1}, "the table")


def test_a_path_that_is_not_there() -> None:
    with pytest.raises(InvalidFileError, match="no such file; give an"):
        read_graph("nowhere.mtx")


def test_names_of_thousands_of_digits_are_names(tmp_path: Path) -> None:
    (tmp_path / "graph.txt").write_text(f"{'9' * 5000} 1\n1 2\n")
    assert len(read_graph(tmp_path / "graph.txt").node_names) == 3


def test_a_header_is_found_whatever_its_names(tmp_path: Path) -> None:
    for name, text in {
        "igraph": '"from","to"\n"1","2"\n"2","3"\n',
        "snap": "node_1,node_2\n1,2\n2,3\n",
        "own": "left\tright\n1\t2\n2\t3\n",
        "pandas": ",source,target\n0,1,2\n1,2,3\n",
        "gephi": "Source,Target,Type,Id,Label,Weight\n1,2,Undirected,0,,1.0\n2,3,Undirected,1,,1.0\n",
        "trailing": "1,2,\n2,3,\n",
        "remarks": "1 2 # first\n2 3\n",
    }.items():
        (tmp_path / name).write_text(text)
        found = read_graph(tmp_path / name)
        assert found.node_names == ("1", "2", "3"), name
        np.testing.assert_array_equal(found.adjacency.toarray(), PATH > 0, err_msg=name)


def test_names_may_hold_blanks_and_commas(tmp_path: Path) -> None:
    for name, text in {
        "commas": '"Smith, John",Ann Doe,1\nAnn Doe,Bo,2\n',
        "tabs": "Smith, John\tAnn Doe\t{'weight': 1}\nAnn Doe\tBo\t{'weight': 2}\n",
    }.items():
        (tmp_path / name).write_text(text)
        found = read_graph(tmp_path / name)
        assert found.node_names == ("Smith, John", "Ann Doe", "Bo"), name
        np.testing.assert_array_equal(found.adjacency.toarray(), PATH, err_msg=name)


def test_lists_of_neighbours(tmp_path: Path) -> None:
    graph = nx.Graph([(0, 1), (0, 2), (1, 2), (2, 3)])
    graph.add_node(9)
    nx.write_adjlist(graph, tmp_path / "graph")
    found = read_graph(tmp_path / "graph")
    assert (found.node_names, found.n_edges) == (("0", "1", "2", "3", "9"), 4)
    (tmp_path / "graph.adjlist").write_text("0 1 2\n1 2\n")
    assert read_graph(tmp_path / "graph.adjlist").n_edges == 3
    (tmp_path / "empty.adjlist").write_text("# nothing\n")
    with pytest.raises(InvalidFileError, match="has no nodes"):
        read_graph(tmp_path / "empty.adjlist")
    nx.write_multiline_adjlist(graph, tmp_path / "lines")
    with pytest.raises(InvalidFileError, match=r"has attributes, which no list of neighbours has: .*write_edgelist"):
        read_graph(tmp_path / "lines")


def test_an_edge_that_gml_lists_twice_is_no_error(tmp_path: Path) -> None:
    nodes = "".join(f'  node [ id {number} label "{name}" ]\n' for number, name in enumerate("abc"))
    pairs = ((0, 1, 1), (1, 2, 2), (2, 1, 1))
    edges = "".join(f"  edge [ source {a} target {b} weight {w} ]\n" for a, b, w in pairs)
    (tmp_path / "graph").write_text(f'Creator "a graph [ of mine"\ngraph\n[\n{nodes}{edges}]\n')
    np.testing.assert_array_equal(read_graph(tmp_path / "graph").adjacency.toarray(), PATH)


def test_lists_of_numbers_in_gml_are_features(tmp_path: Path) -> None:
    graph = nx.Graph([("a", "b", {"weight": 1.0}), ("b", "c", {"weight": 2.0})])
    for node, values in zip("abc", FEATURES.tolist(), strict=True):
        graph.nodes[node]["vector"] = values
    nx.write_gml(graph, tmp_path / "graph")
    np.testing.assert_array_equal(read_graph(tmp_path / "graph").features.toarray(), FEATURES)


def test_a_label_of_its_own_for_every_node_is_a_name(tmp_path: Path) -> None:
    graph = nx.Graph([(0, 1, {"weight": 1.0}), (1, 2, {"weight": 2.0})])
    for node in graph:
        graph.nodes[node].update({"label": f"Person {node}", "y": node % 2, "age": 30.0 + node})
    nx.write_graphml(graph, tmp_path / "graph")
    found = read_graph(tmp_path / "graph")
    assert (found.labels.tolist(), found.features.toarray().tolist()) == ([0, 1, 0], [[30], [31], [32]])


def test_groups_and_values_of_d3(tmp_path: Path) -> None:
    nodes = [{"name": "a", "group": 1}, {"name": "b", "group": 2}, {"name": "c", "group": 1}]
    links = [{"source": 0, "target": 1, "value": 1}, {"source": 1, "target": 2, "value": 2}]
    (tmp_path / "graph").write_text(json.dumps({"nodes": nodes, "links": links}))
    found = read_graph(tmp_path / "graph")
    np.testing.assert_array_equal(found.adjacency.toarray(), PATH)
    assert (found.labels.tolist(), found.n_features) == ([0, 1, 0], 0)


def test_json_of_pairs(tmp_path: Path) -> None:
    labels = ["red", "blue", None]
    for content in ({"edges": [[0, 1], [2, 1]]}, {"edge_index": [[0, 1], [1, 2]]}):
        (tmp_path / "graph").write_text(json.dumps({**content, "features": FEATURES.tolist(), "labels": labels}))
        found = read_graph(tmp_path / "graph")
        np.testing.assert_array_equal(found.adjacency.toarray(), PATH > 0)
        assert (found.labels.tolist(), found.class_names) == ([1, 0, -1], ("blue", "red"))
    (tmp_path / "graph").write_text(json.dumps({"links": [[1], [2], []], "labels": [3, None, 3]}))
    assert read_graph(tmp_path / "graph").labels.tolist() == [3, -1, 3]


@pytest.mark.filterwarnings("ignore:Sparse CSR:UserWarning")
@pytest.mark.parametrize("form", ["to_sparse", "to_sparse_csr", "bfloat16", "requires_grad_"])
def test_tensors_of_any_layout(tmp_path: Path, form: str) -> None:
    arrays = {key: torch.as_tensor(np.ascontiguousarray(value)) for key, value in LAYOUTS["edge_index"].items()}
    arrays |= {"x": getattr(arrays["x"], form)(), "y": arrays["y"][:, None]}
    torch.save(arrays, tmp_path / "graph.pt")
    check(read_graph(tmp_path / "graph.pt", needs_features=True))


def test_nodes_without_edges_are_counted(tmp_path: Path) -> None:
    torch.save({"edge_index": torch.tensor(EDGES.T.copy()), "num_nodes": 5}, tmp_path / "graph.pt")
    np.savez(tmp_path / "graph.npz", edge_index=EDGES.T, num_nodes=5)
    for name in ("graph.pt", "graph.npz"):
        assert (read_graph(tmp_path / name).n_nodes, read_graph(tmp_path / name).n_edges) == (5, 2)
    np.savez(tmp_path / "graph.npz", edge_index=EDGES.T, num_nodes=[5, 5])
    with pytest.raises(InvalidFileError, match="num_nodes must be one number"):
        read_graph(tmp_path / "graph.npz")


@pytest.mark.parametrize(
    "labels", [np.array([0.0, 1.0, np.nan]), np.array(["a", "b", ""]), LABELS[:, None], np.array(["a", "b", "nan"])]
)
def test_labels_of_any_kind(tmp_path: Path, labels: Any) -> None:
    np.savez(tmp_path / "graph.npz", **{**LAYOUTS["dense"], "node_label": labels})
    check(read_graph(tmp_path / "graph.npz"))


@pytest.mark.parametrize("key", ["X", "feat", "node_feat"])
def test_features_by_other_names(tmp_path: Path, key: str) -> None:
    np.savez(tmp_path / "graph.npz", **{"adj": PATH, key: FEATURES, "label": LABELS})
    check(read_graph(tmp_path / "graph.npz", needs_features=True))
