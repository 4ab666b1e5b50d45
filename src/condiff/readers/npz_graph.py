"""Graphs in an ``.npz`` file, in any of the layouts that benchmarks use, found by the names of its arrays.

========== =======================================================================================================
adjacency  CSR parts ``adj_data adj_indices adj_indptr adj_shape`` (or ``adj_matrix.data`` ...), a square
           ``adj_matrix``, or a list of ``edges`` or ``edge_index`` with perhaps ``edge_weight``; also a matrix that
           ``scipy.sparse.save_npz`` wrote
features   CSR parts ``attr_data`` ... (or ``node_attr.data`` ...), or dense: ``attr_matrix``, ``node_attr``,
           ``node_features``, ``node_feat``, ``features``, ``feats``, ``feat``, ``x``, ``X``
labels     ``labels``, ``node_label``, ``node_labels``, ``label``, ``y``, numbers or words; may be left out
========== =======================================================================================================

Other keys are left unread, and pickled ones are never opened.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from condiff.errors import InvalidFileError
from condiff.files import atomic_path, check_room
from condiff.readers.arrays import NpzArrays
from condiff.readers.cells import MISSING_CELLS, listed
from condiff.readers.graph_folder import classes_of
from condiff.readers.graph_kind import is_archive
from condiff.readers.node import NodeDataset, undirected

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Without a prefix they are scipy's own, by rows or by columns: both are the same graph once it has no direction.
_ADJACENCY = ("adj_", "adj_matrix.", "adj_matrix_", "adjacency.", "adjacency_", "")
_COORDINATES = {"row", "col", "data", "shape"}
_DENSE, _PAIRS = ("adj_matrix", "adjacency", "adj"), ("edges", "edge_index")
_ATTRIBUTES = ("attr_", "attr_matrix.", "attr_matrix_", "node_attr.", "node_attr_", "node_features.", "features.")
_DENSE_ATTRIBUTES = (
    "attr_matrix", "node_attr", "node_features", "node_feat", "features", "feats", "feat", "x", "X",
)  # fmt: skip
# Whole numbers up to this are exact in double precision.
_LARGEST = 2.0**53
# Of a graph with fewer nodes than this: a class takes room whether it has members or not.
_MOST_CLASSES = 1000


def load_npz_graph(path: Path | str, *, needs_features: bool = True) -> NodeDataset:
    """Load a graph; it becomes undirected (the larger weight of both directions) and loses its self-loops.

    Parameters
    ----------
    path
        The ``.npz`` file.
    needs_features
        Whether a file without attributes is an error; if not, such a graph gets features of width 0.
    """
    path = Path(path)
    if not path.is_file():
        raise InvalidFileError(f"{path}: no such file")
    if not is_archive(path):
        raise InvalidFileError(
            f"{path} is not an .npz file (a zip of arrays), or is cut off: save it anew with save_npz_graph"
        )
    with NpzArrays(path, "save it anew with save_npz_graph") as archive:
        return graph_of_arrays(path, archive, needs_features=needs_features)


def has_edges(path: Path) -> bool:
    """Whether an ``.npz`` file holds a graph, by the names of its arrays.

    One with rows ``X`` is a table, unless pairs of nodes or a square matrix are beside them.
    """
    with NpzArrays(path) as archive:
        keys = archive.keys()
        if "X" in keys:
            pairs = [archive.header(key)[0] for key in _PAIRS if key in keys]
            square = [archive.header(key)[0] for key in _DENSE if key in keys]
            return any(len(shape) == 2 and 2 in shape for shape in pairs) or any(
                len(shape) == 2 and shape[0] == shape[1] for shape in square
            )
        parts = any({f"{prefix}data", f"{prefix}indptr"} <= keys for prefix in _ADJACENCY) or keys >= _COORDINATES
        return not {"X", "X_data"} & keys and (parts or bool({*_DENSE, *_PAIRS} & keys))


def graph_of_arrays(path: Path, arrays: Mapping[str, NDArray[Any]], *, needs_features: bool) -> NodeDataset:
    """The graph of a file's arrays, by their names."""
    parts = _Parts(path, arrays)
    features_key, features = _features(parts, needs_features)
    labels_key, labels, names = _labels(parts)
    adjacency = _adjacency(parts, [each.shape[0] for each in (features, labels) if each is not None])
    n_nodes = adjacency.shape[0]
    if features is None:
        features = sp.csr_array((n_nodes, 0), dtype=np.float64)
    if features.shape[0] != n_nodes:
        parts.fail(features_key, f"has {features.shape[0]} rows for {n_nodes} nodes")
    if labels is None:
        labels = np.full(n_nodes, -1, dtype=np.int64)
    if labels.size != n_nodes:
        parts.fail(labels_key, f"has {labels.size} entries for {n_nodes} nodes")
    if labels.min(initial=0) < -1:
        parts.fail(labels_key, "has entries below -1; classes count from 0, and -1 means no label")
    most = max(n_nodes, _MOST_CLASSES)
    if labels.max(initial=0) >= most:
        parts.fail(labels_key, f"has the class {labels.max()}; classes count from 0, up to {most - 1} here")
    return NodeDataset(path.stem, undirected(adjacency), features, labels, names)


