"""Ordinary tables with few labels: condiff beside what practitioners use, over many tables."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from condiff.errors import InvalidInputError, MissingDependencyError, did_you_mean
from condiff.reproduce import comparison
from condiff.reproduce.baselines.method import Answers
from condiff.reproduce.baselines.tables import METHODS, REGISTRY
from condiff.reproduce.baselines.tables.method import TableMethod, TableProblem
from condiff.reproduce.datasets.ordinary_tables import (
    Task,
    distinct_tables,
    load_table,
    may_choose,
    seed_of,
    table_names,
)
from condiff.reproduce.protocol import Case, Job, Options, Protocol, option
from condiff.reproduce.protocols import ABOUT
from condiff.reproduce.rows import Row
from condiff.reproduce.runs import Condition, Run
from condiff.reproduce.splits import Split

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

Half = Literal["unseen", "chosen"]
#: Label budgets where none are named: so many per class, or ``r`` and so many random ones.
BUDGETS: dict[Task, tuple[str, ...]] = {"classes": ("1", "2", "5", "10", "r20"), "values": ("r20", "r50")}
#: Probabilities below this count as this in the log loss; R² below this counts as this in means.
LEAST_PROBABILITY, LEAST_R2 = 1e-3, -1.0
_BINS = 15
# So many rows of a class, and half of a table with values, are left to test.
_LEFT = 2


@dataclass(frozen=True, eq=False)
class Encoded:
    """A table as numbers, by condiff's own encoder from the columns of all rows."""

    x: NDArray[np.float64]
    target: NDArray[Any]
    n_classes: int
    fingerprint: str


@lru_cache(maxsize=64)
def load(name: str) -> Encoded:
    """A table by its name."""
    from condiff.encoders import TableEncoder

    table = load_table(name)
    found = TableEncoder().fit_transform(table.columns)
    x = np.asarray(found if isinstance(found, np.ndarray) else found.toarray(), dtype=np.float64)
    # Rounded: the last digits are another processor's business.
    content = np.round(x, 6) + 0.0
    digest = hashlib.sha256(content.astype("<f8").tobytes() + table.target.astype("<f8").tobytes())
    n_classes = int(table.target.max()) + 1 if table.task == "classes" else 0
    return Encoded(x, table.target, n_classes, digest.hexdigest()[:16])


