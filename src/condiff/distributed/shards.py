"""Shards on disk: the part of a problem that one rank holds, as memory-mapped NPY files beside one JSON description.

A folder has ``shards.json`` and, for each rank, ``part-0000/`` with the files of :data:`FILES`. The description is
written last, so an incomplete folder is not read.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from condiff.distributed.edges import open_array
from condiff.distributed.group import Ranks
from condiff.distributed.laplacian import Exchange, ShardedLaplacian
from condiff.errors import InvalidFileError, InvalidInputError
from condiff.files import read_json, refusing, write_text
from condiff.graph.sparse import Pattern

FORMAT = "condiff-shards"
SCHEMA = 1
DESCRIPTION = "shards.json"

#: The role of a node in a fit.
REST, TRAIN, VALIDATION = 0, 1, 2

#: What each part holds; ``features`` is one file, or three of a CSR matrix.
FILES = {
    "nodes": "the number of each own node in the whole graph, ascending",
    "indptr": "where the Laplacian row of each own node begins",
    "indices": "columns: own nodes by their place, then border nodes in the order in which they come",
    "weights": "normalised weights",
    "degree": "their row sums",
    "labels": "classes from 0, and -1 where unknown",
    "roles": "0, 1 for training, 2 for validation",
    "send_rows": "own rows that other ranks need, grouped by rank",
    "send": "how many of them go to each rank",
    "receive": "how many border rows come from each rank",
    "features": "features of own nodes",
}


@dataclass(frozen=True)
class PartSize:
    """What one rank holds: nodes, stored weights, border rows that come and go, bytes of files."""

    nodes: int
    entries: int
    receives: int
    sends: int
    bytes: int


@dataclass(frozen=True)
class Description:
    """A problem that was cut into parts.

    Attributes
    ----------
    n_nodes, n_entries
        Nodes and stored weights of the whole graph.
    n_features, sparse_features, n_classes
        Widths of input and output, and whether features are CSR.
    n_train, n_validation
        Nodes with these roles.
    symmetric
        Whether the graph is.
    max_diagonal
        The largest diagonal entry of the Laplacian, whose inverse is the positivity limit.
    cut_entries
        Stored weights between different parts.
    method
        What partitioned the nodes.
    dtype
        Precision of weights and features.
    digest
        A checksum of labels and roles in the order of the nodes, which does not depend on the partition.
    parts
        The size of each.
    """

    n_nodes: int
    n_entries: int
    n_features: int
    sparse_features: bool
    n_classes: int
    n_train: int
    n_validation: int
    symmetric: bool
    max_diagonal: float
    cut_entries: int
    method: str
    dtype: str
    digest: str
    parts: tuple[PartSize, ...]

    @property
    def problem(self) -> dict[str, Any]:
        """What does not depend on the partition: a fit resumes where this is the same."""
        own = ("max_diagonal", "cut_entries", "method", "parts")
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name not in own}

    def save(self, folder: Path) -> None:
        """Write the description, which makes the folder whole."""
        content = {"format": FORMAT, "schema": SCHEMA, **asdict(self)}
        write_text(folder / DESCRIPTION, json.dumps(content, indent=2, allow_nan=False) + "\n")

    @classmethod
    def load(cls, folder: Path) -> Description:
        """Read it back."""
        path = folder / DESCRIPTION
        if not path.is_file():
            raise InvalidFileError(f"{folder} has no {DESCRIPTION}: write the shards with 'shard' first")
        with refusing(path, "a description of shards", "write the shards again"):
            content = read_json(path, "write the shards again")
            if content.pop("format") != FORMAT or content.pop("schema") != SCHEMA:
                raise InvalidFileError(f"{path} is not of this version's shards; write them again")
            found = cls(**{**content, "parts": tuple(PartSize(**part) for part in content["parts"])})
            counts = [getattr(found, field.name) for field in fields(cls) if field.type == "int"]
            counts += [count for part in found.parts for count in vars(part).values()]
            flags = found.sparse_features, found.symmetric
            if not all(type(count) is int and 0 <= count < 1 << 48 for count in counts) or not found.parts:
                raise TypeError("a count is no count")
            if not all(isinstance(flag, bool) for flag in flags) or not isinstance(found.max_diagonal, int | float):
                raise TypeError("a part has the wrong kind")
            return found


def part_folder(folder: Path, rank: int) -> Path:
    """Where a rank's files are."""
    return folder / f"part-{rank:04d}"