def save_npz_graph(dataset: NodeDataset, path: Path | str) -> None:
    """Write a graph in the same format, atomically; unlabelled graphs are written without ``labels``."""
    arrays: dict[str, Any] = {}
    for prefix, matrix in (("adj", dataset.adjacency), ("attr", dataset.features)):
        arrays |= {f"{prefix}_{part}": getattr(matrix, part) for part in ("data", "indices", "indptr", "shape")}
    if (dataset.labels >= 0).any():
        arrays["labels"] = dataset.labels
    with atomic_path(Path(path)) as temporary, temporary.open("wb") as stream:
        np.savez_compressed(stream, **arrays)


def _adjacency(parts: _Parts, known: list[int]) -> sp.csr_array:
    """The adjacency, with as many nodes as ``known`` says where a list of edges does not."""
    prefix = parts.first(f"{prefix}data" for prefix in _ADJACENCY if f"{prefix}indptr" in parts.archive)
    dense, pairs = parts.first(_DENSE), parts.first(_PAIRS)
    if prefix is None and parts.archive.keys() >= _COORDINATES:
        return _of_coordinates(parts)
    if prefix is not None or (dense is None and pairs is None):
        key = (prefix or "adj_data").removesuffix("data")
        found, shape = parts.csr(key), f"{key}shape"
    elif dense is not None:
        key, shape = dense, dense
        found = sp.csr_array(parts.numbers(dense, dimensions=2))
    else:
        assert pairs is not None
        return _of_edges(parts, pairs, known)
    if found.shape[0] != found.shape[1]:
        parts.fail(shape, f"is {found.shape}, but an adjacency is square")
    if found.data.min(initial=0.0) < 0:
        parts.fail(f"{key}data" if key != shape else key, "has negative weights; weights must be zero or more")
    return found


def _of_coordinates(parts: _Parts) -> sp.csr_array:
    size = parts.integers("shape")
    if size.size != 2 or size[0] != size[1]:
        parts.fail("shape", f"is {tuple(size.tolist())}, but an adjacency is square")
    ends = np.stack([parts.integers("row"), parts.integers("col")], axis=1)
    return _weighted(parts, "row and col", ends, "data", parts.numbers("data"), int(size[0]))


def _of_edges(parts: _Parts, key: str, known: list[int]) -> sp.csr_array:
    pairs = parts.whole(key, dimensions=2)
    # Two edges are two by two either way; edge_index is known to have a row for each end.
    if pairs.shape[0] == 2 and (pairs.shape[1] != 2 or key == "edge_index"):
        pairs = pairs.T
    if pairs.shape[1] != 2:
        parts.fail(key, f"has the shape {pairs.shape}, but an edge has two ends")
    weight = parts.first(("edge_weight", "edge_weights"))
    weights = np.ones(len(pairs)) if weight is None else parts.numbers(weight)
    number = parts.first(("num_nodes", "n_nodes"))
    told = parts.integers(number, parts.read(number).ndim).ravel() if number is not None else np.zeros(0, np.int64)
    if told.size > 1:
        parts.fail(str(number), f"must be one number, not {told.size}")
    n_nodes = known[0] if known else max(int(pairs.max(initial=-1)) + 1, int(told.max(initial=0)))
    if known and pairs.size and pairs.min() == 1 and pairs.max() == n_nodes:
        parts.fail(key, f"goes from 1 to {n_nodes}, but nodes count from 0: subtract 1")
    return _weighted(parts, key, pairs, str(weight), weights, n_nodes)


def _weighted(
    parts: _Parts, key: str, pairs: NDArray[np.int64], weight: str, weights: NDArray[np.float64], n_nodes: int
) -> sp.csr_array:
    """The matrix of a list of edges."""
    if len(weights) != len(pairs) or weights.min(initial=0.0) < 0:
        parts.fail(weight, f"must have a weight of zero or more for each of {len(pairs)} edges")
    if pairs.size and not 0 <= pairs.min() <= pairs.max() < n_nodes:
        parts.fail(key, f"must be in 0 .. {n_nodes - 1}, but reach from {pairs.min()} to {pairs.max()}")
    check_room(f"{parts.path}: {key}", 8 * n_nodes, "correct it")
    # The larger weight of an edge that is listed twice, not their sum.
    order = np.lexsort((-weights, pairs[:, 1], pairs[:, 0]))
    ends, first = np.unique(pairs[order], axis=0, return_index=True)
    return sp.csr_array((weights[order][first], (ends[:, 0], ends[:, 1])), shape=(n_nodes, n_nodes))


