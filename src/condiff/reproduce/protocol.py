"""The interface of the paper's applications, and the one job that serves all of them.

A :class:`Protocol` says what there is to run: its options, its data and their conditions, its splits, the problem
that a method sees, how a method is called and how its answer is measured. All else (keys, the store, worker processes,
tables, the command line) is shared.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import MISSING, dataclass, field, fields
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias
from typing import Protocol as Structure

import numpy as np

from condiff.errors import InvalidInputError
from condiff.reproduce.baselines.method import Method
from condiff.reproduce.baselines.registry import Registry
from condiff.reproduce.memory import Peak, peak_memory
from condiff.reproduce.rows import Row
from condiff.reproduce.runs import NO_CONDITION, Condition, Key, Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Says in a line what is going on.
Tell: TypeAlias = Callable[[str], None]
#: Shows how many pieces of some work are done, while its context is open.
Shown: TypeAlias = Callable[[str], AbstractContextManager[Callable[[int, int], None]]]


def option(
    default: Any = MISSING,
    help: str = "",
    *,
    flag: str | None = None,
    metavar: str | None = None,
    low: float | None = None,
    high: float | None = None,
    argument: bool = False,
) -> Any:
    """A field of options: its default, and what the command line and :class:`Options` make of the rest.

    Parameters
    ----------
    default
        The value if none is given; without a default the option is required.
    help, metavar
        For the command's ``--help``.
    flag
        The option's name on the command line, where it is not the field's.
    low, high
        The range of a number, both ends included.
    argument
        Whether it is an argument of the command rather than an option.
    """
    about = {"help": help, "flag": flag, "metavar": metavar, "low": low, "high": high, "argument": argument}
    return field(default=default, metadata=about)


def flag_of(name: str, flag: str | None) -> str:
    """How an option is typed."""
    return flag or f"--{name.replace('_', '-')}"


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of every protocol, to which each adds its own. They are also the options of its command."""

    method: str = option("COIN", "Methods, separated by commas; 'all' for every one.", metavar="A,B|all")
    changes: tuple[str, ...] = option(
        (),
        "Change a method's setting, such as COIN.layers=40 or training.weight_decay=0.01; repeatable.",
        flag="--set",
        metavar="[METHOD.]NAME=VALUE",
    )

    @property
    def here_only(self) -> str:
        """Why this cannot run on a cluster; empty where it can."""
        return ""

    def __post_init__(self) -> None:
        for each in fields(self):
            value, low, high = getattr(self, each.name), each.metadata["low"], each.metadata["high"]
            if value is None or (low is None and high is None):
                continue
            if not (low is None or value >= low) or not (high is None or value <= high):
                limits = f"at least {low}" if high is None else f"in {low} .. {high}"
                raise InvalidInputError(f"{flag_of(each.name, each.metadata['flag'])} must be {limits}, not {value!r}")


@dataclass(frozen=True)
class Case:
    """One data set under one condition.

    Attributes
    ----------
    dataset, condition
        The names under which runs are stored.
    fingerprint
        Of the data's content.
    source
        Where a worker process finds the data, as something hashable.
    """

    dataset: str
    condition: Condition = NO_CONDITION
    fingerprint: str = ""
    source: Any = ""


class Outcome(Structure):
    """What every method returns beside its answer: what it cost."""

    @property
    def epochs(self) -> int: ...

    @property
    def seconds(self) -> float: ...


