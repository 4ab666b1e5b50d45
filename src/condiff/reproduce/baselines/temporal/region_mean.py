"""The mean of the region's known values so far."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from condiff.reproduce.baselines.temporal.method import Outcome, TemporalMethod
from condiff.reproduce.baselines.temporal.problem import TemporalProblem


@dataclass(frozen=True)
class RegionMean(TemporalMethod):
    """A day is as the mean of all days before it that are known; 0 where none is."""

    def solve(self, problem: TemporalProblem, seed: int) -> Outcome:
        known = ~np.isnan(problem.history)
        sums = np.where(known, problem.history, 0.0).cumsum(axis=0)
        means = sums / np.maximum(known.cumsum(axis=0), 1)
        return Outcome(torch.from_numpy(means[problem.lags - 1 :][problem.test]).float(), 0, 0.0)
