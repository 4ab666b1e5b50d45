"""Methods that use the unlabelled rows: self-training, label spreading, Laplace and Poisson learning."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import splu

from condiff.reproduce.baselines.tables.method import Array, TableMethod, TableProblem, softmax, spread_classes
from condiff.reproduce.datasets.ordinary_tables import Task


@dataclass(frozen=True)
class Transductive(TableMethod):
    """A method that sees all rows."""

    tasks: ClassVar[tuple[Task, ...]] = ("classes",)

    @abstractmethod
    def spread(self, problem: TableProblem) -> Array:
        """Something like probabilities; rows that no label reaches may be zeros or NaN."""

    def answers(self, problem: TableProblem, seed: int) -> Array:
        found = np.nan_to_num(self.spread(problem))
        reached = found.sum(axis=1) > 1e-12
        return np.where(reached[:, None], found, problem.shares)


@dataclass(frozen=True)
class SelfTraining(Transductive):
    """Logistic regression that takes its own answers above a threshold for labels, again and again.

    Parameters
    ----------
    threshold
        scikit-learn's own.
    """

    threshold: float = 0.75

    def spread(self, problem: TableProblem) -> Array:
        from sklearn.linear_model import LogisticRegression
        from sklearn.semi_supervised import SelfTrainingClassifier

        model = SelfTrainingClassifier(LogisticRegression(max_iter=500), threshold=self.threshold)
        model.fit(problem.x, problem.given)
        return spread_classes(model.predict_proba(problem.x), model.classes_, problem.n_classes)


@dataclass(frozen=True)
class SpreadingNearest(Transductive):
    """scikit-learn's label spreading over seven nearest neighbours, with its defaults."""

    def model(self, x: Array) -> Any:
        """A fresh model."""
        from sklearn.semi_supervised import LabelSpreading

        return LabelSpreading(kernel="knn", n_neighbors=7)

    def spread(self, problem: TableProblem) -> Array:
        model = self.model(problem.x).fit(problem.x, problem.given)
        return spread_classes(model.label_distributions_, model.classes_, problem.n_classes)


@dataclass(frozen=True)
class SpreadingGaussian(SpreadingNearest):
    """scikit-learn's label spreading with a Gaussian kernel.

    Its default bandwidth takes every row for alone on most tables. Here it is such that a row's tenth neighbour has a
    weight of ``exp(-reach)`` in the mean.

    Parameters
    ----------
    reach
        The exponent of the tenth neighbour.
    """

    reach: float = 1.0

    def model(self, x: Array) -> Any:
        from sklearn.neighbors import NearestNeighbors
        from sklearn.semi_supervised import LabelSpreading

        tenth = NearestNeighbors(n_neighbors=11).fit(x).kneighbors(x)[0][:, 10]
        return LabelSpreading(kernel="rbf", gamma=self.reach / max(float(np.mean(tenth**2)), 1e-12))


@dataclass(frozen=True)
class LaplaceLearning(Transductive):
    """Harmonic functions (Zhu, Ghahramani and Lafferty, ICML 2003): every unlabelled row is the mean of its neighbours.

    Parameters
    ----------
    neighbours
        Nearest neighbours of a row; the weights are ``exp(-4 d^2 / d_k^2)``, made symmetric.
    """

    neighbours: int = 10

    def spread(self, problem: TableProblem) -> Array:
        weights = neighbour_weights(problem.x, self.neighbours)
        free = np.setdiff1d(np.arange(len(problem.x)), problem.known)
        out = np.zeros((len(problem.x), problem.n_classes))
        out[problem.known, problem.labels] = 1.0
        laplacian = sp.diags_array(np.asarray(weights.sum(axis=1)).ravel()) - weights
        # So little is added that it shows only where no label reaches.
        system = sp.csc_matrix(laplacian[free][:, free] + 1e-9 * sp.eye_array(len(free)))
        out[free] = splu(system).solve(weights[free][:, problem.known] @ out[problem.known])
        return np.maximum(out, 0.0)


@dataclass(frozen=True)
class PoissonLearning(Transductive):
    """Poisson learning (Calder, Cook, Thorpe and Slepcev, ICML 2020): labels are sources and sinks.

    The authors' iteration, stopped as they do when a random walk from the labels has mixed. Its scores become
    probabilities by a softmax after division by their standard deviation.

    Parameters
    ----------
    neighbours
        As in :class:`LaplaceLearning`.
    most
        Iterations at most.
    stop
        Rows times the largest distance of the walk from its limit at which to stop.
    """

    neighbours: int = 10
    most: int = 1000
    stop: float = 1.0

    def spread(self, problem: TableProblem) -> Array:
        weights = neighbour_weights(problem.x, self.neighbours)
        rows = len(problem.x)
        degrees = np.maximum(np.asarray(weights.sum(axis=1)).ravel(), 1e-12)
        walk = sp.csr_array(sp.diags_array(1 / degrees) @ weights)
        source = np.zeros((rows, problem.n_classes))
        source[problem.known] = np.eye(problem.n_classes)[problem.labels] - problem.shares
        source /= degrees[:, None]
        u = np.zeros_like(source)
        mixing = np.zeros(rows)
        mixing[problem.known] = 1 / len(problem.known)
        stationary = degrees / degrees.sum()
        for _ in range(self.most):
            u = walk @ u + source
            mixing = walk.T @ mixing
            if np.abs(mixing - stationary).max() <= self.stop / rows:
                break
        return softmax(u / max(float(u.std()), 1e-12))


def neighbour_weights(x: Array, neighbours: int) -> sp.csr_array:
    """Symmetric Gaussian weights of nearest neighbours, each row's bandwidth half the distance of its farthest."""
    from sklearn.neighbors import NearestNeighbors

    number = min(neighbours, len(x) - 1)
    distances, indices = NearestNeighbors(n_neighbors=number).fit(x).kneighbors()
    far = np.maximum(distances[:, -1:], 1e-12)
    values = np.exp(-4 * (distances / far) ** 2)
    starts = np.arange(0, number * len(x) + 1, number)
    weights = sp.csr_array((values.ravel(), indices.ravel(), starts), shape=(len(x), len(x)))
    return sp.csr_array((weights + weights.T) / 2)