class Protocol(ABC):
    """An application: one file in ``protocols/`` and one line in its registry.

    A protocol has no state of its own: jobs carry it to worker processes.
    """

    #: The name of the task in results, and of the command.
    name: ClassVar[str]
    #: Its name in reports.
    title: ClassVar[str]
    #: What the command does, and how it is typed.
    about: ClassVar[str]
    examples: ClassVar[tuple[str, ...]]
    options: ClassVar[type[Options]]
    #: The package of its methods, which has a ``REGISTRY``.
    baselines: ClassVar[str]
    #: The metrics in tables; a sweep's progress shows the first.
    metrics: ClassVar[tuple[str, ...]]
    #: Those of them that the command prints; all of them by default.
    on_screen: ClassVar[tuple[str, ...]] = ()
    #: Whether the peak of memory is measured, which takes a tenth of a second: more than some runs.
    watches_memory: ClassVar[bool] = True

    @abstractmethod
    def cases(self, options: Any) -> Iterable[tuple[Case, Mapping[int, Any]]]:
        """The chosen data sets and conditions, each with its splits by their seeds."""

    @abstractmethod
    def problem(self, case: Case, seed: int, split: Any) -> Any:
        """The problem as a method sees it."""

    def solve(self, job: Job, problem: Any) -> Any:
        """Call the job's method: an :class:`Outcome`, which depends on the job alone."""
        return job.method.solve(problem, job.method_seed)

    def batches(self, jobs: Sequence[Job]) -> list[list[Job]]:
        """Jobs that are solved together because it is cheaper, with the same answers; each by itself by default."""
        return [[job] for job in jobs]

    def solve_batch(self, jobs: Sequence[Job]) -> list[Any]:
        """The :class:`Outcome` of every job of a batch."""
        return [job.solve() for job in jobs]

    @abstractmethod
    def measure(self, job: Job, outcome: Any) -> dict[str, float]:
        """Compare with the truth."""

    def methods(self, case: Case, options: Any) -> Mapping[str, Method]:
        """The chosen methods, with the settings recommended for the case."""
        registry: Registry[Any] = import_module(self.baselines).REGISTRY
        return registry.chosen(options.method, case.dataset, options.changes, case.condition)

    def settings(self, job: Job) -> dict[str, Any]:
        """The name under which a run is stored."""
        settings: dict[str, Any] = job.method.settings()
        return settings

    def identity(self, job: Job) -> str:
        """Fingerprints of the data and the split: see :class:`~condiff.reproduce.runs.Key`."""
        return f"{job.case.fingerprint}/{job.split.hash}"

    def jobs(self, options: Any) -> list[Job]:
        """All jobs, split by split, so that all methods advance together."""
        return [
            job
            for case, splits in self.cases(options)
            for job in jobs(self, case, self.methods(case, options), splits, getattr(options, "inits", 1))
        ]

    def options_of(self, runs: Sequence[Run]) -> Any:
        """The options whose splits hold these stored runs, all of one data set and condition; methods aside.

        None where they cannot be told from the runs: then a user has to give them.
        """
        return None

    def fetch(self, options: Any, shown: Shown) -> None:  # noqa: B027
        """Prepare slow inputs, such as embedded images, in the cache, and show progress."""

    def notes(self, options: Any) -> list[str]:
        """Lines to show before the runs are made."""
        return []

    def prepare(self, jobs: Sequence[Job], pool: Executor, tell: Tell) -> None:  # noqa: B027
        """Make what these jobs need before they can run."""

    def summarise(self, runs: Sequence[Run]) -> list[Row]:
        """The rows of the summary: one for each data set, condition, method, settings and metric by default."""
        from condiff.reproduce.summary import rows_of

        return rows_of(runs)

    def section(self, row: Row) -> str:
        """The heading of the table that a row of the summary belongs to; all are in one by default."""
        return ""

    def describe(self, dataset: str, condition: Condition) -> tuple[str, ...]:
        """A data set and its condition in words, for headings, which leave out what all columns share."""
        return (dataset, *(f"{name} {value}" for name, value in condition.items()))

    def published_as(self, dataset: str, condition: Condition) -> tuple[str, str | None] | None:
        """The data set of the paper's table, and the group of it to compare with; None where the paper has neither."""
        return dataset, None

    def pictures(self, jobs: Sequence[Job], runs: Sequence[Run], rows: Sequence[Row]) -> dict[str, Figure]:
        """Pictures of these jobs, of all runs in the store and of the rows that sum them up, by their file names."""
        return {}

    def remarks(self, jobs: Sequence[Job], runs: Sequence[Run]) -> list[str]:
        """Lines to show below the table of these jobs, whose runs come in the same order."""
        return []

    def texts(self, runs: Sequence[Run]) -> dict[str, str]:
        """Files to write beside the table, by name."""
        return {}


@dataclass(frozen=True, eq=False)
class Job:
    """One method on one split from one initialisation, of any protocol; it can be pickled."""

    protocol: Protocol
    case: Case
    name: str
    method: Any
    seed: int
    split: Any
    init: int = 0

    @cached_property
    def key(self) -> Key:
        """The key that identifies the run."""
        names = self.protocol.name, self.case.dataset, self.name, self.protocol.settings(self)
        return Key(*names, self.seed, self.init, self.protocol.identity(self), self.case.condition)

    @property
    def method_seed(self) -> int:
        """The seed of the method's own chance: one for each pair of seeds, far from those of neighbouring pairs."""
        return int(np.random.SeedSequence([self.seed, self.init]).generate_state(1)[0])

    def solve(self) -> Any:
        """The method's answer; the same job gives the same answer wherever it runs."""
        return self.protocol.solve(self, _latest_problem(self))

    def run(self) -> Run:
        """Solve and measure."""
        with peak_memory() if self.protocol.watches_memory else nullcontext(Peak()) as peak:
            outcome: Outcome = self.solve()
        return self._measured(outcome, peak.megabytes)

    def run_batch(self, others: Sequence[Job]) -> list[Run]:
        """Solve this and other jobs of its batch together, and measure each."""
        jobs = [self, *others]
        with peak_memory() if self.protocol.watches_memory else nullcontext(Peak()) as peak:
            outcomes = self.protocol.solve_batch(jobs)
        return [job._measured(outcome, peak.megabytes) for job, outcome in zip(jobs, outcomes, strict=True)]

    def _measured(self, outcome: Outcome, megabytes: float) -> Run:
        metrics = self.protocol.measure(self, outcome)
        return self.key.run(metrics, epochs=outcome.epochs, seconds=outcome.seconds, memory_mb=megabytes)


def jobs(
    protocol: Protocol, case: Case, methods: Mapping[str, Method], splits: Mapping[int, Any], inits: int = 1
) -> list[Job]:
    """Every method on every split of a case from every initialisation."""
    return [
        Job(protocol, case, name, method, seed, split, init)
        for seed, split in splits.items()
        for name, method in methods.items()
        for init in range(inits)
    ]


def splits_record(jobs: Iterable[Job]) -> list[dict[str, Any]]:
    """The splits of jobs, one line each, for the record."""
    found = {}
    for job in jobs:
        place = job.case.dataset, job.case.condition, job.seed
        if place not in found:
            found[place] = {
                "dataset": job.case.dataset,
                **job.case.condition,
                "seed": job.seed,
                "hash": getattr(job.split, "hash", ""),
            }
    return list(found.values())


# The problem of the last split: initialisations of one split come one after another.
_latest: tuple[tuple[object, ...], Any] | None = None


def _latest_problem(job: Job) -> Any:
    global _latest
    split = getattr(job.split, "hash", job.split)
    place = (type(job.protocol), job.case, job.seed, split)
    if _latest is None or _latest[0] != place:
        _latest = (place, job.protocol.problem(job.case, job.seed, job.split))
    return _latest[1]
