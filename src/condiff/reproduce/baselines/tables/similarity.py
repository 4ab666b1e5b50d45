"""Methods that compare rows: support vectors, Gaussian processes, nearest neighbours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from condiff.reproduce.baselines.tables.method import Array, EstimatorMethod, TableProblem, softmax


@dataclass(frozen=True)
class SupportVectors(EstimatorMethod):
    """Support vectors with a Gaussian kernel of scikit-learn's bandwidth; values are standardised first.

    Its decisions become probabilities by a softmax: twenty labels are too few to calibrate them. What it predicts is
    what it decides; its log loss is less than its own.

    Parameters
    ----------
    c
        The inverse of the penalty's weight.
    """

    c: float = 1.0

    def estimator(self, problem: TableProblem, seed: int) -> Any:
        from sklearn.compose import TransformedTargetRegressor
        from sklearn.preprocessing import StandardScaler
        from sklearn.svm import SVC, SVR

        if problem.task == "values":
            return TransformedTargetRegressor(SVR(C=self.c), transformer=StandardScaler())
        return SVC(C=self.c)

    def answers(self, problem: TableProblem, seed: int) -> Array:
        if problem.task == "values":
            return super().answers(problem, seed)
        model = self.estimator(problem, seed).fit(problem.x[problem.known], problem.labels)
        decided = model.decision_function(problem.x)
        return softmax(np.column_stack([-decided, decided]) if decided.ndim == 1 else decided)


@dataclass(frozen=True)
class GaussianProcess(EstimatorMethod):
    """A Gaussian process with a Gaussian kernel, its parameters by marginal likelihood; classes one against the rest.

    Values are standardised and noisy. The search begins at a length of the square root of the number of features.
    """

    def estimator(self, problem: TableProblem, seed: int) -> Any:
        from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
        from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

        kernel = ConstantKernel(1.0) * RBF(problem.x.shape[1] ** 0.5)
        if problem.task == "classes":
            return GaussianProcessClassifier(kernel, random_state=seed)
        return GaussianProcessRegressor(kernel + WhiteKernel(), normalize_y=True, random_state=seed)


@dataclass(frozen=True)
class NearestNeighbour(EstimatorMethod):
    """The answer of the nearest labelled row."""

    neighbours: ClassVar[int] = 1

    def estimator(self, problem: TableProblem, seed: int) -> Any:
        from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

        kind = KNeighborsClassifier if problem.task == "classes" else KNeighborsRegressor
        return kind(min(self.neighbours, len(problem.known)))


@dataclass(frozen=True)
class NearestFive(NearestNeighbour):
    """The mean answer of the five nearest labelled rows."""

    neighbours: ClassVar[int] = 5
