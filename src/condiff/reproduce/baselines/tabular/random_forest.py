"""The random forest (Breiman 2001)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from condiff.reproduce.baselines.tabular.method import WeightedMethod


@dataclass(frozen=True)
class RandomForest(WeightedMethod):
    """scikit-learn's ``RandomForestClassifier`` with the settings of P-NET's authors.

    Parameters
    ----------
    trees
        Their number.
    bootstrap
        Whether each tree sees a sample of the patients drawn with repetition, or all of them.
    """

    trees: int = 50
    bootstrap: bool = False

    def estimator(self, seed: int) -> Any:
        from sklearn.ensemble import RandomForestClassifier

        return RandomForestClassifier(
            self.trees, bootstrap=self.bootstrap, class_weight=self.class_weight, random_state=seed
        )
