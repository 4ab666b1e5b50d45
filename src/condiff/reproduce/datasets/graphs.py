"""A graph by what a user calls it: a citation graph's name, a file or a folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from condiff.errors import InvalidInputError, did_you_mean
from condiff.readers.graph_folder import load_graph_folder
from condiff.readers.node import NodeDataset
from condiff.readers.npz_graph import load_npz_graph
from condiff.reproduce.datasets import planetoid

#: The graphs that have a name, and what loads each: a new one is one file with its loader and one line here.
GRAPHS: dict[str, Callable[[str], NodeDataset]] = dict.fromkeys(planetoid.NAMES, planetoid.load)


def load_graph(source: str, *, needs_features: bool = True) -> NodeDataset:
    """Load a graph of :data:`GRAPHS`, an ``.npz`` file, or a folder with nodes.csv and edges.csv.

    Parameters
    ----------
    source
        A name or a path; a name counts first.
    needs_features
        Whether a file without features is an error; if not, such a graph gets features of width 0.
    """
    if source in GRAPHS:
        return GRAPHS[source](source)
    path = Path(source)
    if path.is_dir():
        return load_graph_folder(path, needs_features=needs_features)
    if path.suffix.lower() == ".npz":
        return load_npz_graph(path, needs_features=needs_features)
    hint = did_you_mean(source, GRAPHS)
    raise InvalidInputError(
        f"{source!r} is no graph{hint}: give {', '.join(GRAPHS)}, an .npz file, or a folder with nodes.csv "
        "and edges.csv"
    )