def draw_labels(name: str, target: NDArray[Any], n_classes: int, condition: Condition, seed: int) -> Split:
    """Which rows get a label; all others test.

    The draw depends on the table's name, the budget and the seed alone, so that it is the same for all methods. Random
    labels are as many as the condition says, but every class gets one of them at least. Of a class, two rows at least
    are left to test; of a table with values, half of the rows.
    """
    labels, per_class = int(condition.number("labels")), bool(condition["per_class"])
    generator = np.random.default_rng(seed_of(name, budget_text(condition), seed))
    members = [generator.permutation(np.flatnonzero(target == code)) for code in range(n_classes)]
    if per_class:
        known = np.concatenate([rows[: min(labels, len(rows) - _LEFT)] for rows in members])
    elif n_classes:
        first = np.array([rows[0] for rows in members])
        others = generator.permutation(np.setdiff1d(np.arange(len(target)), first))
        known = np.concatenate([first, others[: max(0, labels - n_classes)]])
    else:
        known = generator.permutation(len(target))[: min(labels, len(target) // 2)]
    known = np.sort(known).astype(np.int64)
    return Split(known, np.empty(0, np.int64), np.setdiff1d(np.arange(len(target)), known).astype(np.int64))


def budget_of(text: str) -> Condition:
    """``5`` is five labels per class, ``r20`` twenty random ones."""
    number = text.removeprefix("r")
    if not number.isdecimal() or int(number) < 1:
        raise InvalidInputError(
            f"--budget {text!r} is neither a number of labels per class nor r and a number of labels"
        )
    return Condition(labels=int(number), per_class=not text.startswith("r"))


def budget_text(condition: Condition) -> str:
    """The inverse of :func:`budget_of`."""
    return f"{'' if condition['per_class'] else 'r'}{condition['labels']}"


@dataclass(frozen=True, kw_only=True)
class TablesOptions(Options):
    """The options of ``condiff bench tables``."""

    method: str = option("all", "Methods, separated by commas; 'all', or 'peers' for all but COIN.", metavar="A,B|all")
    half: str = option(
        "unseen", "Tables on which defaults were chosen, the others, or both.", metavar="unseen|chosen|all"
    )
    tables: str = option("", "Only these tables, separated by commas, of whatever half.", metavar="A,B")
    target: str = option("all", "Tables with classes, with values, or both.", metavar="classes|values|all")
    budget: str = option(
        "",
        "Labels: a number of them per class, or r and a number of random ones; by default 1,2,5,10,r20 for classes, "
        "r20,r50 for values.",
        metavar="1,2,5,10,r20",
    )
    draws: int = option(10, "Draws of the labels, the same for all methods.", low=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, known in (("half", ("unseen", "chosen", "all")), ("target", ("classes", "values", "all"))):
            if getattr(self, name) not in known:
                raise InvalidInputError(f"--{name} must be one of {', '.join(known)}, not {getattr(self, name)!r}")
        self.conditions("classes")

    @property
    def chosen_methods(self) -> list[str]:
        """The methods to run; of all of them, those that are installed."""
        if self.method.strip().lower() not in ("all", "peers"):
            return [REGISTRY.named(name.strip())[0] for name in self.method.split(",")]
        installed = [name for name in METHODS if not REGISTRY.get(name).missing()]
        return [name for name in installed if self.method.strip().lower() == "all" or not name.startswith("COIN")]

    @property
    def chosen_tables(self) -> list[tuple[str, Task]]:
        """The tables to measure, with what their targets have."""
        kinds: tuple[Task, ...] = ("classes", "values")
        wanted = [kind for kind in kinds if self.target in (kind, "all")]
        if not self.tables:
            return [
                (name, kind) for kind in wanted for name in distinct_tables(kind) if self.half in (half_of(name), "all")
            ]
        known = {name: kind for kind in kinds for name in table_names(kind)}
        names = [name.strip() for name in self.tables.split(",")]
        for name in names:
            if name not in known:
                raise InvalidInputError(f"{name!r} is not among the tables{did_you_mean(name, known)}")
        return [(name, known[name]) for name in names if known[name] in wanted]

    def conditions(self, kind: Task) -> list[Condition]:
        """The label budgets of tables with classes or with values."""
        named = [text.strip() for text in self.budget.split(",")] if self.budget else BUDGETS[kind]
        found = [budget_of(text) for text in dict.fromkeys(named)]
        return [condition for condition in found if kind == "classes" or not condition["per_class"]]


class Tables(Protocol):
    """Ordinary tables, each under several label budgets, for methods that see all rows and few labels.

    Its condition has the number of ``labels`` and whether that is ``per_class``; rows of its summary, which are over
    many tables, also have the ``half`` and what the ``target`` has.
    """

    name = "tables"
    title = "Ordinary tables"
    about = ABOUT["tables"]
    examples = (
        "condiff bench tables --budget r20,5 --out results/tables",
        "condiff bench tables --half chosen --method COIN,LDA,LR --draws 3",
        "condiff bench tables --tables sk-wine,py-Chile --method all --budget 5",
    )
    options = TablesOptions
    baselines = "condiff.reproduce.baselines.tables"
    metrics = (
        *("accuracy", "balanced_accuracy", "log_loss", "calibration_error", "r2", "relative_error"),
        *(f"rank_{name}" for name in comparison.RANKED),
        "seconds",
    )
    watches_memory = False
    on_screen = ("accuracy", "balanced_accuracy", "r2")

    def cases(self, options: TablesOptions) -> list[tuple[Case, dict[int, Split]]]:
        found = []
        for name, kind in options.chosen_tables:
            table = load(name)
            for condition in options.conditions(kind):
                splits = {
                    seed: draw_labels(name, table.target, table.n_classes, condition, seed)
                    for seed in range(options.draws)
                }
                found.append((Case(name, condition, table.fingerprint), splits))
        if not found:
            raise InvalidInputError("no table is left to run: name others with --tables, --half, --target or --budget")
        return found

    def options_of(self, runs: Sequence[Run]) -> TablesOptions:
        budget, draws = budget_text(runs[0].condition), 1 + max(run.split for run in runs)
        return TablesOptions(tables=runs[0].dataset, budget=budget, draws=draws)

    def jobs(self, options: TablesOptions) -> list[Job]:
        """Draw by draw, so that what is there after a while is a comparison over all tables."""
        return sorted(super().jobs(options), key=lambda job: job.seed)

    def methods(self, case: Case, options: TablesOptions) -> Mapping[str, TableMethod]:
        found = REGISTRY.chosen(",".join(options.chosen_methods), case.dataset, options.changes, case.condition)
        table = load(case.dataset)
        task: Task = "classes" if table.n_classes else "values"
        size = table.x.shape[1], table.n_classes
        return {name: method for name, method in found.items() if task in method.tasks and not method.refuses(*size)}

    def notes(self, options: TablesOptions) -> list[str]:
        missing = {name: REGISTRY.get(name).missing() for name in METHODS}
        if options.method.strip().lower() in ("all", "peers"):
            return [f"{name} is left out: {why}" for name, why in missing.items() if why]
        for name in options.chosen_methods:
            if missing[name]:
                raise MissingDependencyError(f"{name} cannot run: {missing[name]}")
        return []

    def problem(self, case: Case, seed: int, split: Split) -> TableProblem:
        table = load(case.dataset)
        given = np.full(len(table.target), -1 if table.n_classes else np.nan)
        given[split.train] = table.target[split.train]
        return TableProblem(table.x, given.astype(np.int64) if table.n_classes else given, table.n_classes)

    def measure(self, job: Job, outcome: Answers) -> dict[str, float]:
        test = job.split.test
        truth, answers = load(job.case.dataset).target[test], outcome.answers[test]
        found = measured_classes(truth, answers) if answers.ndim == 2 else measured_values(truth, answers)
        return {name: round(value, 5) for name, value in found.items()}

    def summarise(self, runs: Sequence[Run]) -> list[Row]:
        return comparison.summary(runs, half_of, is_general)

    def section(self, row: Row) -> str:
        draws = f"{row.splits} draw{'s' * (row.splits > 1)}"
        tables = row.runs // row.splits
        return f"{row.title}: {tables} table{'s' * (tables > 1)}, {draws}"

    def describe(self, dataset: str, condition: Condition) -> tuple[str, ...]:
        labels = f"{condition['labels']} {'labels per class' if condition['per_class'] else 'random labels'}"
        if condition["labels"] == 1:
            labels = labels.replace("labels", "label", 1)
        names = {"classes": "classification", "values": "regression"}
        more = [f"{half} half" for half in (condition.get("half"),) if half]
        more += [names[str(target)] for target in (condition.get("target"),) if target]
        more += [f"where {method} can run" for method in (condition.get("where"),) if method]
        return (*([dataset] if dataset != comparison.ALL else []), labels, *more)

    def published_as(self, dataset: str, condition: Condition) -> tuple[str, str | None] | None:
        return None

    def texts(self, runs: Sequence[Run]) -> dict[str, str]:
        return comparison.texts(runs, half_of, is_general, lambda row: self.section(row))

    def pictures(self, jobs: Sequence[Job], runs: Sequence[Run], rows: Sequence[Row]) -> dict[str, Figure]:
        from condiff.reproduce.figures.ranks import draw_ranks

        found = {}
        contests = [each for each in comparison.comparisons(runs, half_of, is_general) if each.is_contest]
        for each in contests:
            for metric in each.ranked:
                found[f"{each.file_name}-{metric.replace('_', '-')}.png"] = draw_ranks(each, metric)
        return found


def half_of(name: str) -> Half:
    """Whether defaults were chosen on a table."""
    return "chosen" if may_choose(name) else "unseen"


def is_general(method: str) -> bool:
    """Whether a method runs on every table."""
    return method not in METHODS or REGISTRY.get(method).general


def measured_classes(truth: NDArray[np.int64], answers: NDArray[np.float64]) -> dict[str, float]:
    """Accuracies and calibration error in percent, and the log loss."""
    clipped = np.maximum(answers, LEAST_PROBABILITY)
    p = clipped / clipped.sum(axis=1, keepdims=True)
    right = answers.argmax(axis=1) == truth
    sure = p.max(axis=1)
    bins = np.minimum((sure * _BINS).astype(int), _BINS - 1)
    gaps = np.bincount(bins, sure - right, minlength=_BINS)
    return {
        "accuracy": 100 * float(right.mean()),
        "balanced_accuracy": 100 * float(np.mean([right[truth == code].mean() for code in np.unique(truth)])),
        "log_loss": float(-np.log(p[np.arange(len(truth)), truth]).mean()),
        "calibration_error": 100 * float(np.abs(gaps).sum() / len(truth)),
    }


def measured_values(truth: NDArray[np.float64], answers: NDArray[np.float64]) -> dict[str, float]:
    """R², as it is and not below -1, and the mean absolute error relative to that of the best constant."""
    plain = 1 - float(np.mean((answers - truth) ** 2) / max(float(truth.var()), 1e-300))
    constant = float(np.abs(truth - np.median(truth)).mean())
    return {
        "r2": max(plain, LEAST_R2),
        "plain_r2": max(plain, -1e9),
        "relative_error": float(np.abs(answers - truth).mean()) / max(constant, 1e-300),
    }
