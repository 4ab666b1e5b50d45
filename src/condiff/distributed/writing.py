"""Cutting a problem into shards in passes over its edges, so that no process holds more than one part of them.

In memory are a few numbers for each node (part, place, degree), one block of edges, and the edges of one part.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from condiff.distributed.edges import Block, Edges, GraphEdges
from condiff.distributed.partition import Method, Partition, blocks, partition
from condiff.distributed.shards import DESCRIPTION, TRAIN, VALIDATION, Description, PartSize, part_folder
from condiff.errors import InvalidInputError
from condiff.files import atomic_folder, new_array
from condiff.graph import Graph
from condiff.graph.graph import Normalisation
from condiff.graph.valid import valid_csr

#: Rows of features copied at a time.
_ROWS = 1 << 16
_EDGE = np.dtype([("row", np.int32), ("column", np.int64), ("weight", np.float64)])


@dataclass(frozen=True, eq=False)
class Labels:
    """What is known of the nodes, in their order.

    Attributes
    ----------
    classes
        (n,) classes from 0; -1 where unknown.
    train, validation
        Indices of nodes.
    """

    classes: ArrayLike
    train: ArrayLike
    validation: ArrayLike = ()


def write_shards(
    folder: Path,
    edges: Graph | Edges,
    features: Any,
    labels: Labels,
    *,
    ranks: int,
    parts: Method | Partition = "auto",
    normalisation: Normalisation = "symmetric",
    self_loops: bool = True,
    dtype: str = "float32",
) -> Description:
    """Cut a problem into one shard for each rank.

    Parameters
    ----------
    folder
        Where the shards go; other shards there are replaced.
    edges
        A graph, or edges that are read in blocks; entries of one place are added up.
    features
        (n, p) array, which may be memory-mapped, or a SciPy sparse matrix.
    labels
        Classes and roles.
    ranks
        How many processes will share the work.
    parts
        A partition, or the method to find one. Only ``blocks`` works on edges that are not in memory, and is what
        ``auto`` means there.
    normalisation, self_loops
        What is done to the weights, as in :meth:`condiff.graph.Graph.normalised`; the defaults are those of the
        paper's node tasks. Use ``none`` and False for weights that are normalised already.
    dtype
        ``float32`` or ``float64``.
    """
    _check_place(folder)
    if dtype not in ("float32", "float64"):
        raise InvalidInputError(f"dtype must be 'float32' or 'float64', not {dtype!r}")
    if normalisation not in ("symmetric", "random_walk", "none"):
        raise InvalidInputError(f"normalisation must be 'symmetric', 'random_walk' or 'none', not {normalisation!r}")
    source: Edges = GraphEdges(edges) if isinstance(edges, Graph) else edges
    chosen = _partition(edges, source.n_nodes, ranks, parts)
    classes, roles = _roles(labels, source.n_nodes)
    if sp.issparse(features):
        features = valid_csr(features)
    if features.ndim != 2 or features.shape[0] != source.n_nodes:
        raise InvalidInputError(
            f"features must have {source.n_nodes} rows, one per node, not the shape {features.shape}"
        )
    cutter = _Cutter(source, chosen, normalisation, self_loops, np.dtype(dtype))
    with atomic_folder(folder) as temporary:
        with TemporaryDirectory(dir=temporary) as scratch:
            cutter.sort(Path(scratch))
            for rank in range(ranks):
                place = part_folder(temporary, rank)
                place.mkdir()
                cutter.write_rows(place, rank, Path(scratch))
                _write_features(place, features, cutter.nodes(rank), np.dtype(dtype))
                np.save(place / "labels.npy", classes[cutter.nodes(rank)])
                np.save(place / "roles.npy", roles[cutter.nodes(rank)])
            cutter.write_sends(temporary, Path(scratch))
        description = Description(
            n_nodes=source.n_nodes,
            n_entries=sum(cutter.entries),
            n_features=int(features.shape[1]),
            sparse_features=sp.issparse(features),
            n_classes=int(classes.max()) + 1,
            n_train=int((roles == TRAIN).sum()),
            n_validation=int((roles == VALIDATION).sum()),
            # A random walk's weights are not symmetric, whatever the graph is.
            symmetric=source.symmetric and normalisation != "random_walk",
            max_diagonal=cutter.max_diagonal,
            cut_entries=cutter.cut_entries,
            method=chosen.method,
            dtype=dtype,
            digest=hashlib.sha256(classes.tobytes() + roles.tobytes()).hexdigest(),
            parts=tuple(cutter.part_size(temporary, rank) for rank in range(ranks)),
        )
        description.save(temporary)
    return description


class _Cutter:
    """Edges to the files of their parts, then each part's rows of the Laplacian."""

    def __init__(
        self, edges: Edges, parts: Partition, normalisation: str, self_loops: bool, dtype: np.dtype[Any]
    ) -> None:
        self.edges, self.parts, self.dtype = edges, parts, dtype
        self.normalisation, self.self_loops = normalisation, self_loops
        self.owner = parts.assignment
        # The nodes of each part stand together in ``order``, ascending; their places are counted from its start.
        self.order = np.argsort(self.owner, kind="stable")
        self.starts = np.concatenate([[0], np.cumsum(parts.sizes)])
        self.place = np.empty(edges.n_nodes, dtype=np.int32)
        self.place[self.order] = np.arange(edges.n_nodes) - np.repeat(self.starts[:-1], parts.sizes)
        self.degree = np.full(edges.n_nodes, 1.0 if self_loops else 0.0)
        self.scale = np.zeros(edges.n_nodes)
        self.entries: list[int] = []
        self.cut_entries = 0
        self.max_diagonal = 0.0

    def nodes(self, rank: int) -> NDArray[np.int64]:
        return self.order[self.starts[rank] : self.starts[rank + 1]]

    def sort(self, scratch: Path) -> None:
        """First pass: degrees, and each edge into the file of the part that owns its row."""
        for block in self.edges.blocks():
            np.add.at(self.degree, block.rows, block.weights)
            owners = self.owner[block.rows]
            by_owner = np.argsort(owners, kind="stable")
            ends = np.cumsum(np.bincount(owners, minlength=self.parts.parts))
            for rank, (start, end) in enumerate(zip(np.concatenate([[0], ends[:-1]]), ends, strict=True)):
                if end > start:
                    self._append(scratch / f"edges-{rank}", block, by_owner[start:end])
        if self.normalisation != "none":
            power = -0.5 if self.normalisation == "symmetric" else -1.0
            np.power(self.degree, power, out=self.scale, where=self.degree > 0)

    def _append(self, path: Path, block: Block, chosen: NDArray[np.int64]) -> None:
        entries = np.empty(chosen.size, dtype=_EDGE)
        entries["row"] = self.place[block.rows[chosen]]
        entries["column"] = block.columns[chosen]
        entries["weight"] = block.weights[chosen]
        with path.open("ab") as stream:
            entries.tofile(stream)

    def write_rows(self, place: Path, rank: int, scratch: Path) -> None:
        """The Laplacian rows of a part, and which rows of which rank they need."""
        nodes, n_nodes = self.nodes(rank), self.edges.n_nodes
        rows, columns, weights = self._entries(scratch / f"edges-{rank}", nodes)
        weights = weights * self._scale(nodes[rows], columns)
        local = self.place[columns].astype(np.int64)
        outside = self.owner[columns] != rank
        # Border nodes in the order of their ranks, and of their places there: that is how they will come.
        keys = self.owner[columns[outside]].astype(np.int64) * n_nodes + local[outside]
        border, local_border = np.unique(keys, return_inverse=True)
        local[outside] = nodes.size + local_border
        matrix = sp.csr_array((weights, (rows, local)), shape=(nodes.size, nodes.size + border.size))
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        degree = np.asarray(matrix.sum(axis=1)).ravel()
        self.max_diagonal = max(self.max_diagonal, float((degree - matrix.diagonal()[: nodes.size]).max()))
        self.entries.append(int(matrix.nnz))
        self.cut_entries += int(np.count_nonzero(matrix.indices >= nodes.size))
        index = np.int32 if max(matrix.nnz, matrix.shape[1]) < np.iinfo(np.int32).max else np.int64
        np.save(place / "nodes.npy", nodes)
        np.save(place / "indptr.npy", matrix.indptr.astype(index))
        np.save(place / "indices.npy", matrix.indices.astype(index))
        np.save(place / "weights.npy", matrix.data.astype(self.dtype))
        np.save(place / "degree.npy", degree.astype(self.dtype))
        np.save(place / "receive.npy", np.bincount(border // n_nodes, minlength=self.parts.parts))
        np.save(scratch / f"border-{rank}.npy", border)

    def _entries(self, path: Path, nodes: NDArray[np.int64]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        found = np.fromfile(path, dtype=_EDGE) if path.exists() else np.empty(0, dtype=_EDGE)
        rows, columns, weights = found["row"].astype(np.int64), found["column"], found["weight"]
        if self.self_loops:
            own = np.arange(nodes.size)
            rows, columns = np.concatenate([rows, own]), np.concatenate([columns, nodes])
            weights = np.concatenate([weights, np.ones(nodes.size)])
        return rows, columns, weights

    def _scale(self, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[Any] | float:
        if self.normalisation == "none":
            return 1.0
        return self.scale[rows] * self.scale[columns] if self.normalisation == "symmetric" else self.scale[rows]

    def write_sends(self, folder: Path, scratch: Path) -> None:
        """Which own rows each part sends to which: what the others found that they need of it."""
        n_nodes, n_parts = self.edges.n_nodes, self.parts.parts
        borders = [np.load(scratch / f"border-{rank}.npy", mmap_mode="r") for rank in range(n_parts)]
        for rank in range(n_parts):
            lists = []
            for border in borders:
                first, last = np.searchsorted(border, (rank * n_nodes, (rank + 1) * n_nodes))
                lists.append(np.asarray(border[first:last]) - rank * n_nodes)
            place = part_folder(folder, rank)
            np.save(place / "send_rows.npy", np.concatenate(lists))
            np.save(place / "send.npy", np.array([rows.size for rows in lists]))

    def part_size(self, folder: Path, rank: int) -> PartSize:
        place = part_folder(folder, rank)
        return PartSize(
            nodes=int(self.parts.sizes[rank]),
            entries=self.entries[rank],
            receives=int(np.load(place / "receive.npy").sum()),
            sends=int(np.load(place / "send.npy").sum()),
            bytes=sum(path.stat().st_size for path in place.iterdir()),
        )


def _check_place(folder: Path) -> None:
    if folder.exists() and not (folder / DESCRIPTION).is_file() and (not folder.is_dir() or any(folder.iterdir())):
        raise InvalidInputError(f"{folder} exists and does not hold shards; choose another name or remove it")


def _partition(edges: Graph | Edges, n_nodes: int, ranks: int, parts: Method | Partition) -> Partition:
    if isinstance(parts, Partition):
        if parts.parts != ranks or parts.assignment.size != n_nodes:
            raise InvalidInputError(
                f"the partition has {parts.parts} parts of {parts.assignment.size} nodes, but there are {ranks} ranks "
                f"and {n_nodes} nodes"
            )
        return parts
    if isinstance(edges, Graph):
        return partition(edges, ranks, parts)
    if parts not in ("auto", "blocks"):
        raise InvalidInputError(
            f"the {parts} partitioner needs the whole graph in memory; for edges on disk take 'blocks', or give the "
            "part of each node"
        )
    return blocks(n_nodes, ranks)


def _roles(labels: Labels, n_nodes: int) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    classes = np.asarray(labels.classes)
    if classes.shape != (n_nodes,) or classes.dtype.kind not in "iu":
        raise InvalidInputError(
            f"labels must be {n_nodes} whole numbers, -1 where unknown, not {classes.dtype} {classes.shape}"
        )
    roles = np.zeros(n_nodes, dtype=np.uint8)
    for name, role, given in (("train", TRAIN, labels.train), ("validation", VALIDATION, labels.validation)):
        nodes = np.asarray(given, dtype=np.int64 if np.size(given) == 0 else None)
        if nodes.ndim != 1 or nodes.dtype.kind not in "iu":
            raise InvalidInputError(f"{name} must be a list of node numbers, not {nodes.dtype} {nodes.shape}")
        if nodes.size and (nodes.min() < 0 or nodes.max() >= n_nodes):
            raise InvalidInputError(f"{name} has node numbers outside of 0 .. {n_nodes - 1}")
        if (classes[nodes] < 0).any():
            raise InvalidInputError(f"{name} has node {nodes[classes[nodes] < 0][0]}, whose label is unknown")
        if (roles[nodes] != 0).any():
            raise InvalidInputError(f"node {nodes[roles[nodes] != 0][0]} is for training and for validation")
        roles[nodes] = role
    if not (roles == TRAIN).any():
        raise InvalidInputError("there is no training node")
    return classes.astype(np.int64), roles


def _write_features(place: Path, features: Any, nodes: NDArray[np.int64], dtype: np.dtype[Any]) -> None:
    if sp.issparse(features):
        own = sp.csr_array(features[nodes])
        own.sum_duplicates()
        _check_finite(own.data)
        np.save(place / "features.indptr.npy", own.indptr.astype(np.int64))
        np.save(place / "features.indices.npy", own.indices.astype(np.int32))
        np.save(place / "features.data.npy", own.data.astype(dtype))
        return
    shape = (nodes.size, features.shape[1])
    out = new_array(place / "features.npy", dtype, shape)
    for start in range(0, nodes.size, _ROWS):
        rows = np.asarray(features[nodes[start : start + _ROWS]], dtype=dtype)
        _check_finite(rows)
        out[start : start + _ROWS] = rows
    out.flush()


def _check_finite(values: NDArray[Any]) -> None:
    if not np.isfinite(values).all():
        raise InvalidInputError("features must be finite, but some are NaN or infinite")
