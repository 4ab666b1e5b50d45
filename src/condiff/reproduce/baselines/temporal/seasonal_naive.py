"""The last known value of the region on the same day of the week."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from condiff.reproduce.baselines.method import check_counts
from condiff.reproduce.baselines.temporal.method import Outcome, TemporalMethod
from condiff.reproduce.baselines.temporal.problem import TemporalProblem


@dataclass(frozen=True)
class SeasonalNaive(TemporalMethod):
    """A day is as the same day of the last week on which it is known; 0, the region's mean, where it never is.

    Parameters
    ----------
    period
        Days of a season.
    """

    period: int = 7

    def __post_init__(self) -> None:
        check_counts(period=self.period)

    def solve(self, problem: TemporalProblem, seed: int) -> Outcome:
        found = []
        for past in problem.past_of_tests:
            same_days = past[len(past) % self.period :: self.period]
            last = np.zeros(problem.n_regions)
            for values in same_days:
                last = np.where(np.isnan(values), last, values)
            found.append(last)
        return Outcome(torch.from_numpy(np.stack(found)).float(), 0, 0.0)
