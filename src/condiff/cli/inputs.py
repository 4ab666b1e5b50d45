"""The inputs of ``fit`` and ``predict``: a table, perhaps the edges between its rows, and a place for the result.

Nothing large is imported here: errors in a file are reported at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from condiff.errors import InvalidFileError, InvalidInputError
from condiff.files import read_json
from condiff.readers.cells import TEXT
from condiff.readers.columns import Column, ColumnDict
from condiff.readers.graph_kind import holds_graph
from condiff.readers.tables import Table, image_table, read_table

DATA_HELP = (
    "A table: CSV, TSV or text (also .gz, .zip), JSON, XLSX, Parquet, Feather, NPZ or NPY; or a graph: a folder with "
    "nodes.csv and edges.csv, or a file (NPZ, GraphML, tensors) whose nodes have features and a label; or a folder of "
    "images; or a folder of Parquet files, which workers of a Dask cluster share."
)
CLUSTER_HELP = "Address of a Dask scheduler, for a folder of Parquet files; processes of this machine by default."
WORKERS_HELP = "Without --cluster: how many processes share a folder of Parquet files; one per core by default."
EDGES_HELP = (
    "Edges between the rows: a CSV file with the columns source, target and perhaps weight, which name ids; or any "
    "other graph file."
)
#: The share of true values that an interval of a regression is to hold.
COVERAGE = 0.9
_FEWEST_RESIDUALS = 10
_MODEL = "model.json"


def check_model_folder(out: Path, force: bool) -> None:
    """Refuse a place that holds a model already, or anything else: saving replaces the whole folder."""
    if (out / _MODEL).is_file():
        if not force:
            raise InvalidInputError(f"{out} already holds a model: choose another name, or add --force to replace it")
    elif out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InvalidInputError(f"{out} exists and is not a condiff model; choose another name or remove it")


def open_data(data: Path, edges: Path | None) -> tuple[Table, Path | None]:
    """The table and the file of its edges, if there is one: ``edges``, or that of a graph's folder or file.

    A folder of images is a table of their names. The nodes of a graph in one file are a table of their features with
    the columns ``id`` and, where they have one, ``label``.
    """
    if not data.is_dir():
        if holds_graph(data):
            return graph_table(data), edges or data
        return read_table(data), edges
    if not any((data / name).is_file() for name in ("nodes.csv", "edges.csv")):
        try:
            return image_table(data), edges
        except InvalidFileError as error:
            raise InvalidFileError(
                f"{data} has no nodes.csv and no images: a graph's folder holds nodes.csv and edges.csv"
            ) from error
    for name in ("nodes.csv", "edges.csv")[: 1 if edges else 2]:
        if not (data / name).is_file():
            raise InvalidFileError(f"{data} has no {name}: a graph's folder holds nodes.csv and edges.csv")
    return read_table(data / "nodes.csv"), edges or data / "edges.csv"


def is_graph(data: Path) -> bool:
    """Whether the data is a graph, whose nodes are labelled in the column ``label``."""
    return data.is_dir() or holds_graph(data)


def graph_table(path: Path) -> Table:
    """The nodes of a graph's file."""
    from condiff.readers.graph_file import read_graph

    graph = read_graph(path)
    names = graph.node_names or tuple(map(str, range(graph.n_nodes)))
    columns = {"id": Column("id", "text", np.array(names, dtype=TEXT))}
    if graph.labelled.size:
        called = [*(graph.class_names or map(str, range(graph.n_classes))), ""]
        columns["label"] = Column("label", "text", np.array([called[code] for code in graph.labels], dtype=TEXT))
    matrix = graph.features if graph.n_features else None
    return Table(path, ColumnDict(columns, graph.n_nodes, str(path)), matrix)


def is_shared(data: Path, cluster: str | None, workers: int | None) -> bool:
    """Whether the workers of a cluster are to share the rows: those of a folder of Parquet files."""
    shared = data.is_dir() and not (data / "nodes.csv").is_file() and any(data.rglob("*.parquet"))
    if not shared and (cluster is not None or workers is not None):
        option = "--workers" if cluster is None else "--cluster"
        raise InvalidInputError(f"{option} is for a folder of Parquet files, which {data} is not: leave it out")
    return shared


def id_columns(table: Table, chosen: Sequence[str], used: Sequence[str] = (), likely: Sequence[str] = ()) -> list[str]:
    """The columns that identify the rows in the answers: the chosen ones, or the one that looks like an id."""
    if chosen:
        table.require(chosen)
        return list(chosen)
    found = table.id_column(used, likely)
    return [] if found is None else [found]


