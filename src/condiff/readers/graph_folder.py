"""A user's graph: a folder with ``nodes.csv`` and ``edges.csv``, or an ``.npz`` file.

``nodes.csv`` has the columns ``id`` and ``label``, and one column of numbers a feature. Ids and labels may be any text;
an empty label means unlabelled. ``edges.csv`` has the columns ``source`` and ``target``, which hold ids, and perhaps
``weight``. Both begin with a line of column names; commas, semicolons or tabs separate the cells.
"""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from condiff.errors import InvalidFileError, did_you_mean
from condiff.files import atomic_path
from condiff.readers.cells import MISSING_CELLS, as_number, listed
from condiff.readers.delimited import read_records
from condiff.readers.node import NodeDataset, undirected

if TYPE_CHECKING:
    from numpy.typing import NDArray


def load_graph_folder(path: Path | str, *, needs_features: bool = True) -> NodeDataset:
    """Load the graph of ``nodes.csv`` and ``edges.csv``, named after their folder.

    Classes are sorted, as numbers if all are numbers. Edges have no direction, and loops are dropped; of an edge that
    is listed more than once, the largest weight counts.

    Parameters
    ----------
    path
        The folder.
    needs_features
        Whether a file without feature columns is an error; if not, such a graph gets features of width 0.
    """
    path = Path(path)
    nodes, edges = path / "nodes.csv", path / "edges.csv"
    for file in (nodes, edges):
        if not file.is_file():
            raise InvalidFileError(f"{path} has no {file.name}: a graph's folder holds nodes.csv and edges.csv")
    index, labels, features = _read_nodes(nodes, needs_features)
    codes, names = classes_of(labels)
    return NodeDataset(path.resolve().name, read_edges(edges, index), features, codes, names, tuple(index))


def save_graph_folder(dataset: NodeDataset, path: Path | str) -> None:
    """Write a graph as such a folder; the ids are the nodes' numbers. Other files in the folder are left alone."""
    path = Path(path)
    names = dataset.class_names or tuple(str(label) for label in range(dataset.n_classes))
    upper = sp.triu(dataset.adjacency).tocoo()
    with_weights = bool((upper.data != 1).any())
    columns = ["id", "label", *(f"feature_{i}" for i in range(dataset.n_features))]
    _write(path / "nodes.csv", columns, _node_rows(dataset, names))
    _write(
        path / "edges.csv",
        ["source", "target", "weight"][: 3 if with_weights else 2],
        (
            [source, target, _shortest(weight)] if with_weights else [source, target]
            for source, target, weight in zip(*upper.coords, upper.data.tolist(), strict=True)
        ),
    )


def _read_nodes(path: Path, needs_features: bool) -> tuple[dict[str, int], list[str], sp.csr_array]:
    records = _rows(path, ("id", "label"))
    _, header = next(records)
    at_id, at_label = header.index("id"), header.index("label")
    at_features = [i for i in range(len(header)) if i not in (at_id, at_label)]
    names = [header[i] for i in at_features]
    if "index" in header:
        raise InvalidFileError(
            f"{path}: the column 'index' (or without a name) numbers the rows, which is no feature: drop it "
            "(in pandas: to_csv(..., index=False))"
        )
    if needs_features and not at_features:
        raise InvalidFileError(f"{path} has no feature: add a column of numbers for each")
    lines: dict[str, int] = {}
    labels, indptr = [], [0]
    data: list[NDArray[np.float64]] = []
    indices: list[NDArray[np.int64]] = []
    for line, row in records:
        name = row[at_id]
        if not name:
            raise InvalidFileError(f"{path}, line {line}: the id is empty: give every node one")
        if name in lines:
            raise InvalidFileError(
                f"{path}, line {line}: the id {name!r} is that of line {lines[name]} as well: give every node its own"
            )
        lines[name] = line
        labels.append("" if row[at_label] in MISSING_CELLS else row[at_label])
        values = _numbers(path, line, names, [row[i] for i in at_features])
        indices.append(np.flatnonzero(values))
        data.append(values[indices[-1]])
        indptr.append(indptr[-1] + indices[-1].size)
    shape = (len(labels), len(at_features))
    features = sp.csr_array((np.concatenate(data), np.concatenate(indices), np.array(indptr)), shape=shape)
    return {name: number for number, name in enumerate(lines)}, labels, features


