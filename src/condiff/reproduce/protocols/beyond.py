"""Variants beyond the paper, on graphs whose neighbours agree and on graphs whose neighbours do not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from condiff.errors import InvalidInputError
from condiff.readers.node import NodeDataset
from condiff.reproduce import figures
from condiff.reproduce.datasets import heterophilous
from condiff.reproduce.pairs import paired, pairs_markdown
from condiff.reproduce.protocol import Case, Job, Options, Protocol, option
from condiff.reproduce.protocols import ABOUT, node
from condiff.reproduce.rows import Row
from condiff.reproduce.runs import Condition, Run
from condiff.reproduce.splits import TRAIN_PER_CLASS, VALIDATION_PER_CLASS, Split, public_split, random_splits

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from condiff.reproduce.baselines.node.method import Outcome
    from condiff.reproduce.baselines.node.problem import NodeProblem

DEFAULT = "COIN-mixture"
#: What others are compared with, split by split: the first that was run.
OURS = ("COIN-adaptive", DEFAULT)
SHARE = 0.1
#: Methods that are there to be ablated, with many settings: left out of pictures.
ABLATED = ("COIN-additions", "COIN-learned", "COIN-equation", "Equation")
#: The kinds of labels, and what a table of each is called.
KINDS = {
    "even": "20 labels per class",
    "tenth": "A tenth of the labels",
    "published": "Published splits",
    "public": "The public split",
}


@lru_cache(maxsize=4)
def load(source: str, whole: bool = False) -> NodeDataset:
    """A graph by its name or path; the heterophilous ones whole, because their published splits are of all nodes."""
    return heterophilous.load(source) if source in heterophilous.NAMES else node.load(source, whole)


def kind(condition: Condition) -> str:
    """Which of :data:`KINDS` the labels of a condition are."""
    return str(condition.get("labels", condition.get("split", "even")))


def share_split(labels: NDArray[np.int64], seed: int, share: float = SHARE) -> Split:
    """This share of every class to train, as many to validate, and the rest to test; one of each class at least."""
    generator = np.random.default_rng([seed, len(labels)])
    parts: tuple[list[NDArray[np.int64]], ...] = ([], [], [])
    for label in range(int(labels.max()) + 1):
        members = generator.permutation(np.flatnonzero(labels == label))
        count = max(1, round(share * members.size))
        for part, nodes in zip(parts, np.split(members, [count, 2 * count]), strict=True):
            part.append(nodes)
    return Split(*(np.sort(np.concatenate(part)) for part in parts))


@dataclass(frozen=True, kw_only=True)
class BeyondOptions(Options):
    """The options of ``condiff bench beyond``."""

    targets: tuple[str, ...] = option(
        help=f"cora, citeseer, pubmed, {', '.join(heterophilous.NAMES)}; or a graph file.",
        metavar="GRAPH...",
        argument=True,
    )
    method: str = option(DEFAULT, "Methods, separated by commas; 'all' for every one.", metavar="A,B|all")
    labels: Literal["even", "tenth", "published", "public"] = option(
        "even",
        "even: 20 nodes per class to train and 30 to validate; tenth: a tenth of every class for each; published: the "
        "splits that a heterophilous graph came with; public: the fixed split of the citation graphs.",
        metavar="even|tenth|published|public",
    )
    splits: int = option(10, "Splits, from the first on.", low=1)
    inits: int = option(2, "Random initialisations of each split.", low=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.labels not in KINDS:
            raise InvalidInputError(f"--labels must be even, tenth, published or public, not {self.labels!r}")
        if self.labels == "public" and (other := next((each for each in self.targets if each not in node.SIZES), None)):
            raise InvalidInputError(f"{other} has no public split, only {', '.join(node.SIZES)} have: choose --labels")


class Beyond(Protocol):
    """Node classification by methods that the paper does not have.

    The conditions of even labels and of the public split are those of the paper's own protocol, so that splits and
    results can be paired. Where there are two classes, and one of them is rare, accuracy says little: the area under
    the ROC curve is measured too.
    """

    name = "beyond"
    title = "Beyond the paper"
    about = ABOUT["beyond"]
    examples = (
        "condiff bench beyond cora citeseer pubmed --method COIN-mixture,COIN-shares --splits 20",
        "condiff bench beyond texas squirrel --labels published --method MLP,GCN,COIN-adaptive",
        "condiff bench beyond cora --method COIN-resolvent --set shares=false --splits 20",
        "condiff bench beyond cora citeseer --labels public --method COIN-mixture,GRAND-random,GCNII --inits 3",
    )
    options = BeyondOptions
    baselines = "condiff.reproduce.baselines.beyond"
    metrics = ("accuracy", "roc_auc")

    def cases(self, options: BeyondOptions) -> Iterator[tuple[Case, dict[int, Split]]]:
        for target in options.targets:
            source = target, options.labels == "public"
            labels = load(*source).labels
            condition = Condition(labels=options.labels)
            if options.labels == "even":
                splits = random_splits(labels, options.splits)
                condition = Condition(train_per_class=TRAIN_PER_CLASS, validation_per_class=VALIDATION_PER_CLASS)
            elif options.labels == "tenth":
                splits = {seed: share_split(labels, seed) for seed in range(options.splits)}
            elif options.labels == "public":
                splits, condition = {0: public_split(labels)}, Condition(split="public")
            else:
                splits = dict(list(heterophilous.own_splits(target).items())[: options.splits])
            yield Case(load(*source).name, condition, _fingerprint(*source), source), splits

    def options_of(self, runs: Sequence[Run]) -> BeyondOptions:
        labels: Any = kind(runs[0].condition)
        return BeyondOptions(targets=(runs[0].dataset,), labels=labels, splits=1 + max(run.split for run in runs))

    def notes(self, options: BeyondOptions) -> list[str]:
        """How often neighbours agree, as far as the first split's labels say."""
        from condiff.reproduce.baselines.beyond.adaptive import homophily

        if "adaptive" not in options.method.lower():
            return []
        return [
            f"{case.dataset}: {homophily(self.problem(case, *next(iter(splits.items()))))}"
            for case, splits in self.cases(options)
        ]

    def problem(self, case: Case, seed: int, split: Split) -> NodeProblem:
        return node.problem(load(*case.source), split)

    def measure(self, job: Job, outcome: Outcome) -> dict[str, float]:
        dataset, test = load(*job.case.source), job.split.test
        right = outcome.scores.argmax(-1).numpy() == dataset.labels
        parts = {"accuracy": test, "validation_accuracy": job.split.validation}
        found = {name: 100 * float(right[part].mean()) for name, part in parts.items()}
        return found | ({"roc_auc": _roc_auc(dataset.labels, outcome, test)} if dataset.n_classes == 2 else {})

    def section(self, row: Row) -> str:
        return KINDS[kind(row.condition)] + (", ROC-AUC" if row.metric == "roc_auc" else "")

    def describe(self, dataset: str, condition: Condition) -> tuple[str, ...]:
        words = {"tenth": ("10 % of the labels",), "published": ("published splits",), "public": ("public split",)}
        return (dataset.capitalize(), *words.get(kind(condition), ()))

    def published_as(self, dataset: str, condition: Condition) -> tuple[str, str | None] | None:
        return None

    def pictures(self, jobs: Sequence[Job], runs: Sequence[Run], rows: Sequence[Row]) -> dict[str, Figure]:
        kept = [row for row in rows if row.method not in ABLATED] or rows
        by_metric = {name: [row for row in kept if row.metric == name] for name in self.metrics}
        return {f"{name}.png": figures.draw_intervals(own) for name, own in by_metric.items() if own}

    def texts(self, runs: Sequence[Run]) -> dict[str, str]:
        """How far ours is ahead of every other method, for each graph and kind of labels."""
        groups: dict[tuple[str, Condition], list[Run]] = {}
        for run in runs:
            groups.setdefault((run.dataset, run.condition), []).append(run)
        tables = []
        for (dataset, condition), found in groups.items():
            methods = {run.method for run in found}
            ours = next((name for name in OURS if name in methods), None)
            if ours is not None and len(methods) > 1:
                heading = ", ".join(self.describe(dataset, condition))
                metrics = [name for name in self.metrics if name in found[0].metrics]
                tables.append(f"### {heading}\n\n{pairs_markdown(paired(found, metrics, ours))}\n")
        return {"pairs.md": "\n".join(tables)} if tables else {}


def _roc_auc(labels: NDArray[np.int64], outcome: Outcome, nodes: NDArray[np.int64]) -> float:
    from sklearn.metrics import roc_auc_score

    scores = outcome.scores.double().numpy()[nodes]
    # The log of no probability at all is infinite, which sklearn refuses.
    return float(roc_auc_score(labels[nodes], np.nan_to_num(scores[:, 1] - scores[:, 0])))


@lru_cache(maxsize=4)
def _fingerprint(source: str, whole: bool) -> str:
    return node.fingerprint(load(source, whole))