def row_index(table: Table, ids: Sequence[str]) -> dict[str, int]:
    """The place of every row by its id, for edges to name."""
    if not ids:
        raise InvalidInputError(f"{table.source} has no column of ids, which edges need: name it with --id COLUMN")
    names = table.column(ids[0]).words().tolist()
    index = {name: row for row, name in enumerate(names)}
    if "" in index:
        raise InvalidInputError(
            f"{table.source}: the id {ids[0]!r} is empty in row {index[''] + 1}: give every row one"
        )
    if len(index) < len(names):
        twice = next(name for row, name in enumerate(names) if index[name] != row)
        raise InvalidInputError(f"{table.source}: the id {twice!r} in {ids[0]!r} appears twice: give every row its own")
    return index


@dataclass(frozen=True)
class FitFacts:
    """What ``fit`` writes beside a model, for ``predict`` to use; a model that was saved in Python has none of it.

    Attributes
    ----------
    target, unlabelled
        The column that was learned, and the words in it that mean no label.
    id_columns, ids
        The columns that name the rows, and the names of the training rows.
    edges
        Whether edges were given.
    separator
        What separates the labels of a row that may have several; empty where it has one.
    """

    target: str = ""
    unlabelled: list[str] = field(default_factory=list)
    id_columns: list[str] = field(default_factory=list)
    ids: list[int | str] = field(default_factory=list)
    edges: bool = False
    separator: str = ""

    @classmethod
    def of(cls, metadata: Any, folder: Path) -> FitFacts:
        """Read and check what the model's file says, which may be anything."""
        known = metadata if isinstance(metadata, dict) and "id_columns" in metadata else {}
        facts = cls(**{each.name: known[each.name] for each in fields(cls) if each.name in known})
        names = (facts.unlabelled, facts.id_columns)
        sound = isinstance(facts.target, str) and isinstance(facts.edges, bool) and isinstance(facts.ids, list)
        sound &= isinstance(facts.separator, str)
        sound &= all(isinstance(each, list) and all(isinstance(name, str) for name in each) for each in names)
        sound = sound and all(isinstance(name, int | str) for name in facts.ids)
        if not sound:
            raise InvalidFileError(f"{folder} is damaged: fit the model again")
        return facts


def peek(folder: Path) -> tuple[FitFacts, list[str]]:
    """What ``fit`` wrote beside a model and the columns that the model reads, without loading it.

    Where its file is damaged there are none: loading it will raise the error.
    """
    path = folder / _MODEL
    if not path.is_file():
        raise InvalidFileError(f"{folder} is not a condiff model: it has no {_MODEL}")
    try:
        content = read_json(path, "fit the model again")
        state = content["state"]["$dict"]
        if "heads_" in state:  # every head reads the same columns
            state = state["heads_"][0]["$dict"]["state"]["$dict"]
        if state["encoder_"] is not None:
            columns = [column["$dict"] for column in state["encoder_"]["$dict"]["columns"]]
            names = [str(column["name"]) for column in columns if column["type"] != "dropped"]
        else:
            names = list(map(str, state.get("feature_names_in_", {"$objects": []})["$objects"]))
        return FitFacts.of(content["metadata"], folder), names
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return FitFacts(), []


def half_width(model: Any) -> float | None:
    """How far held-out values were from their answers, for all but a tenth of them; None where they are few."""
    from condiff.estimators.coverage import decided

    record = decided(model.record_)
    n = len(record.held_out)
    if n < _FEWEST_RESIDUALS or not hasattr(model, "values_of"):
        return None
    misses = np.abs(model.values_of(record.targets[record.held_out]) - model.values_of(record.answers))
    return float(np.sort(misses)[min(n, math.ceil(COVERAGE * (n + 1))) - 1])


def choice_or_shares(text: str | None, choices: Sequence[str], option: str) -> str | dict[str, float] | None:
    """``balanced``, or ``yes=2,no=1`` as a mapping; used for weights and priors of classes."""
    if text is None or text in choices:
        return text
    found: dict[str, float] = {}
    for part in text.split(","):
        name, mark, number = part.rpartition("=")
        try:
            value = float(number)
        except ValueError:
            value = -1.0
        if not mark or not 0 <= value < float("inf"):
            either = " or ".join([*choices, "CLASS=NUMBER,CLASS=NUMBER"])
            raise InvalidInputError(f"{option} must be {either}, but {part!r} is not CLASS=NUMBER")
        found[name.strip()] = value
    return found
