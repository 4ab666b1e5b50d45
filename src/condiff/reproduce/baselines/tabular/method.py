"""The interface of methods for tables of patients: a frozen dataclass of settings that can solve a problem."""

from __future__ import annotations

import time
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from condiff.reproduce.baselines.method import Method
from condiff.reproduce.baselines.tabular.problem import TabularProblem


@dataclass(frozen=True, eq=False)
class Outcome:
    """A method's scores for every patient, and what they cost.

    Parameters
    ----------
    scores
        (n,), float32: the higher, the more does it speak for class 1.
    epochs
        Epochs that were run; 0 where a method has none.
    seconds
        The time that training took, without set-up such as a graph that all initialisations of a split share.
    threshold
        Scores from here on are answered with class 1.
    """

    scores: Tensor
    epochs: int
    seconds: float
    threshold: float = 0.5


@dataclass(frozen=True)
class TabularMethod(Method):
    """A method for a table of patients."""

    @abstractmethod
    def solve(self, problem: TabularProblem, seed: int) -> Outcome:
        """Learn from the training patients and score every patient; the same seed gives the same bytes."""


@dataclass(frozen=True)
class EstimatorMethod(TabularMethod):
    """A classifier of scikit-learn, fitted to the training patients alone; its score is the margin if it has one."""

    @abstractmethod
    def estimator(self, seed: int) -> Any:
        """A fresh classifier."""

    def solve(self, problem: TabularProblem, seed: int) -> Outcome:
        model, features = self.estimator(seed), _narrow(self.inputs(problem))
        train = problem.train.numpy()
        started = time.perf_counter()
        model.fit(_narrow(features[train]), problem.labels.numpy()[train])
        seconds = time.perf_counter() - started
        if hasattr(model, "decision_function"):
            # The margin orders patients whose probabilities would all round to one.
            return Outcome(torch.from_numpy(model.decision_function(features)).float(), 0, seconds, threshold=0.0)
        return Outcome(torch.from_numpy(model.predict_proba(features)[:, 1]).float(), 0, seconds)

    def inputs(self, problem: TabularProblem) -> sp.csr_array:
        """The patients' features that it reads: all of them by default."""
        return problem.features


def _narrow(matrix: sp.csr_array) -> sp.csr_array:
    """The same with 32-bit indices, which is all that scikit-learn reads."""
    parts = matrix.data, matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32)
    return sp.csr_array(parts, shape=matrix.shape)


@dataclass(frozen=True)
class WeightedMethod(EstimatorMethod):
    """A classifier of scikit-learn with a weight for each class; the defaults are those of P-NET's authors.

    Parameters
    ----------
    primary, metastatic
        Weights of the classes 0 and 1.
    """

    primary: float = 0.75
    metastatic: float = 1.5

    @property
    def class_weight(self) -> dict[int, float]:
        """The weights as scikit-learn takes them."""
        return {0: self.primary, 1: self.metastatic}
