"""The paper's protocol for node classification: largest component, scaled features, 20 / 30 / rest nodes per class."""

from __future__ import annotations

import hashlib
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from condiff.errors import InvalidInputError, StepSizeWarning
from condiff.readers.node import NodeDataset, largest_component
from condiff.reproduce import figures
from condiff.reproduce.datasets.graphs import load_graph
from condiff.reproduce.protocol import Case, Job, Options, Protocol, option
from condiff.reproduce.protocols import ABOUT, PROTOCOLS
from condiff.reproduce.published import published
from condiff.reproduce.rows import Row
from condiff.reproduce.runs import Condition, Run
from condiff.reproduce.splits import (
    TRAIN_PER_CLASS,
    VALIDATION_PER_CLASS,
    Split,
    public_split,
    random_splits,
    read_splits,
    write_splits,
)
from condiff.reproduce.summary import rows_of

if TYPE_CHECKING:
    import scipy.sparse as sp
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from condiff.graph import Graph
    from condiff.reproduce.baselines.node.method import Outcome
    from condiff.reproduce.baselines.node.problem import NodeProblem

#: Nodes and undirected edges of the largest components, as in the paper's table.
SIZES = {"cora": (2485, 5069), "citeseer": (2120, 3679), "pubmed": (19717, 44324)}
_PUBLIC = Condition(split="public")


@lru_cache(maxsize=8)
def load(source: str, whole: bool = False) -> NodeDataset:
    """A citation graph by its name, or a user's graph by its path; its largest component, labelled or not, or all."""
    if whole:
        return load_graph(source)
    whole_graph = load(source, True)
    dataset = _without_empty_classes(largest_component(whole_graph))
    if whole_graph.n_classes and dataset.n_classes < 2:
        part = f" its largest component, {dataset.n_nodes} of {whole_graph.n_nodes} nodes, has"
        where = part if dataset.n_nodes < whole_graph.n_nodes else " its nodes have"
        raise InvalidInputError(
            f"{source}:{where} {'one class' if dataset.n_classes else 'no label'}: two classes at least are needed"
        )
    if source in SIZES and not _is_published(dataset):
        raise InvalidInputError(
            f"{source} should have {SIZES[source][0]} nodes and {SIZES[source][1]} edges in its largest component, "
            f"but has {dataset.n_nodes} and {dataset.n_edges}: its files differ from the published ones"
        )
    return dataset


def _without_empty_classes(dataset: NodeDataset) -> NodeDataset:
    """Classes numbered again where the largest component has no node of some: no split could hold one."""
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
    import scipy.sparse as sp

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
    from condiff.graph import Graph

    return Graph.of(dataset.adjacency), row_normalised(dataset.features, binary=_is_published(dataset))


def problem(dataset: NodeDataset, split: Split) -> NodeProblem:
    """A split as a method sees it: every label outside of training and validation is -1."""
    import torch

    from condiff.reproduce.baselines.node.problem import NodeProblem

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


@dataclass(frozen=True, kw_only=True)
class NodeOptions(Options):
    """The options of ``condiff reproduce node``."""

    targets: tuple[str, ...] = option(
        help="cora, citeseer, pubmed; or a graph file (.npz, .mtx, .graphml, .pt, edges) or folder.",
        metavar="GRAPH...",
        argument=True,
    )
    splits: int = option(10, "Random splits; 100 in the paper.", low=1)
    inits: int = option(2, "Random initialisations of each split; 20 in the paper.", low=1)
    train_per_class: int = option(TRAIN_PER_CLASS, "Training nodes per class.", low=1)
    validation_per_class: int = option(VALIDATION_PER_CLASS, "Validation nodes per class.", low=1)
    split: str = option(
        "random", "random, or public: the fixed split of the citation graphs, all of their nodes.", metavar="KIND"
    )
    import_splits: Path | None = option(None, "Take the splits of this file instead of drawing them.", metavar="FILE")
    export_splits: Path | None = option(None, "Write the splits, all node numbers of them, as JSON.", metavar="FILE")

    def __post_init__(self) -> None:
        super().__post_init__()
        if named := [target for target in self.targets if target in PROTOCOLS]:
            raise InvalidInputError(f"{named[0]} is a benchmark of its own: condiff reproduce {named[0]} ...")
        if self.split not in ("random", "public"):
            raise InvalidInputError(f"--split must be random or public, not {self.split!r}")
        if self.split == "public" and (other := next((each for each in self.targets if each not in SIZES), None)):
            raise InvalidInputError(f"{other} has no public split, only {', '.join(SIZES)} have: leave out --split")
        if self.split == "public" and (self.import_splits or self.export_splits):
            raise InvalidInputError("the public split is fixed: leave out --import-splits and --export-splits")
        if (self.import_splits or self.export_splits) and len(self.targets) > 1:
            raise InvalidInputError("splits are of one graph: give one graph with --import-splits or --export-splits")


