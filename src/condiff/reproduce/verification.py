"""Run some stored runs again, and compare: what is committed should be what this version makes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np

from condiff.errors import InvalidInputError
from condiff.reproduce.baselines.override import with_settings
from condiff.reproduce.metrics import METRICS, metric
from condiff.reproduce.protocol import Job
from condiff.reproduce.protocols import protocol
from condiff.reproduce.provenance import processor
from condiff.reproduce.runs import Condition, Run
from condiff.reproduce.store import Store

#: Relative differences up to this are rounding.
ROUNDING = 1e-6


@dataclass(frozen=True)
class Check:
    """A run as it is stored, and as it was made just now; ``made`` is what the store says of its making."""

    stored: Run
    again: Run
    made: dict[str, Any] = field(default_factory=dict)

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

    @property
    def processor(self) -> str:
        """The processor that made the stored run; empty where that was not recorded."""
        return str(self.made.get("processor", ""))

    @property
    def elsewhere(self) -> bool:
        """Whether it is known to come from another kind of processor, where a training may take another path."""
        return self.processor not in ("", processor())

    @property
    def hidden(self) -> bool:
        """Whether no digit that a table shows differs."""
        before, after = self.stored.metrics, self.again.metrics
        shown = [name for name in before if name in METRICS]
        if before.keys() != after.keys() or not shown:
            return self.rounded
        return all(
            abs(before[name] - after[name]) < 0.5 * 10.0 ** -metric(name, self.stored.task).decimals for name in shown
        )

    @property
    def wrong(self) -> bool:
        """Whether it differs and no other processor explains it.

        Where the processor was not recorded it may have been another one: only what a table would show counts then.
        """
        return not (self.rounded or self.elsewhere or (not self.processor and self.hidden))

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
            "commit": str(self.made.get("commit", "")),
            "processor": self.processor,
        }


def draw(jobs: Sequence[Job], store: Store, number: int, seed: int = 0) -> list[Job]:
    """Some of the jobs whose runs are stored, drawn at random, in their order."""
    held = store.find([job.key for job in jobs])
    known = [job for job in jobs if job.key.digest in held]
    if not known:
        raise InvalidInputError(
            "none of these runs is stored: give the options that they were made with (the methods, splits and inits), "
            "or none at all, to draw among everything in the folder"
        )
    return [known[place] for place in _places(len(known), number, seed)]


def draw_stored(store: Store, number: int, seed: int = 0) -> tuple[list[Job], int]:
    """The jobs of some of all stored runs, drawn at random, and how many runs could not be drawn.

    These are runs that do not tell the options they were made with. A run that no job of this version has the key of
    cannot be made again: its data, its splits or its method's settings are no longer what they were, which is an error.
    """
    found: list[Job] = []
    every: dict[tuple[str, str, Condition], list[Run]] = {}
    for run in store.runs():
        every.setdefault((run.task, run.dataset, run.condition), []).append(run)
    known = [run for (task, *_), own in every.items() if protocol(task).options_of(own) is not None for run in own]
    if not known:
        raise InvalidInputError("what made the runs of this folder is not in the store: give their options as well")
    groups: dict[tuple[str, str, Condition], list[Run]] = {}
    for run in (known[place] for place in _places(len(known), number, seed)):
        groups.setdefault((run.task, run.dataset, run.condition), []).append(run)
    for (_, dataset, _), own in groups.items():
        jobs = jobs_of(own)
        held = store.find([job.key for job in jobs])
        lost = {(run.method, run.split, run.init) for run in own} - {
            (job.name, job.seed, job.init) for job in jobs if job.key.digest in held
        }
        if lost:
            method, split, init = sorted(lost)[0]
            raise InvalidInputError(
                f"{len(lost)} of {len(own)} runs of {dataset} cannot be made again, such as {method}, split {split}, "
                f"init {init}: this version has other data, splits or settings under these names"
            )
        found += [job for job in jobs if job.key.digest in held]
    return found, len(store) - len(known)


def jobs_of(runs: Sequence[Run]) -> list[Job]:
    """The jobs that made some runs of one task, data set and condition, which tell their options.

    A method is as it is recommended, or has the run's own settings.
    """
    owner = protocol(runs[0].task)
    methods, options = import_module(owner.baselines).REGISTRY, owner.options_of(runs)
    found = []
    for run in runs:
        made = methods.get(run.method).recommended(run.dataset, run.condition)
        for case, splits in owner.cases(options):
            if case.condition == run.condition and run.split in splits:
                job = Job(owner, case, run.method, made, run.split, splits[run.split], run.init)
                if job.key.settings != run.settings:
                    method = with_settings(made, run.settings)
                    job = Job(owner, case, run.method, method, run.split, job.split, run.init)
                found.append(job)
    return found


def _places(count: int, number: int, seed: int) -> list[int]:
    return sorted(np.random.default_rng(seed).permutation(count)[:number].tolist())


def compare(jobs: Sequence[Job], store: Store, again: Store) -> list[Check]:
    """What two stores hold of the same jobs."""
    keys = [job.key for job in jobs]
    made = store.made(keys)
    both = zip(keys, store.held(keys), again.held(keys), strict=True)
    return [Check(stored, other, made.get(key.digest, {})) for key, stored, other in both]
