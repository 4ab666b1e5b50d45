"""The demo: handwritten digits with a few labels per class, COIN beside what a user might try instead."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier
from sklearn.semi_supervised import LabelPropagation, LabelSpreading

from condiff.estimators import COINClassifier

LABELS_PER_CLASS = (1, 2, 5, 10)
#: Relative to the time that COIN chooses by itself.
TIMES = (0.0, 0.03, 0.1, 0.2, 0.4, 0.7, 1.0, 1.5, 2.5, 5.0, 10.0)
_TIME_LABELS = (1, 5)


def _methods() -> dict[str, ClassifierMixin]:
    # Without folds the fit is several times faster. They serve the probabilities, and may shorten the diffusion where
    # held-out labels favour it, which they hardly do on the digits; benchmarks/defaults.py has the plain defaults.
    return {
        "COIN": COINClassifier(base="residual", folds=0),
        "network alone": COINClassifier(base="residual", layers=0, folds=0),
        "LabelSpreading": LabelSpreading(kernel="knn", n_neighbors=7, alpha=0.99, max_iter=100),
        "LabelPropagation": LabelPropagation(kernel="knn", n_neighbors=7, max_iter=1000),
        "nearest neighbour": KNeighborsClassifier(1),
    }


METHODS = tuple(_methods())


@dataclass(frozen=True)
class Run:
    """One fit: the accuracy on all unlabelled digits."""

    method: str
    labels: int
    draw: int
    accuracy: float
    #: Diffusion time relative to the automatic one, where that was varied.
    time: float | None = None


@dataclass(frozen=True)
class Job:
    """A job of one process: one draw of labels, for all methods or for all times."""

    labels: int
    draw: int
    times: bool


def jobs(draws: int) -> list[Job]:
    """Every draw of the table, and a third of them again for the picture."""
    table = [Job(labels, draw, times=False) for labels in LABELS_PER_CLASS for draw in range(draws)]
    picture = [Job(labels, draw, times=True) for labels in _TIME_LABELS for draw in range(max(1, draws // 3))]
    return table + picture


def run_all(pool: Executor, draws: int) -> Iterator[list[Run]]:
    """Yield the runs of each job, in order."""
    return iter(pool.map(run_job, jobs(draws)))


def run_job(job: Job) -> list[Run]:
    """Fit every method, or COIN at every diffusion time, on one draw of labels."""
    X, y = _digits()
    labels = draw_labels(y, job.labels, job.draw)
    hidden = labels < 0
    runs = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn's solvers count even if they have not converged
        if job.times:
            chosen = COINClassifier(base="residual", folds=0).fit(X, labels)
            for time in TIMES:
                layers = round(time * chosen.layers_)
                model = COINClassifier(base="residual", layers=layers, strength=chosen.strength_, folds=0).fit(
                    X, labels
                )
                runs.append(Run("COIN", job.labels, job.draw, _accuracy(model.transduction_, y, hidden), time))
            return runs
        for name, model in _methods().items():
            if isinstance(model, KNeighborsClassifier):
                answers = model.fit(X[~hidden], y[~hidden]).predict(X)
            else:
                answers = model.fit(X, labels).transduction_
            runs.append(Run(name, job.labels, job.draw, _accuracy(answers, y, hidden)))
    return runs


def draw_labels(y: NDArray[np.int64], per_class: int, draw: int) -> NDArray[np.int64]:
    """All labels hidden (-1) except ``per_class`` of each class, drawn with the seed ``draw``."""
    generator = np.random.default_rng(draw)
    labels = np.full(len(y), -1)
    for label in np.unique(y):
        labels[generator.choice(np.flatnonzero(y == label), per_class, replace=False)] = label
    return labels


def summarise(runs: list[Run]) -> list[dict[str, Any]]:
    """Mean and spread over the draws, one row for each method and number of labels."""
    rows = []
    for method in METHODS:
        for labels in LABELS_PER_CLASS:
            found = [100 * r.accuracy for r in runs if (r.method, r.labels, r.time) == (method, labels, None)]
            rows.append(
                {
                    "task": "demo",
                    "dataset": "digits",
                    "method": method,
                    "labels_per_class": labels,
                    "metric": "accuracy",
                    "mean": float(np.mean(found)),
                    "std": float(np.std(found)),
                    "runs": len(found),
                }
            )
    return rows


@lru_cache(maxsize=1)
def _digits() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    X, y = load_digits(return_X_y=True)
    return X, y


def _accuracy(answers: NDArray[Any], y: NDArray[np.int64], hidden: NDArray[np.bool_]) -> float:
    return float((answers == y)[hidden].mean())
