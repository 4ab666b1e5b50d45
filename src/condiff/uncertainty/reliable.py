"""Whether probabilities are what they say, with how much that is known from few labels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Reliability:
    """Answers of about the same probability: how often they were right.

    Attributes
    ----------
    n
        How many answers there are.
    said
        Their mean probability.
    right
        The share of them that was right.
    low, high
        A 95 % interval of that share (Jeffreys): with five answers it is wide.
    """

    n: int
    said: float
    right: float
    low: float
    high: float

    @property
    def agrees(self) -> bool:
        """Whether what was said is within the interval."""
        return self.low <= self.said <= self.high


def reliability(chances: Array, right: NDArray[np.bool_], bins: int = 5) -> list[Reliability]:
    """Probabilities of answers against how often they were right, in groups of about the same size.

    Parameters
    ----------
    chances
        What was said of each answer, made without its label.
    right
        Whether it was right.
    bins
        How many groups; fewer where there are not five answers for each.
    """
    order = np.argsort(chances, kind="stable")
    groups = np.array_split(order, max(1, min(bins, len(order) // 5)))
    return [_summed(chances[each], right[each]) for each in groups if len(each)]


def reliability_per_class(probabilities: Array, codes: NDArray[np.int64]) -> list[Reliability]:
    """For every class, what was said of it over all answers, against how often it was the true one."""
    return [_summed(column, codes == code) for code, column in enumerate(probabilities.T)]


def _summed(chances: Array, right: NDArray[np.bool_]) -> Reliability:
    n, hits = len(right), int(right.sum())
    low = float(beta.ppf(0.025, hits + 0.5, n - hits + 0.5)) if hits else 0.0
    high = float(beta.ppf(0.975, hits + 0.5, n - hits + 0.5)) if hits < n else 1.0
    return Reliability(n, float(chances.mean()), hits / n, low, high)
