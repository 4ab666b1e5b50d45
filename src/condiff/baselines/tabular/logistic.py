"""Logistic regression with an L2 penalty, by stochastic gradient descent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from condiff.baselines.tabular.method import WeightedMethod


@dataclass(frozen=True)
class LogisticRegression(WeightedMethod):
    """scikit-learn's ``SGDClassifier`` with the logistic loss, as P-NET's authors compare with.

    Parameters
    ----------
    alpha
        The penalty's weight.
    """

    alpha: float = 0.01

    def estimator(self, seed: int) -> Any:
        from sklearn.linear_model import SGDClassifier

        return SGDClassifier(
            loss="log_loss", penalty="l2", alpha=self.alpha, class_weight=self.class_weight, random_state=seed
        )