class Features:
    """Features of own nodes, read a block of rows at a time."""

    def __init__(self, folder: Path, size: Description, rows: int, dtype: torch.dtype) -> None:
        self.n_features, self.dtype = size.n_features, dtype
        self._dense = None if size.sparse_features else open_array(folder / "features.npy")
        if self._dense is not None and (self._dense.shape != (rows, size.n_features) or self._dense.dtype.kind != "f"):
            raise InvalidFileError(
                f"{folder / 'features.npy'} holds {self._dense.dtype} of shape {self._dense.shape} for {rows} nodes "
                f"with {size.n_features} features; write the shards again"
            )
        if size.sparse_features:
            self._indptr, self._indices, self._data = (
                open_array(folder / f"features.{name}.npy") for name in ("indptr", "indices", "data")
            )
            with refusing(folder, "a part of a sharded problem", "write the shards again"):
                parts = torch.from_numpy(self._indptr), torch.from_numpy(self._indices)
                found = Pattern(*parts, size.n_features)
                if found.shape[0] != rows or self._data.shape != self._indices.shape or self._data.dtype.kind != "f":
                    raise ValueError("its features do not fit its nodes")

    def block(self, start: int, stop: int) -> Tensor:
        """Rows ``start`` to ``stop``, dense."""
        if self._dense is not None:
            return torch.from_numpy(self._dense[start:stop]).to(self.dtype)
        bounds = self._indptr[start : stop + 1]
        inside = slice(int(bounds[0]), int(bounds[-1]))
        rows = np.repeat(np.arange(stop - start), np.diff(bounds))
        dense = torch.zeros(stop - start, self.n_features, dtype=self.dtype)
        dense[torch.from_numpy(rows), torch.from_numpy(self._indices[inside].astype(np.int64))] = torch.from_numpy(
            self._data[inside]
        ).to(self.dtype)
        return dense


def _check(arrays: dict[str, NDArray[Any]], description: Description, size: PartSize) -> None:
    """Raise where indices point outside of what they point into; the Laplacian's own are checked with its pattern."""
    for name, array in arrays.items():
        # torch takes no other numbers for indices.
        kinds = "f4 f8" if name in ("weights", "degree") else "u1 i4 i8" if name in ("labels", "roles") else "i4 i8"
        if array.dtype.str[1:] not in kinds.split() or not array.dtype.isnative:
            raise ValueError(f"{name} holds {array.dtype}")
    if int(arrays["send"].sum()) != size.sends or int(arrays["receive"].sum()) != size.receives:
        raise ValueError("what is sent and received does not add up")
    limits = {"nodes": description.n_nodes, "send_rows": size.nodes, "labels": description.n_classes, "roles": 3}
    for name, limit in limits.items():
        least = -1 if name == "labels" else 0
        if arrays[name].size and not least <= int(arrays[name].min()) <= int(arrays[name].max()) < limit:
            raise ValueError(f"{name} points outside")
    if any((arrays[name] < 0).any() for name in ("send", "receive")):
        raise ValueError("a count is below zero")


@dataclass(frozen=True, eq=False)
class Shard:
    """What one rank holds, memory-mapped.

    Attributes
    ----------
    description
        The whole problem.
    nodes
        (n,) the numbers of own nodes in the whole graph.
    features
        Read in blocks.
    operator
        Own rows of the Laplacian.
    labels, roles
        (n,) each.
    """

    description: Description
    nodes: NDArray[np.int64]
    features: Features
    operator: ShardedLaplacian
    labels: Tensor
    roles: Tensor

    @classmethod
    def load(cls, folder: Path, ranks: Ranks, dtype: torch.dtype = torch.float32) -> Shard:
        """The shard of this rank; there must be as many parts as ranks."""
        description = Description.load(folder)
        parts = len(description.parts)
        if parts != ranks.size:
            raise InvalidInputError(
                f"{folder} was cut for {parts} rank(s), but the job has {ranks.size}: start it with "
                f"--nproc-per-node {parts}, or write shards with --ranks {ranks.size}"
            )
        place = part_folder(folder, ranks.rank)
        size = description.parts[ranks.rank]
        arrays = {name: open_array(place / f"{name}.npy") for name in FILES if name != "features"}
        expected = {
            "nodes": size.nodes,
            "indptr": size.nodes + 1,
            "indices": size.entries,
            "weights": size.entries,
            "degree": size.nodes,
            "labels": size.nodes,
            "roles": size.nodes,
            "send_rows": size.sends,
            "send": parts,
            "receive": parts,
        }
        for name, length in expected.items():
            if arrays[name].shape != (length,):
                raise InvalidFileError(
                    f"{place / name}.npy has the shape {arrays[name].shape} instead of ({length},); write them again"
                )
        with refusing(place, "a part of a sharded problem", "write the shards again"):
            _check(arrays, description, size)
        tensors = {name: torch.from_numpy(array) for name, array in arrays.items() if name != "nodes"}
        send, receive = arrays["send"].tolist(), arrays["receive"].tolist()
        exchange = Exchange(ranks, tensors["send_rows"], send, receive)
        pattern = Pattern(tensors["indptr"], tensors["indices"], size.nodes + sum(receive))
        weights, degree = tensors["weights"].to(dtype), tensors["degree"].to(dtype)
        operator = ShardedLaplacian(pattern, weights, degree, exchange, symmetric=description.symmetric)
        features = Features(place, description, size.nodes, dtype)
        return cls(description, arrays["nodes"], features, operator, tensors["labels"], tensors["roles"])

    @property
    def n_nodes(self) -> int:
        """Number of own nodes."""
        return len(self.nodes)

    def with_role(self, role: int) -> Tensor:
        """Places of own nodes with a role."""
        return torch.nonzero(self.roles == role)[:, 0]
