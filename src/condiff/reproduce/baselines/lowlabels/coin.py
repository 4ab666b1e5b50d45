"""COINClassifier on one large graph, which all draws of the labels share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from condiff.diffusion.conjugate import Codes
from condiff.estimators import COINClassifier
from condiff.estimators.prepared import Prepared
from condiff.reproduce.baselines.lowlabels.method import LowLabelMethod, LowLabelProblem

# The points of the last problem, by its name.
_latest: dict[str, Prepared] = {}


def _prepared(problem: LowLabelProblem) -> Prepared:
    """The points of a problem, which all draws and both methods share."""
    if problem.name not in _latest:
        _latest.clear()
        _latest[problem.name] = COINClassifier().prepare(problem.points)
    return _latest[problem.name]


@dataclass(frozen=True)
class COIN(LowLabelMethod):
    """COINClassifier as it comes."""

    def codes_of(self, problems: Sequence[LowLabelProblem], seeds: Sequence[int]) -> list[Codes]:
        return [self._codes(problem) for problem in problems]

    def _codes(self, problem: LowLabelProblem) -> Codes:
        given = np.full(len(problem.points), -1)
        given[problem.known] = problem.labels
        return np.asarray(COINClassifier(**self.options(problem)).fit(_prepared(problem), given).transduction_)

    def options(self, problem: LowLabelProblem) -> dict[str, Any]:
        """What is not a default."""
        return {}


@dataclass(frozen=True)
class WithSizes(COIN):
    """The same, told the sizes of the classes."""

    knows_sizes: ClassVar[bool] = True

    def options(self, problem: LowLabelProblem) -> dict[str, Any]:
        return {"class_prior": dict(enumerate(problem.sizes.tolist())), "quota": "exact"}
