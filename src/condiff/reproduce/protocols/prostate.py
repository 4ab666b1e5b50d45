"""The paper's protocol for prostate cancers: twenty labelled patients, and the others to be classified."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from condiff.errors import InvalidInputError
from condiff.reproduce import figures
from condiff.reproduce.curves import curve_points
from condiff.reproduce.datasets import prostate as source
from condiff.reproduce.datasets import reactome
from condiff.reproduce.datasets.gene_table import GeneTable
from condiff.reproduce.pairs import paired, pairs_texts
from condiff.reproduce.protocol import Case, Job, Options, Protocol, option
from condiff.reproduce.protocols import ABOUT
from condiff.reproduce.rows import Row
from condiff.reproduce.runs import Condition, Run
from condiff.reproduce.splits import Split

if TYPE_CHECKING:
    import scipy.sparse as sp
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from condiff.reproduce.baselines.tabular.method import Outcome
    from condiff.reproduce.baselines.tabular.problem import TabularProblem

#: The paper's name for its table.
PUBLISHED = "p1000-20-train"
#: Splits that were published, and initialisations of each in the paper.
SPLITS = INITS = 10
TRAIN, VALIDATION = 20, 100


@lru_cache(maxsize=1)
def load() -> GeneTable:
    """The 1,011 patients, their alterations and the published splits."""
    return source.load()


@lru_cache(maxsize=1)
def pathways() -> tuple[sp.csr_array, ...]:
    """The Reactome pathways above the table's genes."""
    return reactome.load(load().genes).connections


def random_split(labels: NDArray[np.int64], seed: int, *, train: int = TRAIN, validation: int = VALIDATION) -> Split:
    """Draw patients to train and to validate, each class by its share, as in the published splits; the others test.

    The draw depends on the labels and the seed alone.
    """
    identity = hashlib.sha256(labels.astype("<i8").tobytes()).digest()
    generator = np.random.Generator(np.random.PCG64(np.random.SeedSequence([*identity, seed])))
    parts: tuple[list[NDArray[np.int64]], ...] = ([], [], [])
    positive = float((labels == 1).mean())
    for label, share in ((0, 1 - positive), (1, positive)):
        first, second = round(share * train), round(share * validation)
        members = generator.permutation(np.flatnonzero(labels == label))
        if min(first, second) < 1 or members.size <= first + second:
            raise InvalidInputError(
                f"{members.size} patients of class {label} are too few for {first} to train and {second} to validate, "
                "with at least one of each and some left to test: choose other numbers"
            )
        for part, patients in zip(parts, np.split(members, (first, first + second)), strict=True):
            part.append(patients)
    return Split(*(np.sort(np.concatenate(part)) for part in parts))


def splits(number: int = SPLITS) -> dict[int, Split]:
    """The published splits by their numbers, 0 to 9; from 10 on, random ones of the same sizes with these seeds."""
    table = load()
    return {
        seed: Split(*table.splits[seed]) if seed < len(table.splits) else random_split(table.labels, seed)
        for seed in range(number)
    }


def problem(table: GeneTable, split: Split, hierarchy: tuple[sp.csr_array, ...] = ()) -> TabularProblem:
    """A split as a method sees it: every label outside of training and validation is -1.

    Parameters
    ----------
    table
        The patients.
    split
        Which of them train, validate and test.
    hierarchy
        For P-NET: the connections of :class:`condiff.reproduce.datasets.reactome.Pathways`.
    """
    import torch

    from condiff.reproduce.baselines.tabular.problem import TabularProblem

    labels = np.full(len(table.labels), -1, dtype=np.int64)
    for part in (split.train, split.validation):
        labels[part] = table.labels[part]
    train, validation, test = (torch.from_numpy(part) for part in (split.train, split.validation, split.test))
    known = torch.from_numpy(labels)
    return TabularProblem("p1000", table.features, len(table.kinds), known, train, validation, test, hierarchy)


