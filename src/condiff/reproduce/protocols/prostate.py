"""The paper's protocol for prostate cancers: twenty labelled patients, and the others to be told apart."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import torch
from sklearn.metrics import average_precision_score, roc_auc_score

from condiff.errors import InvalidInputError
from condiff.reproduce.baselines.tabular.method import Outcome, TabularMethod
from condiff.reproduce.baselines.tabular.problem import TabularProblem
from condiff.reproduce.curves import curve_points
from condiff.reproduce.datasets import prostate as source
from condiff.reproduce.datasets import reactome
from condiff.reproduce.datasets.gene_table import GeneTable
from condiff.reproduce.memory import peak_memory
from condiff.reproduce.runs import Run
from condiff.reproduce.splits import Split
from condiff.reproduce.store import Key

if TYPE_CHECKING:
    import scipy.sparse as sp
    from numpy.typing import NDArray

#: The paper's name for these splits in its table.
DATASET = "p1000-20-train"
#: What the paper reports, and the one to follow a sweep by.
METRICS = ("accuracy", "roc_auc", "auprc")
METRIC = METRICS[0]
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
                "with one of each at least and some left to test: ask for other numbers"
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
    """What a method may see of a split: every label outside of training and validation is -1.

    Parameters
    ----------
    table
        The patients.
    split
        Which of them train, validate and test.
    hierarchy
        For P-NET: the connections of :class:`condiff.reproduce.datasets.reactome.Pathways`.
    """
    labels = np.full(len(table.labels), -1, dtype=np.int64)
    for part in (split.train, split.validation):
        labels[part] = table.labels[part]
    train, validation, test = (torch.from_numpy(part) for part in (split.train, split.validation, split.test))
    known = torch.from_numpy(labels)
    return TabularProblem(DATASET, table.features, len(table.kinds), known, train, validation, test, hierarchy)


def fingerprint(table: GeneTable) -> str:
    """The first 16 hexadecimal digits of a SHA-256 over genes, features and labels."""
    digest = hashlib.sha256(table.labels.astype("<i8").tobytes())
    digest.update("\n".join(table.genes).encode())
    for part in (table.features.indptr, table.features.indices):
        digest.update(part.astype("<i8").tobytes())
    return digest.hexdigest()[:16]


@dataclass(frozen=True, eq=False)
class ProstateJob:
    """One method on one split from one initialisation."""

    fingerprint: str
    name: str
    method: TabularMethod
    seed: int
    split: Split
    init: int

    @property
    def key(self) -> Key:
        """What the run is known by."""
        identity = f"{self.fingerprint}/{self.split.hash}"
        return Key("prostate", DATASET, self.name, self.method.settings(), self.seed, self.init, identity)

    def solve(self) -> Outcome:
        """Train and score; the same job gives the same scores wherever it runs."""
        # The initialisation is the seed, the same on every split, as for the paper's authors.
        return self.method.solve(_latest_problem(self.split), self.init)

    def run(self) -> Run:
        """Train, score, and compare with the truth of the test patients."""
        with peak_memory() as peak:
            outcome = self.solve()
        metrics = measured(load().labels[self.split.test], outcome, self.split.test)
        return self.key.run(metrics, epochs=outcome.epochs, seconds=outcome.seconds, memory_mb=peak.megabytes)


def measured(truth: NDArray[np.int64], outcome: Outcome, patients: NDArray[np.int64]) -> dict[str, float]:
    """The paper's metrics of some patients, and points of their curves."""
    scores = outcome.scores.double().numpy()[patients]
    return {
        "accuracy": 100 * float(((scores >= outcome.threshold) == truth).mean()),
        "roc_auc": float(roc_auc_score(truth, scores)),
        "auprc": float(average_precision_score(truth, scores)),
        **curve_points(truth, scores),
    }


def jobs(methods: dict[str, TabularMethod], splits: dict[int, Split], inits: int = INITS) -> list[ProstateJob]:
    """Every method on every split from every initialisation, split by split, so that all methods advance together."""
    known = fingerprint(load())
    return [
        ProstateJob(known, name, method, seed, split, init)
        for seed, split in splits.items()
        for name, method in methods.items()
        for init in range(inits)
    ]


# The problem of the last split: initialisations of one split come one after another.
_latest: tuple[str, TabularProblem] | None = None


def _latest_problem(split: Split) -> TabularProblem:
    global _latest
    if _latest is None or _latest[0] != split.hash:
        _latest = (split.hash, problem(load(), split, pathways()))
    return _latest[1]
