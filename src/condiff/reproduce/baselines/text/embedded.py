"""Methods on the embeddings of texts; those that read any matrix are those of ordinary tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from condiff.reproduce.baselines.tables.coin import COIN
from condiff.reproduce.baselines.tables.linear import BalancedLogistic, Logistic
from condiff.reproduce.baselines.tables.method import Array, EstimatorMethod, TableMethod, TableProblem, softmax
from condiff.reproduce.baselines.tables.similarity import NearestFive, NearestNeighbour
from condiff.reproduce.baselines.tables.transductive import (
    LaplaceLearning,
    PoissonLearning,
    SelfTraining,
    SpreadingGaussian,
    SpreadingNearest,
)
from condiff.reproduce.datasets.ordinary_tables import Task

__all__ = [
    "COIN",
    "BalancedCOIN",
    "BalancedLogistic",
    "LaplaceLearning",
    "LinearVectors",
    "Logistic",
    "LooseLogistic",
    "NearestCentroid",
    "NearestFive",
    "NearestNeighbour",
    "PoissonLearning",
    "SelfTraining",
    "SpreadingGaussian",
    "SpreadingNearest",
]


@dataclass(frozen=True)
class BalancedCOIN(COIN):
    """The same with all classes counted alike."""

    tasks: ClassVar[tuple[Task, ...]] = ("classes",)
    options: ClassVar[dict[str, Any]] = {"class_weight": "balanced"}


@dataclass(frozen=True)
class LooseLogistic(Logistic):
    """Logistic regression with a weaker penalty, which suits rows of length one."""

    c: float = 10.0


@dataclass(frozen=True)
class LinearVectors(EstimatorMethod):
    """Linear support vectors, one class against the rest; decisions become probabilities by a softmax.

    Parameters
    ----------
    c
        The inverse of the penalty's weight.
    """

    c: float = 1.0

    def estimator(self, problem: TableProblem, seed: int) -> Any:
        from sklearn.svm import LinearSVC

        return LinearSVC(C=self.c, random_state=seed)

    def answers(self, problem: TableProblem, seed: int) -> Array:
        return decided(self.estimator(problem, seed).fit(problem.x[problem.known], problem.labels), problem.x)


@dataclass(frozen=True)
class NearestCentroid(TableMethod):
    """The class whose labelled rows have the mean direction nearest to a row's, as in prototypical networks."""

    def answers(self, problem: TableProblem, seed: int) -> Array:
        membership = np.eye(problem.n_classes)[problem.labels]
        means = membership.T @ problem.x[problem.known]
        means /= np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-12)
        return softmax(10.0 * problem.x @ means.T)


def decided(model: Any, x: Any) -> Array:
    """The decisions of a classifier as probabilities; every class has a label here."""
    found = model.decision_function(x)
    return softmax(np.column_stack([-found, found]) if found.ndim == 1 else found)
