"""Strategies of scikit-activeml and of graphlearning, on the same points, graph and answers."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar

import numpy as np

from condiff.errors import MissingDependencyError
from condiff.reproduce.baselines.labelling.method import Asking, AskingProblem, Codes
from condiff.uncertainty.suggestions import Situation, random

# Eigenvectors as in graphlearning's own examples.
_EIGENVECTORS = 50


def _module(name: str, package: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise MissingDependencyError(f"this method needs {package}: pip install 'condiff[bench]'") from error


@dataclass(frozen=True)
class _Pool(Asking):
    """A strategy of scikit-activeml that reads points and which of them are labelled."""

    name: ClassVar[str]

    def choose(self, problem: AskingProblem, situation: Situation, n: int) -> Codes:
        strategy = getattr(_module("skactiveml.pool", "scikit-activeml"), self.name)(random_state=situation.seed)
        labels = np.where(situation.labelled, problem.truth.astype(float), np.nan)
        found = strategy.query(problem.learner.inputs.values, labels, batch_size=n)
        return np.asarray(found, dtype=np.int64)


@dataclass(frozen=True)
class TypiClust(_Pool):
    """Typical points of clusters without a label (Hacohen et al., 2022)."""

    name = "TypiClust"


@dataclass(frozen=True)
class CoreSet(_Pool):
    """Points farthest from labelled ones (Sener and Savarese, 2018)."""

    name = "CoreSet"


@dataclass(frozen=True)
class _Acquisition(Asking):
    """An acquisition function of graphlearning; random points while there are no answers."""

    @abstractmethod
    def function(self, module: Any, covariance: Any, vectors: Any) -> Any:
        """The function of a covariance in the span of eigenvectors."""

    def choose(self, problem: AskingProblem, situation: Situation, n: int) -> Codes:
        if situation.chances is None:
            return random(situation, n)
        module = _module("graphlearning", "graphlearning")
        graph = module.graph(situation.graph.weights.tocsr())
        count = min(_EIGENVECTORS, graph.num_nodes - 2)
        rates, vectors = graph.eigen_decomp(normalization="normalized", k=count)
        ask = self.function(import_module("graphlearning.active_learning"), np.diag(1 / (rates + 1e-11)), vectors)
        ask.update(np.flatnonzero(situation.labelled), None)
        free, found = situation.open.copy(), []
        for _ in range(n):
            nodes = np.flatnonzero(free)
            best = int(nodes[np.argmax(ask.compute(situation.chances, nodes))])
            ask.update([best], None)
            found.append(best)
            free[best] = False
        return np.array(found, dtype=np.int64)


@dataclass(frozen=True)
class VOpt(_Acquisition):
    """Variance minimisation (Ji and Han, 2012)."""

    def function(self, module: Any, covariance: Any, vectors: Any) -> Any:
        return module.var_opt(covariance, vectors)


@dataclass(frozen=True)
class MCVOpt(_Acquisition):
    """Model change times variance (Miller and Bertozzi, 2021)."""

    def function(self, module: Any, covariance: Any, vectors: Any) -> Any:
        return module.model_change_var_opt(covariance, vectors)
