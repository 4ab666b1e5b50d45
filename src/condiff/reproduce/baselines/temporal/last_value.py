"""The last known value of the region."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from condiff.reproduce.baselines.temporal.method import Outcome, TemporalMethod
from condiff.reproduce.baselines.temporal.problem import TemporalProblem


@dataclass(frozen=True)
class LastValue(TemporalMethod):
    """Tomorrow is as the last day that is known, however long ago; 0, the region's mean, before the first."""

    def solve(self, problem: TemporalProblem, seed: int) -> Outcome:
        # Filled forward once; the value before a snapshot's target is then on the last day that it looks back on.
        days = np.arange(len(problem.history))[:, None]
        last = np.maximum.accumulate(np.where(np.isnan(problem.history), -1, days), axis=0)
        filled = np.take_along_axis(problem.history, np.maximum(last, 0), axis=0)
        filled = np.where(last < 0, 0.0, filled)
        return Outcome(torch.from_numpy(filled[problem.lags - 1 :][problem.test]).float(), 0, 0.0)