class Node(Protocol):
    """Node classification on the largest component of a graph.

    Its condition has the training and validation nodes per class; None where imported splits have no such number.
    """

    name = "node"
    title = "Node classification"
    about = ABOUT["node"]
    examples: ClassVar[tuple[str, ...]] = (
        "condiff reproduce node cora",
        "condiff reproduce node cora citeseer --method COIN,GCN,APPNP --splits 20 --inits 5",
        "condiff reproduce node cora --split public --method all",
        "condiff reproduce node my_graph.npz --method all --train-per-class 5 --validation-per-class 5",
    )
    options = NodeOptions
    baselines = "condiff.reproduce.baselines.node"
    metrics = ("accuracy",)

    def cases(self, options: NodeOptions) -> Iterator[tuple[Case, dict[int, Split]]]:
        for target in options.targets:
            if options.split == "public":
                source = target, True
                yield Case(target, _PUBLIC, _fingerprint(*source), source), {0: public_split(load(*source).labels)}
                continue
            dataset = load(target)
            if options.import_splits:
                splits = read_splits(options.import_splits, dataset.labels)
            else:
                sizes = {
                    "train_per_class": options.train_per_class,
                    "validation_per_class": options.validation_per_class,
                }
                splits = random_splits(dataset.labels, options.splits, **sizes)
            if options.export_splits:
                write_splits(options.export_splits, splits, dataset.name, dataset.labels)
            found: dict[Case, dict[int, Split]] = {}  # imported splits may be of several sizes
            for seed, split in splits.items():
                found.setdefault(case_of(target, split), {})[seed] = split
            yield from found.items()

    def options_of(self, runs: Sequence[Run]) -> NodeOptions | None:
        first, condition = runs[0], runs[0].condition
        if first.dataset not in SIZES or None in condition.values():
            return None  # a user's file, or splits from one
        if condition == _PUBLIC:
            return NodeOptions(targets=(first.dataset,), split="public")
        return NodeOptions(
            targets=(first.dataset,),
            splits=1 + max(run.split for run in runs),
            train_per_class=int(condition.number("train_per_class")),
            validation_per_class=int(condition.number("validation_per_class")),
        )

    def dataset(self, case: Case) -> NodeDataset:
        """The graph of a case, with all of its labels."""
        return load(*case.source)

    def problem(self, case: Case, seed: int, split: Split) -> NodeProblem:
        return problem(self.dataset(case), split)

    def measure(self, job: Job, outcome: Outcome) -> dict[str, float]:
        right = outcome.scores.argmax(-1).numpy() == self.dataset(job.case).labels
        return {
            "accuracy": 100 * float(right[job.split.test].mean()),
            "validation_accuracy": 100 * float(right[job.split.validation].mean()),
            **outcome.chosen,
        }

    def notes(self, options: NodeOptions) -> list[str]:
        from condiff.diffusion import certify
        from condiff.reproduce.baselines.node.coin_chosen import ChosenCOIN

        found = []
        for target in options.targets:
            dataset = load(target)
            if target not in SIZES and (n := load(target, True).n_nodes) > dataset.n_nodes:
                found.append(
                    f"{dataset.name}: its largest component is taken, {dataset.n_nodes} of {n} nodes; the others are "
                    "left out"
                )
            coin: Any = self.methods(Case(dataset.name), options).get("COIN")
            if coin is None:
                continue
            certificate = certify(_inputs(dataset)[0].normalised(self_loops="add"))
            strength = coin.asked if isinstance(coin, ChosenCOIN) else coin.strength
            problem = None if strength is None else certificate.problem(strength)
            if problem is not None and target in SIZES and not options.changes:
                found.append(f"{dataset.name}: the paper's {problem}")
            elif problem is not None:
                warnings.warn(f"{dataset.name}: {problem}", StepSizeWarning, stacklevel=2)
            elif strength is None:
                limits = (
                    f"positive up to a strength of {certificate.positivity_limit:.3g}, stable up to "
                    f"{certificate.stability_limit:.3g}"
                )
                how = "'s layers are within them" if coin.explicit else " takes one implicit step, which has no limit"
                found.append(
                    f"{dataset.name}: COIN{how} (explicit layers are {limits}); validation nodes weigh times of the "
                    "diffusion, weight decays, features as they are and averaged over neighbours first, and edges in "
                    "their place"
                )
        return found

    def remarks(self, jobs: Sequence[Job], runs: Sequence[Run]) -> list[str]:
        groups: dict[tuple[str, str], list[tuple[Job, Run]]] = defaultdict(list)
        for job, run in zip(jobs, runs, strict=True):
            groups[run.dataset, run.method].append((job, run))
        found = []
        for (dataset, method), own in groups.items():
            if "weight_decay" in own[0][1].metrics:
                found.append(f"{dataset}: in {method} counts most {_chosen([run for _, run in own])}")
            if (chance := _at_chance(own, self.dataset(own[0][0].case).labels)) is not None:
                found.append(
                    f"{dataset}: {method} is right at {chance[1]:.1f} % of the {chance[0]} nodes, no better than "
                    f"chance ({chance[2]:.1f} %): the graph or the features tell too little of the classes. Compare "
                    "MLP, which does without the graph, and LabelPropagation, which does without features"
                )
        return found

    def summarise(self, runs: Sequence[Run]) -> list[Row]:
        """The common protocol is compared with the paper's table; the public split with what authors report of it."""
        return [_as_reported(row) if row.condition == _PUBLIC else row for row in rows_of(runs)]

    def published_as(self, dataset: str, condition: Condition) -> tuple[str, str | None] | None:
        return None if condition == _PUBLIC else (dataset, None)

    def describe(self, dataset: str, condition: Condition) -> tuple[str, ...]:
        usual = {"train_per_class": TRAIN_PER_CLASS, "validation_per_class": VALIDATION_PER_CLASS}
        if dict(condition) in ({}, usual):
            sizes = ""
        elif condition == _PUBLIC:
            sizes = "public split"
        elif None in condition.values():
            sizes = "imported splits"
        else:
            sizes = f"{condition['train_per_class']} + {condition['validation_per_class']} nodes per class"
        title = dataset.capitalize() if dataset in SIZES else dataset
        return (title, sizes) if sizes else (title,)

    def pictures(self, jobs: Sequence[Job], runs: Sequence[Run], rows: Sequence[Row]) -> dict[str, Figure]:
        return {
            "accuracy.png": figures.draw_intervals(rows),
            "time.png": figures.draw_times(rows),
            "memory.png": figures.draw_memory(rows),
        }


