"""A row of a summary: a method's result under one condition, by one metric, beside the published value.

Tables, figures, reports and ``summary.json`` are all made of these rows, and one function writes their values.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, Literal

from condiff.errors import InvalidInputError
from condiff.reproduce.metrics import Metric, Style, metric
from condiff.reproduce.published import datasets, methods, tasks
from condiff.reproduce.runs import NO_CONDITION, Condition


class Spread(StrEnum):
    """The kind of spread beside a mean, after the ±."""

    DEVIATION = "standard deviation"
    INTERVAL = "95 % interval"
    BETWEEN_DRAWS = "standard deviation between draws"


@dataclass(frozen=True)
class Row:
    """A method's result under one condition, by one metric.

    Attributes
    ----------
    task, dataset, method, metric
        Names, those of the paper where it has them.
    condition
        What else distinguishes the runs: see the protocols for what is in it.
    settings
        The method's settings; runs with other settings have a row of their own.
    mean
        Over the splits, or over the tasks. None where it is not a finite number, here and below.
    std
        Over all runs, or tasks; None for one of them.
    stderr
        The standard error of the mean; None for one split.
    interval
        Half the width of the mean's 95 % interval; None unless ``spread_kind`` says that it is wanted.
    spread_kind
        Which of the two the paper, and so every table, puts beside the mean.
    runs, splits, inits
        How many; ``runs`` are tasks where the spread is an interval over tasks.
    published, published_std
        What the paper reports, with a spread of the same kind; None where it reports nothing.
    seconds_per_run, seconds_per_epoch, epochs, memory_mb
        The means of the times and of the epochs, and the largest peak of memory.
    """

    task: str
    dataset: str
    method: str
    metric: str
    mean: float | None
    std: float | None = None
    runs: int = 1
    published: float | None = None
    published_std: float | None = None
    seconds_per_run: float | None = None
    stderr: float | None = None
    epochs: float = 0.0
    seconds_per_epoch: float | None = None
    memory_mb: float | None = None
    splits: int = 1
    inits: int = 1
    settings: dict[str, Any] = field(default_factory=dict)
    condition: Condition = field(default=NO_CONDITION)
    interval: float | None = None
    spread_kind: Spread = Spread.DEVIATION

    @property
    def spread(self) -> float | None:
        """The spread beside the mean: the interval over tasks or the standard deviation over runs."""
        return self.interval if self.spread_kind is Spread.INTERVAL else self.std

    @property
    def noun(self) -> Literal["run", "task"]:
        """The word for one of ``runs``."""
        return "task" if self.spread_kind is Spread.INTERVAL else "run"

    @property
    def difference(self) -> float | None:
        """How far the mean is above the published value."""
        return None if self.mean is None or self.published is None else self.mean - self.published

    @property
    def place(self) -> tuple[str, Condition, str]:
        """Data set, condition and metric: rows of one place are compared with each other."""
        return self.dataset, self.condition, self.metric

    @property
    def title(self) -> str:
        """The data set and the condition, for headings."""
        return dataset_title(self.task, self.dataset, self.condition)

    @property
    def judged(self) -> Metric:
        """How the metric's values are rounded and judged."""
        return metric(self.metric, self.task)

    @property
    def misses(self) -> bool:
        """Whether the mean is further from the published value than the metric tolerates."""
        return self.judged.misses(self.difference)

    def text(self, style: Style = "plain", *, bold: bool = False) -> str:
        """``82.31 ± 0.23``: the mean and its spread as they are printed everywhere."""
        return self.judged.spread_text(self.mean, self.spread, style, bold=bold)

    def published_text(self, style: Style = "plain") -> str:
        """The published value with its spread, or a dash."""
        return self.judged.spread_text(self.published, self.published_std, style)

    def difference_text(self) -> str:
        """The difference from the published value with its sign, or a dash."""
        return self.judged.difference_text(self.difference)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON and CSV, as ``summary.json`` holds them."""
        found = {each.name: getattr(self, each.name) for each in fields(self)}
        found["condition"], found["spread_kind"] = dict(self.condition), str(self.spread_kind)
        return {**found, "difference": self.difference}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Row:
        """The row that :meth:`to_dict` wrote."""
        known = {each.name for each in fields(cls)}
        if missing := [name for name in ("task", "dataset", "method", "metric", "mean") if name not in values]:
            raise InvalidInputError(f"a row of a summary lacks {missing[0]!r}")
        found = {name: value for name, value in values.items() if name in known}
        kind = found.get("spread_kind", Spread.INTERVAL if "interval" in found else Spread.DEVIATION)
        return cls(**{**found, "condition": Condition(found.get("condition", {})), "spread_kind": Spread(kind)})


def describe(task: str, dataset: str, condition: Condition = NO_CONDITION) -> tuple[str, ...]:
    """A data set and its condition in words, as the task's protocol puts it."""
    from condiff.reproduce.protocols import PROTOCOLS, protocol

    if task in PROTOCOLS:
        return protocol(task).describe(dataset, condition)
    return (dataset, *(f"{name} {value}" for name, value in condition.items()))


