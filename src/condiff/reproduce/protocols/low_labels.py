"""MNIST with one to five labels per class: the benchmark of learning on graphs at very low label rates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from condiff.errors import InvalidInputError
from condiff.reproduce.baselines.method import Answers
from condiff.reproduce.datasets import mnist
from condiff.reproduce.pairs import Pair, paired
from condiff.reproduce.protocol import Case, Job, Options, Protocol, Shown, option
from condiff.reproduce.protocols import ABOUT
from condiff.reproduce.runs import Condition
from condiff.reproduce.splits import Split

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.figure import Figure

    from condiff.reproduce.baselines.lowlabels.field import FieldGraph
    from condiff.reproduce.baselines.lowlabels.method import LowLabelMethod, LowLabelProblem
    from condiff.reproduce.rows import Row
    from condiff.reproduce.runs import Run

#: Accuracy at one and at five labels per class that Calder et al. (2020) publish, on features of their autoencoder.
PUBLISHED = {
    "Laplace": (16.1, 69.5),
    "Poisson": (90.2, 95.3),
    "PoissonMBO": (96.5, 97.2),
    "VolumeMBO": (89.9, 96.7),
}
#: What is compared draw by draw: without the sizes of the classes, and with these.
COMPARED = (("COIN", "Poisson"), ("COIN", "LabelSpreading"), ("COIN-sizes", "PoissonMBO"))


@dataclass(frozen=True, kw_only=True)
class LowLabelsOptions(Options):
    """The options of ``condiff bench low-labels``."""

    method: str = option("all", "Methods, separated by commas; 'all' for every one.", metavar="A,B|all")
    features: str = option("autoencoder", "What images are compared by.", metavar="autoencoder|pixels|all")
    budget: str = option("1,2,3,4,5", "Labels per class.", metavar="1,2,3,4,5")
    draws: int = option(mnist.DRAWS, "How many of the published draws, from the first on.", low=1, high=mnist.DRAWS)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.features not in (*mnist.FEATURES, "all"):
            raise InvalidInputError(f"--features must be autoencoder, pixels or all, not {self.features!r}")
        if not set(self.budget.replace(" ", "").split(",")) <= {str(budget) for budget in mnist.BUDGETS}:
            raise InvalidInputError(f"--budget must be some of 1,2,3,4,5, not {self.budget!r}")

    @property
    def budgets(self) -> list[int]:
        """Labels per class."""
        return sorted({int(each) for each in self.budget.split(",")})

    @property
    def chosen_features(self) -> list[mnist.Features]:
        """What images are compared by."""
        return [each for each in mnist.FEATURES if self.features in (each, "all")]


class LowLabels(Protocol):
    """MNIST under the published draws of its labels; the condition has ``features`` and ``labels`` per class."""

    name = "low-labels"
    title = "MNIST at very low label rates"
    about = ABOUT["low-labels"]
    examples = (
        "condiff bench low-labels --draws 10 --out results/low-labels",
        "condiff bench low-labels --method COIN,Poisson --features pixels --budget 1,5 --draws 5",
    )
    options = LowLabelsOptions
    baselines = "condiff.reproduce.baselines.lowlabels"
    metrics = ("accuracy", "seconds")
    on_screen = ("accuracy",)
    watches_memory = False

    def cases(self, options: LowLabelsOptions) -> list[tuple[Case, dict[int, Split]]]:
        everything, found = np.arange(len(mnist.images()[1])), []
        for features in options.chosen_features:
            for budget in options.budgets:
                splits = {}
                for seed in range(options.draws):
                    known = np.sort(mnist.draws()[budget][seed])
                    splits[seed] = Split(known, np.empty(0, np.int64), np.setdiff1d(everything, known))
                condition = Condition(features=features, labels=budget)
                found.append((Case("mnist", condition, mnist.fingerprint(features)), splits))
        return found

    def options_of(self, runs: Sequence[Run]) -> LowLabelsOptions:
        condition, draws = runs[0].condition, 1 + max(run.split for run in runs)
        return LowLabelsOptions(features=str(condition["features"]), budget=str(condition["labels"]), draws=draws)

    def jobs(self, options: LowLabelsOptions) -> list[Job]:
        """Draw by draw, so that what is there after a while is a comparison of all methods."""
        return sorted(super().jobs(options), key=lambda job: (job.seed, str(job.case.condition["features"])))

    def fetch(self, options: LowLabelsOptions, shown: Shown) -> None:
        for features in options.chosen_features:
            mnist.field_graph(features)

    def methods(self, case: Case, options: LowLabelsOptions) -> Mapping[str, LowLabelMethod]:
        from condiff.reproduce.baselines.lowlabels import REGISTRY

        return REGISTRY.chosen(options.method, case.dataset, options.changes, case.condition)

    def problem(self, case: Case, seed: int, split: Split) -> LowLabelProblem:
        from condiff.reproduce.baselines.lowlabels.method import LowLabelProblem

        points, graph, place = in_order(features_of(case))
        truth = mnist.images()[1]
        known = np.argsort(place[split.train])
        return LowLabelProblem(
            f"mnist-{features_of(case)}",
            points,
            graph,
            place[split.train][known],
            truth[split.train][known],
            np.bincount(truth),
        )

    def batches(self, jobs: Sequence[Job]) -> list[list[Job]]:
        """As many draws of a method together as it solves best at once."""
        found: dict[tuple[Any, ...], list[list[Job]]] = {}
        for job in jobs:
            alike = found.setdefault((job.name, repr(job.method), job.case.condition["features"]), [[]])
            if len(alike[-1]) >= job.method.at_once:
                alike.append([])
            alike[-1].append(job)
        first = {id(job): number for number, job in enumerate(jobs)}
        return sorted((batch for alike in found.values() for batch in alike), key=lambda batch: first[id(batch[0])])

    def solve_batch(self, jobs: Sequence[Job]) -> list[Answers]:
        problems = [self.problem(job.case, job.seed, job.split) for job in jobs]
        found: list[Answers] = jobs[0].method.solve_batch(problems, [job.method_seed for job in jobs])
        return found

    def measure(self, job: Job, outcome: Answers) -> dict[str, float]:
        test = job.split.test
        answers = outcome.answers[in_order(features_of(job.case))[2]]
        right = answers[test] == mnist.images()[1][test]
        return {"accuracy": round(100 * float(right.mean()), 4)}

    def summarise(self, runs: Sequence[Run]) -> list[Row]:
        """The usual rows, beside what the field has published."""
        return [replace(row, published=published(row)) for row in super().summarise(runs)]

    def describe(self, dataset: str, condition: Condition) -> tuple[str, ...]:
        labels = f"{condition['labels']} label{'s' * (condition['labels'] != 1)} per class"
        return (f"MNIST, {condition['features']}", labels)

    def published_as(self, dataset: str, condition: Condition) -> tuple[str, str | None] | None:
        return None

    def texts(self, runs: Sequence[Run]) -> dict[str, str]:
        return {"pairs.md": "\n\n".join(filter(None, (pairs_markdown(runs, each) for each in mnist.FEATURES))) + "\n"}

    def pictures(self, jobs: Sequence[Job], runs: Sequence[Run], rows: Sequence[Row]) -> dict[str, Figure]:
        from condiff.reproduce.figures.low_labels import draw_low_labels

        return {
            f"accuracy-{features}.png": draw_low_labels(rows, features)
            for features in mnist.FEATURES
            if any(row.condition.get("features") == features for row in rows)
        }


def features_of(case: Case) -> mnist.Features:
    """What images are compared by."""
    return "pixels" if case.condition["features"] == "pixels" else "autoencoder"


@lru_cache(maxsize=2)
def in_order(features: mnist.Features) -> tuple[NDArray[np.float32], FieldGraph, NDArray[np.int64]]:
    """The points and their graph as methods see them, neighbours close together, and the place of every image."""
    from condiff.reproduce.baselines.lowlabels.field import FieldGraph

    order, weights = mnist.order(features), mnist.field_graph(features)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    moved = sp.csr_array(weights[order][:, order])
    moved.sort_indices()
    return mnist.points(features)[order], FieldGraph(moved, partial(mnist.kept_modes, features)), place


def published(row: Row) -> float | None:
    """The published accuracy of a method at one or at five labels per class; None where there is none."""
    if row.metric != "accuracy" or row.condition.get("features") != "autoencoder":
        return None
    return dict(zip((1, 5), PUBLISHED.get(row.method, ()), strict=False)).get(int(row.condition.number("labels")))


def means_markdown(runs: Sequence[Run], features: mnist.Features) -> str:
    """One line per method, those that are told the sizes last: mean and standard deviation over draws."""
    from condiff.reproduce.baselines.lowlabels import REGISTRY
    from condiff.reproduce.figures.low_labels import draws_of

    found = [run for run in runs if run.condition["features"] == features]
    names = [name for name in REGISTRY.methods if any(run.method == name for run in found)]
    head = ["", *(f"{budget} label{'s' * (budget > 1)} per class" for budget in mnist.BUDGETS), "draws of each"]
    lines = ["| " + " | ".join(head) + " |", "| --- |" + " ---: |" * (len(head) - 1)]
    for name in sorted(names, key=lambda name: REGISTRY.get(name).knows_sizes):
        every = [
            [run.metrics["accuracy"] for run in found if run.method == name and labels_of(run) == budget]
            for budget in mnist.BUDGETS
        ]
        cells = [f"{np.mean(own):.1f}{_spread(own)}" if own else "-" for own in every]
        told = ", told the sizes" * REGISTRY.get(name).knows_sizes
        lines.append(f"| {name}{told} | " + " | ".join([*cells, draws_of([len(own) for own in every if own])]) + " |")
    return "\n".join(lines)


def _spread(values: Sequence[float]) -> str:
    return f" ± {np.std(values, ddof=1):.1f}" if len(values) > 1 else ""


def pairs_markdown(runs: Sequence[Run], features: mnist.Features) -> str:
    """How far COIN is ahead draw by draw, without and with the sizes of the classes; empty where it was not run."""
    columns = {pair: f"{pair[0]} over {pair[1]} | draws won" for pair in COMPARED}
    head = f"| {features}: labels per class | " + " | ".join(columns.values()) + " |"
    lines = [head, "| ---: |" + " ---: | ---: |" * len(columns)]
    for budget in mnist.BUDGETS:
        found = [run for run in runs if run.condition["features"] == features and labels_of(run) == budget]
        cells = []
        for ours, theirs in columns:
            both = [run for run in found if run.method in (ours, theirs)]
            pair = next(iter(paired(both, ["accuracy"], ours)), None) if any(r.method == ours for r in both) else None
            cells.append("- | -" if pair is None else _compared(pair))
        if any(cell != "- | -" for cell in cells):
            lines.append(f"| {budget} | " + " | ".join(cells) + " |")
    return "\n".join(lines) if len(lines) > 2 else ""


def _compared(pair: Pair) -> str:
    error = "" if pair.stderr is None else f" ± {pair.stderr:.2f}"
    return f"{pair.difference:+.2f}{error} | {pair.wins:g} of {pair.splits}"


def labels_of(run: Run) -> int:
    """How many labels per class a run had."""
    return int(run.condition.number("labels"))
