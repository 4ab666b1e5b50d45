"""Gradient-boosted trees on the lags, one model for all regions, no graph."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import torch

from condiff.reproduce.baselines.method import check_counts
from condiff.reproduce.baselines.temporal.method import Outcome, TemporalMethod
from condiff.reproduce.baselines.temporal.problem import TemporalProblem


@dataclass(frozen=True)
class GradientBoosting(TemporalMethod):
    """scikit-learn's ``HistGradientBoostingRegressor`` with its defaults; a tree sees that a value is hidden.

    Parameters
    ----------
    trees
        Number of trees.
    learning_rate
        Share of a tree.
    leaf
        Fewest known targets of a leaf.
    """

    trees: int = 100
    learning_rate: float = 0.1
    leaf: int = 20

    def __post_init__(self) -> None:
        check_counts(trees=self.trees, leaf=self.leaf)

    def solve(self, problem: TemporalProblem, seed: int) -> Outcome:
        from sklearn.ensemble import HistGradientBoostingRegressor
        from threadpoolctl import threadpool_limits

        rows, targets = problem.training_rows
        # A lag without a single known value is useless, and the trees cannot bin it.
        empty = np.isnan(rows).all(axis=0)
        model = HistGradientBoostingRegressor(
            max_iter=self.trees, learning_rate=self.learning_rate, min_samples_leaf=self.leaf, random_state=seed
        )
        started = time.perf_counter()
        with threadpool_limits(1):  # a sweep has one process a core
            model.fit(np.where(empty, 0.0, rows), targets)
            seconds = time.perf_counter() - started
            asked = problem.lagged[problem.test].reshape(-1, problem.lags)
            found = model.predict(np.where(empty, 0.0, asked))
        return Outcome(torch.from_numpy(found).float().view(-1, problem.n_regions), 0, seconds)
