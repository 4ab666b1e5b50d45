"""A graph by what a user calls it: a citation graph's name, a file or a folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from condiff.errors import InvalidInputError, did_you_mean
from condiff.readers.graph_file import KINDS, read_graph
from condiff.readers.node import NodeDataset
from condiff.reproduce.datasets import planetoid

#: The graphs that have a name, and what loads each: a new one is one file with its loader and one line here.
GRAPHS: dict[str, Callable[[str], NodeDataset]] = dict.fromkeys(planetoid.NAMES, planetoid.load)


def load_graph(source: str, *, needs_features: bool = True) -> NodeDataset:
    """Load a graph of :data:`GRAPHS`, or whatever :func:`read_graph` reads.

    Parameters
    ----------
    source
        A name or a path; a name counts first.
    needs_features
        Whether a file without features is an error; if not, such a graph gets features of width 0.
    """
    if source in GRAPHS:
        return GRAPHS[source](source)
    if Path(source).exists() or Path(source).suffix:
        return read_graph(source, needs_features=needs_features)
    hint = did_you_mean(source, GRAPHS)
    raise InvalidInputError(f"{source!r} is no graph{hint}: give {', '.join(GRAPHS)}, {KINDS}")