def dataset_title(task: str, dataset: str, condition: Condition = NO_CONDITION) -> str:
    """A data set under a condition, for headings."""
    return ", ".join(describe(task, dataset, condition))


def section(row: Row) -> str:
    """The heading of the table that a row belongs to, as the task's protocol puts it; empty where all are in one."""
    from condiff.reproduce.protocols import PROTOCOLS, protocol

    return protocol(row.task).section(row) if row.task in PROTOCOLS else ""


def published_as(task: str, dataset: str, condition: Condition = NO_CONDITION) -> tuple[str, str | None] | None:
    """The data set and the group of the paper's table to compare with, as the task's protocol knows them."""
    from condiff.reproduce.protocols import PROTOCOLS, protocol

    return protocol(task).published_as(dataset, condition) if task in PROTOCOLS else None


def labels(rows: Sequence[Any]) -> list[str]:
    """The method of each row, or pair of methods, with the settings that distinguish it where a cell has several."""
    families: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        families[row.task, row.method, *row.place].append(row.settings)
    return [_label(row.method, row.settings, families[row.task, row.method, *row.place]) for row in rows]


def paper_order(row: Row) -> tuple[Any, ...]:
    """The sort key of rows: the paper's order, then others by name, then settings by size."""
    return (
        _place(row.task, tasks()),
        dataset_place(row.task, row.dataset, row.condition),
        method_place(row.task, row.method),
        comparable(row.settings),
    )


def dataset_place(task: str, dataset: str, condition: Condition = NO_CONDITION) -> tuple[Any, ...]:
    """The sort key of data sets: the paper's order, then others by name and condition."""
    papers = published_as(task, dataset, condition)
    return (*_place(papers[0] if papers else dataset, datasets(task)), dataset, comparable(condition))


def method_place(task: str, method: str) -> tuple[int, str]:
    """The sort key of methods: the paper's order, then others by name."""
    return _place(method, [each.name for each in methods(task)])


def comparable(settings: Mapping[str, Any]) -> tuple[tuple[str, int, float, str], ...]:
    """Settings as something hashable that sorts None, numbers by size, and everything else, in this order."""
    found = []
    for name, value in _flat(settings).items():
        if value is None:
            found.append((name, 0, 0.0, ""))
        elif isinstance(value, int | float):
            found.append((name, 1, float(value), ""))
        else:
            found.append((name, 2, 0.0, json.dumps(value)))
    return tuple(found)


def _place(name: str, known: Sequence[str]) -> tuple[int, str]:
    return (known.index(name), "") if name in known else (len(known), name.casefold())


def _flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    # {"training": {"epochs": 5}} is {"training.epochs": 5}; sorted.
    found: dict[str, Any] = {}
    for name, value in sorted(settings.items()):
        found |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return found


def _label(method: str, settings: dict[str, Any], family: list[dict[str, Any]]) -> str:
    shared = set.intersection(*(set(comparable(each)) for each in family))
    telling = [item[0] for item in comparable(settings) if item not in shared]
    values = _flat(settings)
    return f"{method} ({', '.join(f'{name} {_value_text(values[name])}' for name in telling)})" if telling else method


def _value_text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else "none" if value is None else str(value)
