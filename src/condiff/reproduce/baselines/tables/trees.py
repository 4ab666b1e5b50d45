"""Trees: forests and boosting."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any, ClassVar

import numpy as np

from condiff.reproduce.baselines.tables.method import Array, EstimatorMethod, TableProblem


@dataclass(frozen=True)
class RandomForest(EstimatorMethod):
    """A random forest, as scikit-learn grows it.

    Parameters
    ----------
    trees
        How many.
    """

    kind: ClassVar[str] = "RandomForest"
    trees: int = 200

    def estimator(self, problem: TableProblem, seed: int) -> Any:
        from sklearn import ensemble

        noun = "Classifier" if problem.task == "classes" else "Regressor"
        return getattr(ensemble, self.kind + noun)(self.trees, random_state=seed)


@dataclass(frozen=True)
class ExtraTrees(RandomForest):
    """Extremely randomised trees."""

    kind: ClassVar[str] = "ExtraTrees"


@dataclass(frozen=True)
class HistogramBoosting(EstimatorMethod):
    """scikit-learn's gradient boosting on histograms.

    Parameters
    ----------
    rounds
        How many.
    leaf
        The fewest rows of a leaf: with the usual 20 no tree would split; with fewer than 18 labels it is less still.
    """

    rounds: int = 100
    leaf: int = 3

    def estimator(self, problem: TableProblem, seed: int) -> Any:
        from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

        kind = HistGradientBoostingClassifier if problem.task == "classes" else HistGradientBoostingRegressor
        leaf = max(1, min(self.leaf, len(problem.known) // 6))
        return kind(max_iter=self.rounds, min_samples_leaf=leaf, early_stopping=False, random_state=seed)


@dataclass(frozen=True)
class CatBoost(EstimatorMethod):
    """CatBoost (Prokhorenkova and others, NeurIPS 2018) with its defaults, but fewer rounds than its thousand.

    Parameters
    ----------
    rounds
        How many.
    """

    rounds: int = 200

    @classmethod
    def missing(cls) -> str | None:
        return None if find_spec("catboost") else "it needs catboost: pip install 'condiff[bench]'"

    def estimator(self, problem: TableProblem, seed: int) -> Any:
        catboost = import_module("catboost")
        kind = catboost.CatBoostClassifier if problem.task == "classes" else catboost.CatBoostRegressor
        return kind(
            iterations=self.rounds, thread_count=1, verbose=False, allow_writing_files=False, random_seed=seed % 2**31
        )

    def answers(self, problem: TableProblem, seed: int) -> Array:
        if (np.ptp(problem.x[problem.known], axis=0) > 0).any():
            return super().answers(problem, seed)
        # It refuses columns that are all constant.
        if problem.task == "values":
            return np.full(len(problem.x), float(np.mean(problem.labels)))
        return np.tile(problem.shares, (len(problem.x), 1))