def fingerprint(table: GeneTable) -> str:
    """The first 16 hexadecimal digits of a SHA-256 over genes, features and labels."""
    digest = hashlib.sha256(table.labels.astype("<i8").tobytes())
    digest.update("\n".join(table.genes).encode())
    for part in (table.features.indptr, table.features.indices):
        digest.update(part.astype("<i8").tobytes())
    return digest.hexdigest()[:16]


@dataclass(frozen=True, kw_only=True)
class ProstateOptions(Options):
    """The options of ``condiff reproduce prostate``."""

    splits: int = option(SPLITS, "Splits: the ten that were published, from then on random ones.", low=1)
    inits: int = option(INITS, "Random initialisations of each split, as many as in the paper.", low=1)


class Prostate(Protocol):
    """Which prostate cancers are metastatic, from the alterations of genes.

    Its condition has the numbers of patients to ``train`` and to validate.
    """

    name = "prostate"
    title = "Prostate cancer"
    about = ABOUT["prostate"]
    examples = (
        "condiff reproduce prostate",
        "condiff reproduce prostate --method LR,AdaBoost,P-NET,COIN --splits 5 --inits 2",
    )
    options = ProstateOptions
    baselines = "condiff.reproduce.baselines.tabular"
    metrics = ("accuracy", "roc_auc", "auprc")

    def cases(self, options: ProstateOptions) -> list[tuple[Case, dict[int, Split]]]:
        return [(case_of(), splits(options.splits))]

    def options_of(self, runs: Sequence[Run]) -> ProstateOptions:
        return ProstateOptions(splits=1 + max(run.split for run in runs))

    def problem(self, case: Case, seed: int, split: Split) -> TabularProblem:
        return problem(load(), split, pathways())

    def solve(self, job: Job, problem: TabularProblem) -> Outcome:
        # The initialisation is the seed, the same on every split, as for the paper's authors.
        outcome: Outcome = job.method.solve(problem, job.init)
        return outcome

    def measure(self, job: Job, outcome: Outcome) -> dict[str, float]:
        return measured(load().labels[job.split.test], outcome, job.split.test)

    def describe(self, dataset: str, condition: Condition) -> tuple[str, ...]:
        return dataset.upper(), f"{condition.get('train', TRAIN)} training patients"

    def published_as(self, dataset: str, condition: Condition) -> tuple[str, str | None] | None:
        return (PUBLISHED, None) if condition.get("train") == TRAIN else None

    def pictures(self, jobs: Sequence[Job], runs: Sequence[Run], rows: Sequence[Row]) -> dict[str, Figure]:
        from condiff.reproduce.genes import leading_alterations

        by_metric = {name: [row for row in rows if row.metric == name] for name in self.metrics}
        return {
            **{f"{name}.png": figures.draw_intervals(own) for name, own in by_metric.items()},
            "curves.png": figures.draw_curves(runs),
            "genes.png": figures.draw_genes(leading_alterations(load(), 10)),
        }

    def texts(self, runs: Sequence[Run]) -> dict[str, str]:
        return pairs_texts(paired(runs, self.metrics))


def case_of() -> Case:
    """The patients under the published splits' numbers of them."""
    return Case("p1000", Condition(train=TRAIN, validation=VALIDATION), fingerprint(load()))


def measured(truth: NDArray[np.int64], outcome: Outcome, patients: NDArray[np.int64]) -> dict[str, float]:
    """The paper's metrics of some patients, and points of their curves."""
    from sklearn.metrics import average_precision_score, roc_auc_score

    scores = outcome.scores.double().numpy()[patients]
    return {
        "accuracy": 100 * float(((scores >= outcome.threshold) == truth).mean()),
        "roc_auc": float(roc_auc_score(truth, scores)),
        "auprc": float(average_precision_score(truth, scores)),
        **curve_points(truth, scores),
    }
