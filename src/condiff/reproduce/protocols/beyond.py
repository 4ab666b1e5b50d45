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
from condiff.reproduce.splits import TRAIN_PER_CLASS, VALIDATION_PER_CLASS, Split, random_splits

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from condiff.reproduce.baselines.node.method import Outcome
    from condiff.reproduce.baselines.node.problem import NodeProblem

DEFAULT = "COIN-mixture"
#: What others are compared with, split by split: the first that was run.
OURS = ("COIN-adaptive", DEFAULT)
SHARE = 0.1


@lru_cache(maxsize=4)
def load(source: str) -> NodeDataset:
    """A graph by its name or path; the heterophilous ones whole, because their published splits are of all nodes."""
    return heterophilous.load(source) if source in heterophilous.NAMES else node.load(source)


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
    labels: Literal["even", "tenth", "published"] = option(
        "even",
        "even: 20 nodes per class to train and 30 to validate; tenth: a tenth of every class for each; published: the "
        "splits that a heterophilous graph came with.",
        metavar="even|tenth|published",
    )
    splits: int = option(10, "Splits, from the first on.", low=1)
    inits: int = option(2, "Random initialisations of each split.", low=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.labels not in ("even", "tenth", "published"):
            raise InvalidInputError(f"--labels must be even, tenth or published, not {self.labels!r}")


class Beyond(Protocol):
    """Node classification by methods that the paper does not have.

    The condition of even labels is that of the paper's own protocol, so that splits and results can be paired.
    """

    name = "beyond"
    title = "Beyond the paper"
    about = ABOUT["beyond"]
    examples = (
        "condiff bench beyond cora citeseer pubmed --method COIN-mixture,COIN-shares --splits 20",
        "condiff bench beyond texas squirrel --labels published --method MLP,GCN,COIN-adaptive",
        "condiff bench beyond cora --method COIN-resolvent --set shares=false --splits 20",
    )
    options = BeyondOptions
    baselines = "condiff.reproduce.baselines.beyond"
    metrics = ("accuracy",)

    def cases(self, options: BeyondOptions) -> Iterator[tuple[Case, dict[int, Split]]]:
        for target in options.targets:
            labels = load(target).labels
            condition = Condition(labels=options.labels)
            if options.labels == "even":
                splits = random_splits(labels, options.splits)
                condition = Condition(train_per_class=TRAIN_PER_CLASS, validation_per_class=VALIDATION_PER_CLASS)
            elif options.labels == "tenth":
                splits = {seed: share_split(labels, seed) for seed in range(options.splits)}
            else:
                splits = dict(list(heterophilous.own_splits(target).items())[: options.splits])
            yield Case(load(target).name, condition, _fingerprint(target), target), splits

    def options_of(self, runs: Sequence[Run]) -> BeyondOptions:
        labels: Any = runs[0].condition.get("labels", "even")
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
        return node.problem(load(case.source), split)

    def measure(self, job: Job, outcome: Outcome) -> dict[str, float]:
        right = outcome.scores.argmax(-1).numpy() == load(job.case.source).labels
        parts = {"accuracy": job.split.test, "validation_accuracy": job.split.validation}
        return {name: 100 * float(right[part].mean()) for name, part in parts.items()}

    def describe(self, dataset: str, condition: Condition) -> tuple[str, ...]:
        words = {"tenth": ("10 % of the labels",), "published": ("published splits",)}
        return (dataset.capitalize(), *words.get(str(condition.get("labels")), ()))

    def published_as(self, dataset: str, condition: Condition) -> tuple[str, str | None] | None:
        return None

    def pictures(self, jobs: Sequence[Job], runs: Sequence[Run], rows: Sequence[Row]) -> dict[str, Figure]:
        return {"accuracy.png": figures.draw_intervals(rows)}

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
                tables.append(f"### {heading}\n\n{pairs_markdown(paired(found, ('accuracy',), ours))}\n")
        return {"pairs.md": "\n".join(tables)} if tables else {}


@lru_cache(maxsize=4)
def _fingerprint(source: str) -> str:
    return node.fingerprint(load(source))
