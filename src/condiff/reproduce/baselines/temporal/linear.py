"""Linear regression on the lags, one for all regions, no graph."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import torch

from condiff.reproduce.baselines.temporal.method import Outcome, TemporalMethod
from condiff.reproduce.baselines.temporal.problem import TemporalProblem


@dataclass(frozen=True)
class LinearRegression(TemporalMethod):
    """Least squares on the known targets of the training snapshots; hidden inputs are 0.

    With nine tenths hidden there are about 130 equations, most of their inputs zero. Nothing in it is random.
    """

    def solve(self, problem: TemporalProblem, seed: int) -> Outcome:
        from sklearn.linear_model import LinearRegression as Ordinary

        rows, targets = problem.training_rows
        started = time.perf_counter()
        fitted = Ordinary().fit(np.nan_to_num(rows, nan=0.0), targets)
        seconds = time.perf_counter() - started
        found = fitted.predict(np.nan_to_num(problem.lagged[problem.test], nan=0.0).reshape(-1, problem.lags))
        return Outcome(torch.from_numpy(found).float().view(-1, problem.n_regions), 0, seconds)
