"""Gradient boosting of small trees (Friedman 2001)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from condiff.reproduce.baselines.tabular.method import EstimatorMethod

if TYPE_CHECKING:
    import scipy.sparse as sp

    from condiff.reproduce.baselines.tabular.problem import TabularProblem


@dataclass(frozen=True)
class GradientBoosting(EstimatorMethod):
    """scikit-learn's ``GradientBoostingClassifier`` with its own defaults; not in the paper.

    The histogram version would not divide twenty patients at all: it wants twenty in every leaf.

    Parameters
    ----------
    learning_rate
        How much each tree counts.
    trees, depth
        Their number and how often each may branch.
    """

    learning_rate: float = 0.1
    trees: int = 100
    depth: int = 3

    def estimator(self, seed: int) -> Any:
        from sklearn.ensemble import GradientBoostingClassifier

        return GradientBoostingClassifier(
            n_estimators=self.trees, learning_rate=self.learning_rate, max_depth=self.depth, random_state=seed
        )

    def inputs(self, problem: TabularProblem) -> sp.csr_array:
        # No tree divides the training patients by what none of them has; to look at it all costs ten times as much.
        return problem.seen
