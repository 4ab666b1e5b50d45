"""Zero everywhere: the region's mean, since series are standardised."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from condiff.reproduce.baselines.temporal.method import Outcome, TemporalMethod
from condiff.reproduce.baselines.temporal.problem import TemporalProblem


@dataclass(frozen=True)
class AllZero(TemporalMethod):
    """The paper's reference point: what a forecast must beat to be worth anything.

    Where series are standardised over all days, as in the paper, zero is the mean of days that are still to come.
    """

    def solve(self, problem: TemporalProblem, seed: int) -> Outcome:
        return Outcome(torch.zeros(len(problem.past_of_tests), problem.n_regions), 0, 0.0)
