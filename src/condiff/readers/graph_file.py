"""A user's graph, by what its file holds: NPZ, Matrix Market, GraphML, GML, JSON, tensors, edges, or a folder."""

from __future__ import annotations

import io
import itertools
import re
import warnings
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from condiff.errors import InvalidFileError, InvalidInputError
from condiff.files import check_room, read_json, refusing
from condiff.readers.edge_list import read_edge_list
from condiff.readers.graph_folder import classes_of, load_graph_folder, read_edges
from condiff.readers.graph_kind import START, holds_graph, kind_of
from condiff.readers.node import NodeDataset, undirected
from condiff.readers.npz_graph import graph_of_arrays, load_npz_graph

#: What can be read, for messages.
KINDS = (
    "an .npz file, a Matrix Market (.mtx), GraphML, GML or JSON file, tensors (.pt, .safetensors), a list of edges, or "
    "a folder with nodes.csv and edges.csv"
)
_LABELS = ("label", "class", "target", "y", "group")
# Kinds that are known and not read.
_REFUSED = {
    "packed": "is packed: unpack it first (gunzip), then",
    "pickle": "holds pickled Python objects, which are never loaded:",
    "gexf": "is a GEXF file, which is not read: export it as GraphML, or",
}
# What sparse tensors are called, and their parts in a file of arrays.
_SPARSE = {"x": "attr", "adj_t": "adj"}
# Of as many values, most of them different, an attribute is a node's name and no class.
_MANY_NAMES = 10
# In GML a node's label is its name, and "value" the usual place of its class.
_GML_LABELS = (*_LABELS[1:], "value")


def read_graph(path: Path | str, *, needs_features: bool = False) -> NodeDataset:
    """Read a graph; it becomes undirected and loses its self-loops.

    Parameters
    ----------
    path
        A file, whose kind is seen from what it holds and not from its name, or a folder.
    needs_features
        Whether a graph whose nodes have no features is an error; if not, it gets features of width 0.

    Returns
    -------
    NodeDataset
        ``adjacency``, ``features``, ``labels`` (-1 where there is none), and ``node_names`` where nodes have names.
    """
    path = Path(path)
    if path.is_dir():
        return load_graph_folder(path, needs_features=needs_features)
    if not path.is_file():
        raise InvalidFileError(f"{path}: no such file; give {KINDS}")
    kind = kind_of(path)
    if kind is None or kind in _REFUSED:
        advice = _REFUSED.get(str(kind), "is no graph that can be read:")
        raise InvalidFileError(f"{path} {advice} give {KINDS}")
    if kind == "npz":
        found = load_npz_graph(path, needs_features=needs_features)
    elif kind in ("torch", "safetensors"):
        found = (_tensors if kind == "torch" else _safetensors)(path, needs_features)
    else:
        readers = {"mtx": _matrix_market, "graphml": _graphml, "gml": _gml, "json": _json, "edges": _edge_list}
        found = readers[kind](path)
    if needs_features and not found.n_features:
        raise InvalidFileError(
            f"{path} has a graph without features: give a folder with nodes.csv and edges.csv instead"
        )
    return found


def _matrix_market(path: Path) -> NodeDataset:
    """A square matrix in coordinate or array form; scipy's compiled reader ends the process at some damaged files."""
    with refusing(path, "a readable Matrix Market file", "write it again with scipy.io.mmwrite"):
        check_room(path, 8 * path.stat().st_size, "save it as .npz")
        head, rest = path.read_text(encoding="utf-8-sig").lstrip().split("\n", 1)
        form, kind, symmetry = head.lower().split()[2:5]
        size = "%"
        while size.startswith("%") or not size.strip():
            size, rest = rest.split("\n", 1)
        rows, columns, *entries = map(int, size.split())
        if rows != columns:
            raise InvalidFileError(f"{path} is {rows} x {columns}, but an adjacency is square")
        width = 1 if form == "array" else 2 if kind == "pattern" else 3
        known = form in ("array", "coordinate") and kind in ("real", "double", "integer", "unsigned-integer", "pattern")
        if not known or symmetry not in ("general", "symmetric") or len(entries) != (form == "coordinate"):
            raise InvalidFileError(
                f"{path} holds {form} {kind} {symmetry}: save a general or symmetric matrix of numbers"
            )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # what is no number ends it; then some are missing
            values = np.fromstring(rest, sep=" ")
        if form == "array":
            check_room(path, 24 * rows * rows, "save it in coordinate form", packed=path.stat().st_size)
            place = np.indices((rows, rows)).reshape(
                2, -1
            )  # columns one after another, below the diagonal if symmetric
            j, i = place if symmetry == "general" else place[:, place[1] >= place[0]]
        else:
            check_room(path, 8 * rows, "save it as .npz", packed=path.stat().st_size)
            cells = values.reshape(-1, width)
            i, j = cells[:, 0].astype(np.int64) - 1, cells[:, 1].astype(np.int64) - 1
            if len(cells) != entries[0] or (
                len(i) and not (0 <= min(i.min(), j.min()) <= max(i.max(), j.max()) < rows)
            ):
                raise InvalidFileError(
                    f"{path} has entries outside of {rows} x {rows}, or not {entries[0]}: write it again"
                )
            values = cells[:, 2] if width == 3 else np.ones(len(cells))
        matrix = sp.coo_array((values, (i, j)), shape=(rows, rows)).tocsr()
        if symmetry == "symmetric":
            matrix = matrix + matrix.T - sp.diags_array(matrix.diagonal())
    return _plain(path, sp.csr_array(matrix))


