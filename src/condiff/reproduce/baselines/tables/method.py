"""The interface of methods for ordinary tables: a frozen dataclass of settings that answers for every row."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from condiff.errors import CondiffError
from condiff.reproduce.baselines.method import Answers, Method, timed
from condiff.reproduce.datasets.ordinary_tables import Task

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class TableProblem:
    """A table and a few labels, as a method sees them: no other label is in it.

    Attributes
    ----------
    x
        (rows, features): every column as numbers, by condiff's own encoder from all rows, the same for all methods.
        Numbers are standardised already; a level of a category is a column of zeros and ones.
    given
        (rows,): class codes from 0, and -1 where the class is not given; or values, and NaN.
    n_classes
        How many; 0 where the target has values.
    """

    x: Array
    given: NDArray[Any]
    n_classes: int

    @property
    def task(self) -> Task:
        """Whether classes or values are asked for."""
        return "classes" if self.n_classes else "values"

    @cached_property
    def known(self) -> NDArray[np.intp]:
        """The rows whose label is given."""
        return np.flatnonzero(self.given >= 0 if self.n_classes else np.isfinite(self.given))

    @property
    def labels(self) -> NDArray[Any]:
        """Their labels."""
        return self.given[self.known]

    @cached_property
    def shares(self) -> Array:
        """The share of every class in the given labels."""
        counts = np.bincount(self.labels, minlength=self.n_classes)
        return np.asarray(counts / counts.sum())


@dataclass(frozen=True)
class TableMethod(Method):
    """A method for tables."""

    #: What it can answer.
    tasks: ClassVar[tuple[Task, ...]] = ("classes", "values")
    #: Whether it runs on every table: means over tables are taken over those that all such methods have.
    general: ClassVar[bool] = True

    @abstractmethod
    def answers(self, problem: TableProblem, seed: int) -> Array:
        """Probabilities or values for every row."""

    @classmethod
    def missing(cls) -> str | None:
        """What it needs and is not installed; None where it can run."""
        return None

    def refuses(self, n_features: int, n_classes: int) -> bool:
        """Whether a table is too large for it."""
        return False

    def solve(self, problem: TableProblem, seed: int) -> Answers:
        """Learn from the given labels and answer for every row; the time includes both."""
        found = timed(lambda: np.asarray(self.answers(problem, seed), dtype=np.float64))
        expected = (len(problem.x), problem.n_classes) if problem.n_classes else (len(problem.x),)
        if found.answers.shape != expected or not np.isfinite(found.answers).all():
            raise CondiffError(
                f"{type(self).__name__} answered with shape {found.answers.shape} or with values that are no number"
            )
        return found


@dataclass(frozen=True)
class EstimatorMethod(TableMethod):
    """An estimator of scikit-learn's kind, fitted to the labelled rows alone."""

    @abstractmethod
    def estimator(self, problem: TableProblem, seed: int) -> Any:
        """A fresh estimator."""

    def answers(self, problem: TableProblem, seed: int) -> Array:
        model = self.estimator(problem, seed).fit(problem.x[problem.known], problem.labels)
        if problem.task == "values":
            return np.asarray(model.predict(problem.x)).ravel()
        return spread_classes(model.predict_proba(problem.x), model.classes_, problem.n_classes)


def spread_classes(found: Any, classes: Any, n_classes: int) -> Array:
    """Probabilities of some classes as those of all, with zeros for the others."""
    out = np.zeros((len(found), n_classes))
    out[:, np.asarray(classes, dtype=np.intp)] = found
    return out


def softmax(scores: Array) -> Array:
    """Scores as probabilities."""
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))