def _features(parts: _Parts, needed: bool) -> tuple[str, sp.csr_array | None]:
    dense = parts.first(_DENSE_ATTRIBUTES)
    if dense is not None:
        return dense, sp.csr_array(parts.numbers(dense, dimensions=2))
    data = parts.first(f"{prefix}data" for prefix in _ATTRIBUTES)
    if data is None and not needed:
        return "", None
    prefix = (data or "attr_data").removesuffix("data")
    return f"{prefix}shape", parts.csr(prefix)


def _labels(parts: _Parts) -> tuple[str, NDArray[np.int64] | None, tuple[str, ...]]:
    """Codes, and the names of classes where they are words; NaN and an empty word mean no label."""
    key = parts.first(("labels", "node_label", "node_labels", "label", "y"))
    if key is None:
        return "", None, ()
    array = parts.read(key)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim == 1 and array.dtype.kind in "UT":
        words = [str(word).strip() for word in array.tolist()]
        return key, *classes_of(["" if word in MISSING_CELLS else word for word in words])
    if array.ndim == 1 and array.dtype.kind == "f":
        array = np.where(np.isnan(array), -1.0, array)
        if (np.abs(array) <= _LARGEST).all() and (array == np.round(array)).all():
            array = array.astype(np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iub":
        found = f"{array.dtype} in {array.ndim} dimension(s)"
        parts.fail(key, f"must hold one class of each node, a number or a word, not {found}")
    return key, array.astype(np.int64), ()


class _Parts:
    """The arrays of one file, each checked as it is read."""

    def __init__(self, path: Path, archive: Mapping[str, NDArray[Any]]) -> None:
        self.path, self.archive = path, archive

    def first(self, keys: Iterable[str]) -> str | None:
        """The first of these names that the file has."""
        return next((key for key in keys if key in self.archive), None)

    def fail(self, key: str, problem: str) -> None:
        raise InvalidFileError(f"{self.path}: {key} {problem}")

    def read(self, key: str) -> NDArray[Any]:
        if key not in self.archive:
            also = {"attr_data": " (or a dense attr_matrix)", "adj_data": " (or edges)"}.get(key, "")
            raise InvalidFileError(
                f"{self.path}: {key}{also} is missing; the file has {listed(list(self.archive), 12) or 'no arrays'}"
            )
        return self.archive[key]

    def numbers(self, key: str, dimensions: int = 1) -> NDArray[np.float64]:
        array = self.read(key)
        if array.ndim != dimensions or array.dtype.kind not in "fiub":
            self.fail(key, f"must hold numbers in {dimensions} dimension(s), not {array.dtype} in {array.ndim}")
        values = array.astype(np.float64)
        if not np.isfinite(values).all():
            self.fail(key, "has NaN or infinite entries")
        return values

    def integers(self, key: str, dimensions: int = 1) -> NDArray[np.int64]:
        array = self.read(key)
        if array.ndim != dimensions or array.dtype.kind not in "iu":
            self.fail(key, f"must hold whole numbers in {dimensions} dimension(s), not {array.dtype} in {array.ndim}")
        return array.astype(np.int64)

    def whole(self, key: str, dimensions: int = 1) -> NDArray[np.int64]:
        """Whole numbers, which other programs may have written as fractions."""
        array = self.read(key)
        if array.dtype.kind != "f" or not (np.isfinite(array).all() and (array == np.round(array)).all()):
            return self.integers(key, dimensions)
        if array.ndim != dimensions or np.abs(array).max(initial=0) > _LARGEST:
            self.fail(key, f"must hold whole numbers in {dimensions} dimension(s), not {array.dtype} in {array.ndim}")
        return array.astype(np.int64)

    def csr(self, prefix: str) -> sp.csr_array:
        data, indices = self.numbers(f"{prefix}data"), self.integers(f"{prefix}indices")
        indptr, shape = self.integers(f"{prefix}indptr"), self.integers(f"{prefix}shape")
        if shape.size != 2 or shape.min() < 0:
            self.fail(f"{prefix}shape", f"must be two sizes, not {shape.tolist()}")
        rows, columns = (int(size) for size in shape)
        check_room(f"{self.path}: {prefix}shape", 8 * columns, "correct it")
        if indptr.size != rows + 1 or indptr[0] != 0 or (np.diff(indptr) < 0).any():
            self.fail(f"{prefix}indptr", f"must hold {rows + 1} ascending offsets from 0, for {rows} rows")
        if not indptr[-1] == indices.size == data.size:
            sizes = f"{indices.size} indices, {data.size} values and a last offset of {indptr[-1]}"
            self.fail(f"{prefix}data", f"does not fit {prefix}indices and {prefix}indptr: {sizes}")
        if indices.size and not 0 <= indices.min() <= indices.max() < columns:
            self.fail(
                f"{prefix}indices", f"must be in 0 .. {columns - 1}, but reach from {indices.min()} to {indices.max()}"
            )
        matrix = sp.csr_array((data, indices, indptr), shape=(rows, columns))
        matrix.sum_duplicates()
        return matrix