def _plain(path: Path, matrix: Any, names: tuple[str, ...] = ()) -> NodeDataset:
    """A graph without features and labels."""
    if matrix.dtype.kind not in "biuf" or not np.isfinite(matrix.data).all() or matrix.data.min(initial=0) < 0:
        raise InvalidFileError(
            f"{path} has weights that are negative, infinite or no numbers: weights are zero or more"
        )
    n = matrix.shape[0]
    empty, nobody = sp.csr_array((n, 0), dtype=np.float64), np.full(n, -1, dtype=np.int64)
    return NodeDataset(path.stem, undirected(sp.csr_array(matrix, dtype=np.float64)), empty, nobody, node_names=names)


def _graphml(path: Path) -> NodeDataset:
    import networkx as nx

    content = path.read_bytes()
    if b"<!DOCTYPE" in content or b"<!ENTITY" in content:
        raise InvalidFileError(f"{path} defines entities of its own, which a graph does not need: take them out")
    with refusing(path, "a readable GraphML file", "write it again with networkx.write_graphml"):
        graph = nx.read_graphml(io.BytesIO(content))
    return _of_networkx(path, graph, _LABELS)


def _gml(path: Path) -> NodeDataset:
    """Nodes are named by their labels, where all have one."""
    import networkx as nx

    with refusing(path, "a readable GML file", "write it again with networkx.write_gml"):
        check_room(path, 100 * path.stat().st_size, "save it as .npz")
        text = path.read_text(encoding="utf-8-sig")
        if not re.search(r"\bmultigraph\s+1\b", text):  # an edge that is listed twice is then no error
            text = re.sub(r"^(\s*graph\s*\[)", r"\1 multigraph 1 ", text, count=1, flags=re.MULTILINE)
        lines = text.splitlines()
        graph = nx.parse_gml(lines, label="id")
        labels = [graph.nodes[node].pop("label", None) for node in graph]
        if None not in labels and len(set(map(str, labels))) == len(labels):
            graph = nx.relabel_nodes(graph, dict(zip(graph, map(str, labels), strict=True)))
    return _of_networkx(path, graph, _GML_LABELS)


def _of_networkx(path: Path, graph: Any, labels: tuple[str, ...]) -> NodeDataset:
    with refusing(path, "a readable graph", "write it again with networkx"):
        place = {node: number for number, node in enumerate(graph)}
        ends = [(place[a], place[b], float(weight)) for a, b, weight in graph.edges(data="weight", default=1.0)]
        attributes = [dict(graph.nodes[node]) for node in graph]
    return _of_attributes(path, [str(node) for node in graph], ends, attributes, labels)


def _of_attributes(
    path: Path,
    names: Sequence[str],
    ends: list[tuple[int, int, float]],
    attributes: Sequence[Mapping[str, Any]],
    labels: tuple[str, ...],
) -> NodeDataset:
    """Numbers and lists of numbers are features, and the first that is called one of ``labels`` is the class."""
    attributes = [_flat(row) for row in attributes]
    found = _plain(path, _weighted(ends, len(names)), tuple(names))
    keys = list(dict.fromkeys(itertools.chain.from_iterable(attributes)))
    called = [key for key in keys if key.lower() in labels]
    names_of_nodes = [key for key in called if _are_names([row.get(key) for row in attributes])]
    label = next((key for key in called if key not in names_of_nodes), None)
    columns = [
        key
        for key in keys
        if key not in (label, *names_of_nodes)
        and all(isinstance(row.get(key, 0), int | float) and np.isfinite(row.get(key, 0)) for row in attributes)
    ]
    features = np.array([[float(row.get(key, 0)) for key in columns] for row in attributes]).reshape(len(names), -1)
    classes = ["" if label is None or row.get(label) is None else str(row[label]) for row in attributes]
    return NodeDataset(path.stem, found.adjacency, sp.csr_array(features), *classes_of(classes), tuple(names))