def _numbers(path: Path, line: int, names: list[str], cells: list[str]) -> NDArray[np.float64]:
    try:
        values = np.array(cells, dtype=np.float64)
    except ValueError:
        values = np.array([np.nan])
    if np.isfinite(values).all():
        return values
    for name, cell in zip(names, cells, strict=True):
        if as_number(cell) is None:
            state = f"{cell!r}, which is not a finite number" if cell else "empty"
            raise InvalidFileError(
                f"{path}, line {line}, column {name!r} is {state}: features are numbers; fix the cell, or turn a "
                "column of text into one column of 0 and 1 for each of its values"
            )
    return values


def classes_of(labels: list[str]) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Codes and names of classes, sorted, as numbers if all are numbers; an empty label has the code -1."""
    names = sorted(set(labels) - {""})
    if all(as_number(name) is not None for name in names):
        names.sort(key=float)
    codes = {name: code for code, name in enumerate(names)} | {"": -1}
    return np.array([codes[label] for label in labels], dtype=np.int64), tuple(names)


def read_edges(path: Path, index: Mapping[str, int], nodes: str = "nodes.csv") -> sp.csr_array:
    """The symmetric weights of a list of edges between nodes of known ids.

    Parameters
    ----------
    path
        A file with the columns ``source`` and ``target``, and perhaps ``weight``.
    index
        The place of every node by its id.
    nodes
        What a message calls the file of the nodes.
    """
    if not path.is_file():
        raise InvalidFileError(f"{path} does not exist, or is not a file: name a CSV file of edges")
    records = _rows(path, ("source", "target"), optional=("weight",))
    _, header = next(records)
    at_ends = [header.index("source"), header.index("target")]
    at_weight = header.index("weight") if "weight" in header else None
    ends: list[list[int]] = []
    weights: list[float] = []
    for line, row in records:
        for at in at_ends:
            if row[at] not in index:
                raise InvalidFileError(
                    f"{path}, line {line}: there is no node {row[at]!r} in {nodes}: add it there, or drop the line"
                )
        weight = 1.0 if at_weight is None else as_number(row[at_weight])
        if weight is None or weight < 0:
            raise InvalidFileError(
                f"{path}, line {line}: the weight is {row[at_weight or 0]!r}: give a finite number that is not negative"
            )
        # Low number first, so that both directions of an edge meet below.
        ends.append(sorted(index[row[at]] for at in at_ends))
        weights.append(weight)
    pairs, place = np.unique(np.array(ends), axis=0, return_inverse=True)
    largest = np.zeros(len(pairs))
    np.maximum.at(largest, place.ravel(), weights)
    return undirected(sp.csr_array((largest, (pairs[:, 0], pairs[:, 1])), shape=(len(index), len(index))))


def _rows(
    path: Path, required: Collection[str], optional: Collection[str] | None = None
) -> Iterator[tuple[int, list[str]]]:
    """The header, checked, and at least one row, with stripped cells; ``optional`` None allows any other column."""
    number = 0
    for number, (line, row) in enumerate(read_records(path)):
        if number == 0:
            _check_columns(path, row, required, optional)
        yield line, [cell.strip() for cell in row]
    if number == 0:
        raise InvalidFileError(f"{path} has column names but no rows: add at least one row")


def _check_columns(path: Path, header: list[str], required: Collection[str], optional: Collection[str] | None) -> None:
    for position, name in enumerate(header, start=1):
        if name.startswith("\0"):
            raise InvalidFileError(f"{path}: column {position} has no name: name it in the first line, or drop it")
    for name in required:
        if name not in header:
            others = [other for other in header if other not in required]
            raise InvalidFileError(
                f"{path} has no column {name!r}{did_you_mean(name, others)}: its first line names "
                f"{listed(header, 6)}; add or rename one"
            )
    if optional is not None:
        known = (*required, *optional)
        for name in header:
            if name not in known:
                raise InvalidFileError(
                    f"{path} has a column {name!r}{did_you_mean(name, known)}, which nothing reads: drop it, or rename "
                    f"it; the columns are {', '.join(known)}"
                )


def _write(path: Path, header: list[str], rows: Iterator[list[object]]) -> None:
    with atomic_path(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def _node_rows(dataset: NodeDataset, names: tuple[str, ...]) -> Iterator[list[object]]:
    for node, label in enumerate(dataset.labels.tolist()):
        values = dataset.features[[node]].toarray().ravel().tolist()
        yield [node, names[label] if label >= 0 else "", *map(_shortest, values)]


def _shortest(value: float) -> str:
    return str(int(value)) if value.is_integer() else repr(value)
