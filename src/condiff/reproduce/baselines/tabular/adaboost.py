"""AdaBoost with decision stumps (Freund and Schapire 1997)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from condiff.reproduce.baselines.tabular.method import EstimatorMethod

if TYPE_CHECKING:
    import scipy.sparse as sp

    from condiff.reproduce.baselines.tabular.problem import TabularProblem


@dataclass(frozen=True)
class AdaBoost(EstimatorMethod):
    """scikit-learn's ``AdaBoostClassifier`` with the settings of P-NET's authors.

    Parameters
    ----------
    learning_rate
        How much each stump counts.
    stumps
        The most of them.
    """

    learning_rate: float = 0.1
    stumps: int = 50

    def estimator(self, seed: int) -> Any:
        from sklearn.ensemble import AdaBoostClassifier

        return AdaBoostClassifier(n_estimators=self.stumps, learning_rate=self.learning_rate, random_state=seed)

    def inputs(self, problem: TabularProblem) -> sp.csr_array:
        # No tree divides the training patients by what none of them has; to look at it all costs ten times as much.
        return problem.seen