def _flat(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """A list of numbers as that many attributes."""
    found: dict[str, Any] = {}
    for key, value in attributes.items():
        many = isinstance(value, list)
        found |= {f"{key}_{number}": each for number, each in enumerate(value)} if many else {key: value}
    return found


def _are_names(values: Sequence[Any]) -> bool:
    """Whether an attribute names the nodes rather than their classes: every node has one, and most their own."""
    different = len(set(map(str, values)))
    if None in values or "" in values or len(values) < 2:
        return False
    return different == len(values) or (different > _MANY_NAMES and 2 * different > len(values))


def _json(path: Path) -> NodeDataset:
    """Nodes and the links between them, as networkx and D3 have them; or features, labels and lists of neighbours."""
    remedy = "give nodes and links, as networkx.node_link_data does"
    content = read_json(path, remedy)
    with refusing(path, "a readable graph", remedy):
        key = next((key for key in ("links", "edges", "edge_index") if key in content), None)
        if not isinstance(content, dict) or key is None:
            raise ValueError("it has no links")
        links = content[key]
        if "nodes" not in content:
            pairs = [[node, other] for node, others in enumerate(links) for other in others]
            if key == "edge_index":
                pairs = [list(pair) for pair in zip(*links, strict=True)]
            elif key == "edges" and all(len(pair) == 2 for pair in links):
                pairs = links
            known = {key: _array(content[key]) for key in ("features", "labels") if key in content}
            arrays = {"edges": np.array(pairs, dtype=np.int64).reshape(-1, 2), **known}
            return graph_of_arrays(path, arrays, needs_features=False)
        nodes = [dict(node) for node in content["nodes"]]
        names = [str(node.pop("id", number)) for number, node in enumerate(nodes)]
        place = {name: number for number, name in enumerate(names)}
        if len(place) < len(names):
            raise InvalidFileError(f"{path} has two nodes of one id: give every node its own")
        ends = []
        for link in links:
            pair = str(link["source"]), str(link["target"])
            if unknown := next((name for name in pair if name not in place), None):
                raise InvalidFileError(f"{path}: there is no node {unknown!r}, which a link names: add it to nodes")
            ends.append((place[pair[0]], place[pair[1]], float(link.get("weight", link.get("value", 1.0)))))
        return _of_attributes(path, names, ends, nodes, _LABELS)


def _array(values: list[Any]) -> NDArray[Any]:
    """Numbers as such, with NaN where there is none, and words."""
    if None not in values:
        return np.array(values)
    words = any(isinstance(value, str) for value in values)
    return np.array([("" if words else np.nan) if value is None else value for value in values])


def _weighted(ends: list[tuple[int, int, float]], n_nodes: int) -> sp.csr_array:
    """A matrix with the largest weight of every edge."""
    table = np.array(ends, dtype=np.float64).reshape(-1, 3)
    if not np.isfinite(table).all():
        table[~np.isfinite(table)] = -1.0  # refused as a weight
    pairs, place = np.unique(table[:, :2].astype(np.int64), axis=0, return_inverse=True)
    largest = np.full(len(pairs), -np.inf)
    np.maximum.at(largest, place.ravel(), table[:, 2])
    return sp.csr_array((largest, (pairs[:, 0], pairs[:, 1])), shape=(n_nodes, n_nodes))


class _Attributes:
    """Stands for the objects of PyTorch Geometric in a file: what they hold is read, and none of their code is run."""


def _tensors(path: Path, needs_features: bool) -> NodeDataset:
    import torch

    remedy = "save plain tensors, torch.save(data.to_dict(), file)"
    geometric = "torch_geometric.data.data.Data", "torch_geometric.data.storage.GlobalStorage"
    attributes = "torch_geometric.data.data.DataEdgeAttr", "torch_geometric.data.data.DataTensorAttr"
    stands_for: list[Any] = [(_Attributes, name) for name in (*geometric, *attributes)]
    with refusing(path, "a readable archive", remedy), zipfile.ZipFile(path) as archive:
        size = sum(info.file_size for info in archive.infolist())
    check_room(path, size, remedy, packed=path.stat().st_size)
    try:
        with torch.serialization.safe_globals(stands_for), torch.sparse.check_sparse_tensor_invariants(enable=True):
            content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # pickles fail in many ways, and this one is never opened as such
        raise InvalidFileError(f"{path} holds Python objects, which are never loaded: {remedy}") from error
    if isinstance(content, tuple) and content:  # a data set of one graph: tensors, where each graph begins, a class
        content = content[0]
    if not isinstance(content, dict):
        content = getattr(getattr(content, "_store", None), "_mapping", content)
    if not isinstance(content, dict):
        raise InvalidFileError(f"{path} holds a {type(content).__name__}, not tensors by their names: {remedy}")
    arrays: dict[str, NDArray[Any]] = {}
    with refusing(path, "a readable file of tensors", remedy):
        for key, value in content.items():
            if isinstance(value, torch.Tensor):
                arrays |= _plain_arrays(str(key), value.detach())
            elif key == "num_nodes" and isinstance(value, int):
                arrays[key] = np.array(value)
    return graph_of_arrays(path, arrays, needs_features=needs_features)


def _plain_arrays(key: str, tensor: Any) -> dict[str, NDArray[Any]]:
    """A tensor as an array, or as its CSR parts where it is sparse; of short numbers as longer ones."""
    import torch

    value = tensor.to(torch.float32) if tensor.dtype == torch.bfloat16 else tensor
    if value.layout == torch.strided:
        return {key: value.numpy()}
    # Torch's own conversions believe the indices of a file.
    shape = np.array(value.shape)
    if value.layout == torch.sparse_csr:
        found = [value.values(), value.col_indices(), value.crow_indices()]
    elif value.layout == torch.sparse_coo:
        ends = tuple(each.numpy() for each in value._indices())
        csr = sp.coo_array((value._values().numpy(), ends), shape=tuple(value.shape)).tocsr()
        found = [torch.from_numpy(each) for each in (csr.data, csr.indices, csr.indptr)]
    else:
        raise ValueError(f"{key} is a tensor of the layout {value.layout}")
    prefix = _SPARSE.get(key, key)
    parts = zip(("data", "indices", "indptr"), found, strict=True)
    return {f"{prefix}_{part}": each.numpy() for part, each in parts} | {f"{prefix}_shape": shape}


def _safetensors(path: Path, needs_features: bool) -> NodeDataset:
    from safetensors.numpy import load_file

    with refusing(path, "a readable file of tensors", "save it again"):
        check_room(path, path.stat().st_size, "read it on a larger machine")
        arrays: Mapping[str, NDArray[Any]] = load_file(path)
    return graph_of_arrays(path, arrays, needs_features=needs_features)


def _edge_list(path: Path) -> NodeDataset:
    names, ends = read_edge_list(path, KINDS)
    return _plain(path, _weighted(ends, len(names)), tuple(names))


def read_links(path: Path, index: Mapping[str, int], nodes: str) -> sp.csr_array:
    """Symmetric weights between nodes of known names, from a list of edges with a header or any graph file.

    Parameters
    ----------
    path
        A file with the columns ``source``, ``target`` and perhaps ``weight``; or any other graph, whose nodes have the
        same names, or none and come in the same order.
    index
        The place of every node by its name.
    nodes
        What a message calls the file of the nodes.
    """
    if not path.exists():
        raise InvalidFileError(f"{path} does not exist: name a CSV file of edges, or another graph")
    if path.is_file() and not holds_graph(path):
        with path.open("rb") as stream:
            header = stream.readline(START).lower()
        if b"source" in header and b"target" in header:
            return read_edges(path, index, nodes)
    graph = read_graph(path)
    if not graph.node_names:
        if graph.n_nodes != len(index):
            raise InvalidInputError(
                f"{path} has {graph.n_nodes} nodes without names, but there are {len(index)} rows: give the nodes the "
                "names of the rows, or as many as there are"
            )
        return graph.adjacency
    unknown = next((name for name in graph.node_names if name not in index), None)
    if unknown is not None:
        raise InvalidFileError(f"{path}: there is no node {unknown!r} in {nodes}: add it there, or drop its edges")
    place = np.array([index[name] for name in graph.node_names])
    edges = graph.adjacency.tocoo()
    rows, columns = edges.coords
    return sp.csr_array((edges.data, (place[rows], place[columns])), shape=(len(index), len(index)))
