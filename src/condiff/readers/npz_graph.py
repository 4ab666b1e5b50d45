"""Graphs in the common benchmark format: one ``.npz`` with the CSR parts of adjacency and attributes.

Keys: ``adj_data adj_indices adj_indptr adj_shape``; ``attr_data attr_indices attr_indptr attr_shape`` or a dense
``attr_matrix``; optionally ``labels``. Other keys are left unread, and pickled ones are never opened.
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from condiff.errors import InvalidFileError
from condiff.files import atomic_path, check_room
from condiff.readers.arrays import NpzArrays
from condiff.readers.cells import listed
from condiff.readers.node import NodeDataset, undirected

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
    if not zipfile.is_zipfile(path):
        raise InvalidFileError(
            f"{path} is not an .npz file (a zip of arrays), or is cut off: save it anew with save_npz_graph"
        )
    with NpzArrays(path, "save it anew with save_npz_graph") as archive:
        parts = _Parts(path, archive)
        adjacency = parts.csr("adj")
        n_nodes = adjacency.shape[0]
        if adjacency.shape[1] != n_nodes:
            parts.fail("adj_shape", f"is {adjacency.shape}, but an adjacency is square")
        if adjacency.data.min(initial=0.0) < 0:
            parts.fail("adj_data", "has negative weights; weights must be zero or more")
        return NodeDataset(
            path.stem, undirected(adjacency), _features(parts, n_nodes, needs_features), _labels(parts, n_nodes)
        )


def save_npz_graph(dataset: NodeDataset, path: Path | str) -> None:
    """Write a graph in the same format, atomically; unlabelled graphs are written without ``labels``."""
    arrays: dict[str, Any] = {}
    for prefix, matrix in (("adj", dataset.adjacency), ("attr", dataset.features)):
        arrays |= {f"{prefix}_{part}": getattr(matrix, part) for part in ("data", "indices", "indptr", "shape")}
    if (dataset.labels >= 0).any():
        arrays["labels"] = dataset.labels
    with atomic_path(Path(path)) as temporary, temporary.open("wb") as stream:
        np.savez_compressed(stream, **arrays)


def _features(parts: _Parts, n_nodes: int, needed: bool) -> sp.csr_array:
    if "attr_matrix" in parts:
        key, features = "attr_matrix", sp.csr_array(parts.numbers("attr_matrix", dimensions=2))
    elif "attr_data" in parts or needed:
        key, features = "attr_shape", parts.csr("attr")
    else:
        return sp.csr_array((n_nodes, 0), dtype=np.float64)
    if features.shape[0] != n_nodes:
        parts.fail(key, f"has {features.shape[0]} rows for {n_nodes} nodes")
    return features


def _labels(parts: _Parts, n_nodes: int) -> NDArray[np.int64]:
    if "labels" not in parts:
        return np.full(n_nodes, -1, dtype=np.int64)
    labels = parts.integers("labels")
    if labels.size != n_nodes:
        parts.fail("labels", f"has {labels.size} entries for {n_nodes} nodes")
    if labels.min(initial=0) < -1:
        parts.fail("labels", "has entries below -1; classes count from 0, and -1 means no label")
    most = max(n_nodes, _MOST_CLASSES)
    if labels.max(initial=0) >= most:
        parts.fail("labels", f"has the class {labels.max()}; classes count from 0, up to {most - 1} here")
    return labels


class _Parts:
    """The arrays of one file, each checked as it is read."""

    def __init__(self, path: Path, archive: NpzArrays) -> None:
        self.path, self.archive = path, archive

    def __contains__(self, key: str) -> bool:
        return key in self.archive

    def fail(self, key: str, problem: str) -> None:
        raise InvalidFileError(f"{self.path}: {key} {problem}")

    def read(self, key: str) -> NDArray[Any]:
        if key not in self.archive:
            also = " (or a dense attr_matrix)" if key.startswith("attr") else ""
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

    def integers(self, key: str) -> NDArray[np.int64]:
        array = self.read(key)
        if array.ndim != 1 or array.dtype.kind not in "iu":
            self.fail(key, f"must hold whole numbers in 1 dimension, not {array.dtype} in {array.ndim}")
        return array.astype(np.int64)

    def csr(self, prefix: str) -> sp.csr_array:
        data, indices = self.numbers(f"{prefix}_data"), self.integers(f"{prefix}_indices")
        indptr, shape = self.integers(f"{prefix}_indptr"), self.integers(f"{prefix}_shape")
        if shape.size != 2 or shape.min() < 0:
            self.fail(f"{prefix}_shape", f"must be two sizes, not {shape.tolist()}")
        rows, columns = (int(size) for size in shape)
        check_room(f"{self.path}: {prefix}_shape", 8 * columns, "correct it")
        if indptr.size != rows + 1 or indptr[0] != 0 or (np.diff(indptr) < 0).any():
            self.fail(f"{prefix}_indptr", f"must hold {rows + 1} ascending offsets from 0, for {rows} rows")
        if not indptr[-1] == indices.size == data.size:
            sizes = f"{indices.size} indices, {data.size} values and a last offset of {indptr[-1]}"
            self.fail(f"{prefix}_data", f"does not fit {prefix}_indices and {prefix}_indptr: {sizes}")
        if indices.size and not 0 <= indices.min() <= indices.max() < columns:
            self.fail(
                f"{prefix}_indices", f"must be in 0 .. {columns - 1}, but reach from {indices.min()} to {indices.max()}"
            )
        matrix = sp.csr_array((data, indices, indptr), shape=(rows, columns))
        matrix.sum_duplicates()
        return matrix
