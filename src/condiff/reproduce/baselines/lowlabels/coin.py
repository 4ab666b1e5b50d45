"""COINClassifier on one large graph, which all draws of the labels share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from condiff.estimators import COINClassifier
from condiff.reproduce.baselines.lowlabels.method import Array, Codes, LowLabelMethod, LowLabelProblem

# What was made of the points of the last problem: its name, and what reading them gave.
_latest: tuple[str, tuple[Any, ...]] | None = None


class _OnKnownGround(COINClassifier):
    """With every default, and the graph of an earlier fit on the same points."""

    _name = ""

    def _read(self, X: Any, y: Any, sample_weight: Any, adjacency: Any) -> tuple[Any, Array]:
        global _latest
        if _latest is None or _latest[0] != self._name:
            nodes, weights = super()._read(X, y, sample_weight, adjacency)
            _latest = self._name, (nodes, weights, self._domain, self.n_features_in_)
        nodes, weights, self._domain, self.n_features_in_ = _latest[1]
        self.encoder_, self._graph_is_given = None, False
        return nodes, weights


@dataclass(frozen=True)
class COIN(LowLabelMethod):
    """COINClassifier as it comes."""

    def codes(self, problem: LowLabelProblem, seed: int) -> Codes:
        model = _OnKnownGround(**self.options(problem))
        model._name = problem.name
        given = np.full(len(problem.points), -1)
        given[problem.known] = problem.labels
        return np.asarray(model.fit(problem.points, given).transduction_)

    def options(self, problem: LowLabelProblem) -> dict[str, Any]:
        """What is not a default."""
        return {}


@dataclass(frozen=True)
class WithSizes(COIN):
    """The same, told the sizes of the classes."""

    knows_sizes: ClassVar[bool] = True

    def options(self, problem: LowLabelProblem) -> dict[str, Any]:
        return {"class_prior": dict(enumerate(problem.sizes.tolist())), "quota": "exact"}
