"""The paper's protocol for node classification: largest component, scaled features, 20 / 30 / rest nodes a class."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import scipy.sparse as sp
import torch

from condiff.errors import InvalidInputError
from condiff.graph import Graph
from condiff.readers.node import NodeDataset, largest_component
from condiff.reproduce.baselines.node.method import NodeMethod
from condiff.reproduce.baselines.node.problem import NodeProblem
from condiff.reproduce.datasets.graphs import load_graph
from condiff.reproduce.memory import peak_memory
from condiff.reproduce.runs import Run
from condiff.reproduce.splits import Split
from condiff.reproduce.store import Key

#: What the paper reports.
METRIC = "accuracy"
#: Nodes and undirected edges of the largest components, as in the paper's table.
SIZES = {"cora": (2485, 5069), "citeseer": (2120, 3679), "pubmed": (19717, 44324)}


@lru_cache(maxsize=4)
def load(source: str) -> NodeDataset:
    """A citation graph by its name, or a user's graph by its path; its largest component, labelled or not."""
    dataset = _without_empty_classes(largest_component(load_graph(source)))
    if source in SIZES and not _is_published(dataset):
        raise InvalidInputError(
            f"{source} should have {SIZES[source][0]} nodes and {SIZES[source][1]} edges in its largest component, "
            f"but has {dataset.n_nodes} and {dataset.n_edges}: its files differ from the published ones"
        )
    return dataset


def _without_empty_classes(dataset: NodeDataset) -> NodeDataset:
    """Classes numbered anew where the largest component has no node of some: no split could hold one."""
    present, labels = np.unique(dataset.labels, return_inverse=True)
    labels = labels.astype(np.int64) - int(-1 in present)
    names = tuple(dataset.class_names[label] for label in present if label >= 0) if dataset.class_names else ()
    return replace(dataset, labels=labels, class_names=names)


def _is_published(dataset: NodeDataset) -> bool:
    return (dataset.n_nodes, dataset.n_edges) == SIZES.get(dataset.name)


def fingerprint(dataset: NodeDataset) -> str:
    """The first 16 hexadecimal digits of a SHA-256 over edges, features and labels."""
    digest = hashlib.sha256(dataset.labels.astype("<i8").tobytes())
    for matrix in (dataset.adjacency, dataset.features):
        for part, form in ((matrix.indptr, "<i8"), (matrix.indices, "<i8"), (matrix.data, "<f8")):
            digest.update(part.astype(form).tobytes())
    return digest.hexdigest()[:16]


def row_normalised(features: sp.csr_array, *, binary: bool) -> sp.csr_array:
    """Features made 0/1 if ``binary``, then divided by their row's sum of sizes; rows without any stay zero."""
    scaled = features.copy()
    scaled.eliminate_zeros()
    if binary:
        scaled.data = np.ones_like(scaled.data)
    sums = np.asarray(abs(scaled).sum(axis=1)).ravel()
    return sp.csr_array(sp.diags_array(np.divide(1.0, sums, out=np.zeros_like(sums), where=sums > 0)) @ scaled)


@lru_cache(maxsize=4)
def _inputs(dataset: NodeDataset) -> tuple[Graph, sp.csr_array]:
    """Graph and features as methods get them, the same objects for all splits: a method may keep what it derives.

    The paper's graphs have words, of which only the presence counts. A user's features keep their values.
    """
    return Graph.of(dataset.adjacency), row_normalised(dataset.features, binary=_is_published(dataset))


def problem(dataset: NodeDataset, split: Split) -> NodeProblem:
    """What a method may see of a split: every label outside of training and validation is -1."""
    labels = np.full(dataset.n_nodes, -1, dtype=np.int64)
    for part in (split.train, split.validation):
        labels[part] = dataset.labels[part]
    graph, features = _inputs(dataset)
    return NodeProblem(
        dataset.name,
        graph,
        features,
        torch.from_numpy(labels),
        dataset.n_classes,
        torch.from_numpy(split.train),
        torch.from_numpy(split.validation),
    )


@dataclass(frozen=True, eq=False)
class NodeJob:
    """One method on one split from one initialisation."""

    source: str
    dataset: str
    fingerprint: str
    name: str
    method: NodeMethod
    seed: int
    split: Split
    init: int

    @property
    def key(self) -> Key:
        """What the run is known by."""
        identity = f"{self.fingerprint}/{self.split.hash}"
        return Key("node", self.dataset, self.name, self.method.settings(), self.seed, self.init, identity)

    def run(self) -> Run:
        """Train and test; the same job gives the same predictions wherever it runs."""
        dataset = load(self.source)
        # One seed for each pair, far from those of neighbouring pairs.
        seed = int(np.random.SeedSequence([self.seed, self.init]).generate_state(1)[0])
        with peak_memory() as peak:
            outcome = self.method.solve(_latest_problem(self.source, self.split), seed)
        right = outcome.scores.argmax(-1).numpy() == dataset.labels
        metrics = {
            METRIC: 100 * float(right[self.split.test].mean()),
            "validation_accuracy": 100 * float(right[self.split.validation].mean()),
        }
        return self.key.run(metrics, epochs=outcome.epochs, seconds=outcome.seconds, memory_mb=peak.megabytes)


def jobs(source: str, methods: dict[str, NodeMethod], splits: dict[int, Split], inits: int) -> list[NodeJob]:
    """Every method on every split from every initialisation, split by split, so that all methods advance together."""
    dataset = load(source)
    known = fingerprint(dataset)
    return [
        NodeJob(source, dataset.name, known, name, method, seed, split, init)
        for seed, split in splits.items()
        for name, method in methods.items()
        for init in range(inits)
    ]


# The problem of the last split: initialisations of one split come one after another.
_latest: tuple[str, str, NodeProblem] | None = None


def _latest_problem(source: str, split: Split) -> NodeProblem:
    global _latest
    if _latest is None or _latest[:2] != (source, split.hash):
        _latest = (source, split.hash, problem(load(source), split))
    return _latest[2]
