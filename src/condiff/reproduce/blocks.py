"""Runs that are blocks of many tasks, pooled as if each task had been a run of its own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from condiff.reproduce.runs import Run

#: The metric that counts a run's tasks; a metric's spread over them has its name with this suffix.
TASKS, SPREAD = "tasks", "_std"
#: Half the width of a 95 % interval, in standard errors.
_QUANTILE = 1.96


class Pooled(NamedTuple):
    """Mean, standard deviation (None for one task) and number of all tasks, and the average seconds per task."""

    mean: float
    std: float | None
    tasks: int
    seconds: float

    @property
    def stderr(self) -> float | None:
        """The standard error of the mean: tasks are independent."""
        return None if self.std is None else self.std / math.sqrt(self.tasks)

    @property
    def interval(self) -> float | None:
        """Half the width of the mean's 95 % interval."""
        return None if self.stderr is None else _QUANTILE * self.stderr


def block_metrics(name: str, values: NDArray[np.float64]) -> dict[str, float]:
    """The metrics that a run stores: enough for an exact mean and spread over the tasks of many runs."""
    spread = float(values.std(ddof=1)) if len(values) > 1 else 0.0
    return {name: float(values.mean()), f"{name}{SPREAD}": spread, TASKS: float(len(values))}


def pooled(runs: Sequence[Run], metric: str) -> Pooled | None:
    """Blocks as one sample of tasks; None where runs are not blocks.

    Of two blocks that begin with the same task, the longer one counts: a sweep of more tasks replaced the shorter.
    """
    if not all(TASKS in run.metrics and f"{metric}{SPREAD}" in run.metrics for run in runs):
        return None
    longest: dict[tuple[int, int], Run] = {}
    for run in runs:
        place = run.split, run.init
        if place not in longest or run.metrics[TASKS] > longest[place].metrics[TASKS]:
            longest[place] = run
    found = list(longest.values())
    counts, means, spreads = (
        np.array([run.metrics[name] for run in found]) for name in (TASKS, metric, f"{metric}{SPREAD}")
    )
    count = int(counts.sum())
    # Sums of products, not dot products: those add up in an order that depends on the processor.
    mean = float((counts * means).sum() / count)
    squares = float(((counts - 1) * spreads**2).sum() + (counts * (means - mean) ** 2).sum())
    seconds = math.fsum(run.seconds for run in found) / count
    return Pooled(mean, math.sqrt(squares / (count - 1)) if count > 1 else None, count, seconds)
