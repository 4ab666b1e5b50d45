"""The citation graphs Cora, Citeseer and Pubmed, in the node order of Planetoid's files."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from condiff.errors import InvalidInputError
from condiff.readers.node import NodeDataset, undirected
from condiff.reproduce.datasets.sources import fetch
from condiff.reproduce.datasets.unpickle import unpickle

if TYPE_CHECKING:
    from numpy.typing import NDArray

NAMES = ("cora", "citeseer", "pubmed")
# Planetoid numbers the subjects so; cora.content spells them out.
_CORA_SUBJECTS = (
    "Theory",
    "Reinforcement_Learning",
    "Genetic_Algorithms",
    "Neural_Networks",
    "Probabilistic_Methods",
    "Case_Based",
    "Rule_Learning",
)


def load(name: str) -> NodeDataset:
    """Load one of the three citation graphs, all of its nodes.

    Apply :func:`condiff.readers.node.largest_component` for the graphs that the paper uses. Cora is the same,
    number for number, whether it comes from Planetoid's files or from ``cora.content`` and ``cora.cites``.
    """
    if name not in NAMES:
        raise InvalidInputError(f"unknown citation graph {name!r}: known are {', '.join(NAMES)}")
    paths = {path.name: path for path in fetch(name)}
    if "cora.content" in paths:
        return read_cora_text(paths["cora.content"], paths["cora.cites"])
    return read_planetoid(name, {part.removeprefix(f"ind.{name}."): path for part, path in paths.items()})


def read_planetoid(name: str, paths: dict[str, Path]) -> NodeDataset:
    """Put Planetoid's parts together: ``allx`` and ``ally`` in order, then ``tx`` and ``ty`` where ``test.index`` says.

    Citeseer's ``test.index`` skips 15 nodes without words or subject: they get zero features and the label -1.
    Ten of them are in the largest component. (Other loaders count them as class 0, an artefact of an arg-max of zeros.)
    """
    parts = {part: unpickle(paths[part]) for part in ("allx", "ally", "tx", "ty", "graph")}
    test = np.loadtxt(paths["test.index"], dtype=np.int64)
    known = parts["allx"].shape[0]
    n_nodes = max(int(test.max()) + 1, len(parts["graph"]))
    position = np.concatenate([np.arange(known), test])

    words = sp.coo_array(sp.vstack([parts["allx"], parts["tx"]]))
    rows, columns = words.coords
    features = sp.csr_array((words.data.astype(np.float64), (position[rows], columns)), shape=(n_nodes, words.shape[1]))
    labels = np.full(n_nodes, -1, dtype=np.int64)
    labels[position] = np.vstack([parts["ally"], parts["ty"]]).argmax(axis=1)
    return NodeDataset(name, _adjacency(_edges(parts["graph"]), n_nodes), features, labels)


def read_cora_text(content: Path, cites: Path) -> NodeDataset:
    """Cora from ``cora.content`` and ``cora.cites``, its rows put into Planetoid's order.

    The words are in the same order in both publications. Eleven groups of papers have the same words and
    subject; their neighbours distinguish them, except for papers that are interchangeable in the graph too.
    """
    with resources.as_file(resources.files(__package__).joinpath("cora_order.npz")) as path, np.load(path) as order:
        rows = order["rows"].astype(np.int64)
    lines = content.read_text(encoding="ascii").splitlines()
    papers = [lines[row].split("\t") for row in rows]
    node = {paper[0]: index for index, paper in enumerate(papers)}
    features = sp.csr_array(np.array([paper[1:-1] for paper in papers], dtype=np.float64))
    labels = np.array([_CORA_SUBJECTS.index(paper[-1]) for paper in papers], dtype=np.int64)
    pairs = [line.split() for line in cites.read_text(encoding="ascii").splitlines()]
    edges = np.array([(node[cited], node[citing]) for cited, citing in pairs], dtype=np.int64)
    return NodeDataset("cora", _adjacency(edges, len(papers)), features, labels)


def _edges(neighbours: dict[int, list[int]]) -> NDArray[np.int64]:
    pairs: list[Any] = [(node, other) for node, others in neighbours.items() for other in others]
    return np.array(pairs, dtype=np.int64)


def _adjacency(edges: NDArray[np.int64], n_nodes: int) -> sp.csr_array:
    # Both publications list some edges twice: they count once.
    distinct = np.unique(edges, axis=0)
    weights = np.ones(len(distinct), dtype=np.float64)
    return undirected(sp.csr_array((weights, (distinct[:, 0], distinct[:, 1])), shape=(n_nodes, n_nodes)))
