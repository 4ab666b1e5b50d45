"""Linear models: shrinkage discriminant analysis, logistic regression, ridge regression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from condiff.reproduce.baselines.tables.method import Array, EstimatorMethod, TableProblem, softmax
from condiff.reproduce.datasets.ordinary_tables import Task


@dataclass(frozen=True)
class Discriminant(EstimatorMethod):
    """Linear discriminant analysis with the shrinkage of Ledoit and Wolf.

    With one label per class no covariance can be estimated: the nearest class mean answers then.
    """

    tasks: ClassVar[tuple[Task, ...]] = ("classes",)

    def estimator(self, problem: TableProblem, seed: int) -> Any:
        from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

        return LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")

    def answers(self, problem: TableProblem, seed: int) -> Array:
        if len(problem.known) > problem.n_classes:
            return super().answers(problem, seed)
        means = problem.x[problem.known][np.argsort(problem.labels)]
        return softmax(problem.x @ means.T - 0.5 * (means**2).sum(axis=1))


@dataclass(frozen=True)
class Logistic(EstimatorMethod):
    """Logistic regression with an L2 penalty.

    Parameters
    ----------
    c
        The inverse of the penalty's weight.
    """

    tasks: ClassVar[tuple[Task, ...]] = ("classes",)
    class_weight: ClassVar[str | None] = None
    c: float = 1.0

    def estimator(self, problem: TableProblem, seed: int) -> Any:
        from sklearn.linear_model import LogisticRegression

        return LogisticRegression(C=self.c, max_iter=500, class_weight=self.class_weight)


@dataclass(frozen=True)
class BalancedLogistic(Logistic):
    """The same, with classes weighted by the inverse of their labels' number."""

    class_weight: ClassVar[str | None] = "balanced"


@dataclass(frozen=True)
class Ridge(EstimatorMethod):
    """Ridge regression, its penalty chosen by leave-one-out from 16 between 0.01 and 1,000."""

    tasks: ClassVar[tuple[Task, ...]] = ("values",)

    def estimator(self, problem: TableProblem, seed: int) -> Any:
        from sklearn.linear_model import RidgeCV

        return RidgeCV(np.logspace(-2, 3, 16))