def case_of(source: str, split: Split) -> Case:
    """A graph with splits of this size."""
    dataset = load(source)
    train, validation = (_per_class(dataset, part) for part in (split.train, split.validation))
    condition = Condition(train_per_class=train, validation_per_class=validation)
    return Case(dataset.name, condition, _fingerprint(source), (source,))


def _as_reported(row: Row) -> Row:
    found = published(row.task, row.dataset, row.method, f"{row.metric}_reported_by_authors")
    return replace(row, published=found.value, published_std=found.spread) if found else row


def _chosen(runs: Sequence[Run]) -> str:
    """Which settings runs chose, and how often each."""
    names = {"time": "a total time of", "smoothed": "features averaged", "weight_decay": "a weight decay of"}
    texts = []
    for name, words in names.items():
        counts = Counter(f"{run.metrics[name]:.3g}" for run in runs if name in run.metrics)
        times = " times" if name == "smoothed" else ""
        shown = ", ".join(f"{value}{times} ({number} of {len(runs)} runs)" for value, number in counts.most_common())
        texts += [f"{words} {shown}"] if shown else []
    edges = sum(bool(run.metrics.get("edges")) for run in runs)
    texts += [f"edges instead of features ({edges} of {len(runs)} runs)"] if edges else []
    return "; ".join(texts)


def _at_chance(own: Sequence[tuple[Job, Run]], labels: NDArray[np.int64]) -> tuple[str, float, float] | None:
    """Where answers cannot be told from always giving the most frequent class: which nodes, accuracy and guess, in %.

    At validation nodes too, of which there are equally many per class; but these have chosen weights and settings.
    """
    split = own[0][0].split
    for part, nodes, name in (
        ("test", split.test, "accuracy"),
        ("validation", split.validation, "validation_accuracy"),
    ):
        if not len(nodes):
            continue
        guess = np.bincount(labels[nodes]).max() / len(nodes)
        right = float(np.mean([run.metrics[name] for _, run in own]))
        if right <= 100 * (guess + 2 * float(np.sqrt(guess * (1 - guess) / len(nodes)))):
            return part, right, 100 * guess
    return None


def _per_class(dataset: NodeDataset, nodes: NDArray[np.int64]) -> int | None:
    counts = np.unique(np.bincount(dataset.labels[nodes], minlength=dataset.n_classes))
    return int(counts[0]) if len(counts) == 1 else None


@lru_cache(maxsize=4)
def _fingerprint(source: str, whole: bool = False) -> str:
    return fingerprint(load(source, whole))
