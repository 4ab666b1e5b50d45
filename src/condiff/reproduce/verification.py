"""Run some stored runs again, and compare: what is committed should be what this version makes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from condiff.errors import InvalidInputError
from condiff.reproduce.protocol import Job
from condiff.reproduce.runs import Run
from condiff.reproduce.store import Store

#: Relative differences up to this are rounding.
ROUNDING = 1e-6


@dataclass(frozen=True)
class Check:
    """A run as it is stored, and as it was made just now."""

    stored: Run
    again: Run

    @property
    def difference(self) -> float:
        """The largest difference of a metric; NaN where one of the two lacks a metric that the other has."""
        before, after = self.stored.metrics, self.again.metrics
        if before.keys() != after.keys():
            return float("nan")
        return max((abs(before[name] - after[name]) for name in before), default=0.0)

    @property
    def equal(self) -> bool:
        """Whether every digit is the same, and the number of epochs."""
        return self.stored.metrics == self.again.metrics and self.stored.epochs == self.again.epochs

    @property
    def rounded(self) -> bool:
        """Whether what differs is rounding, as between two processors: less than a millionth."""
        return bool(self.difference <= ROUNDING * max(1.0, *map(abs, self.stored.metrics.values())))

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        run = self.stored
        return {
            "dataset": run.dataset,
            "condition": dict(run.condition),
            "method": run.method,
            "split": run.split,
            "init": run.init,
            "equal": self.equal,
            "rounded": self.rounded,
            "difference": self.difference,
            "stored": {**run.metrics, "epochs": run.epochs},
            "again": {**self.again.metrics, "epochs": self.again.epochs},
        }


def draw(jobs: Sequence[Job], store: Store, number: int, seed: int = 0) -> list[Job]:
    """Some of the jobs whose runs are stored, drawn at random, in their order."""
    held = store.find([job.key for job in jobs])
    known = [job for job in jobs if job.key.digest in held]
    if not known:
        raise InvalidInputError(
            "none of these runs is stored: give the options that they were made with (the methods, splits and inits)"
        )
    drawn = np.random.default_rng(seed).permutation(len(known))[:number]
    return [known[place] for place in np.sort(drawn)]


def compare(jobs: Sequence[Job], store: Store, again: Store) -> list[Check]:
    """What two stores hold of the same jobs."""
    keys = [job.key for job in jobs]
    return [Check(*both) for both in zip(store.held(keys), again.held(keys), strict=True)]
