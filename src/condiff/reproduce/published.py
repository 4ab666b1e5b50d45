"""The paper's published figures, to show beside what was measured here."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True)
class Published:
    """A published value; the spread is None where the paper gives none."""

    value: float
    spread: float | None


@dataclass(frozen=True)
class PublishedMethod:
    """A line of a published table: the method and its group, empty where there are no groups."""

    name: str
    group: str


def published(task: str, dataset: str, method: str, metric: str, *, group: str | None = None) -> Published | None:
    """What the paper reports, by the names of its tables.

    None where the paper reports nothing, and where it reports one method in several groups (few-shot learning: one for
    each backbone) but no ``group`` is given.
    """
    found = _values().get((task, dataset, method, metric), {})
    if group is not None:
        return found.get(group)
    return next(iter(found.values())) if len(found) == 1 else None


@cache
def methods(task: str) -> tuple[PublishedMethod, ...]:
    """The lines of a task's table in the paper's order; empty for a task that the paper does not have."""
    lines = dict.fromkeys((row["method"], row["group"]) for row in _rows() if row["task"] == task)
    # Times and memory are in the file without the group, which is known from the same method's accuracy.
    grouped = {name for name, group in lines if group}
    return tuple(PublishedMethod(name, group) for name, group in lines if group or name not in grouped)


def group(task: str, method: str) -> str:
    """The group of a method in the paper's table, or an empty string."""
    if task == "fewshot":
        return ""  # its groups are backbones
    return next((each.group for each in methods(task) if each.name == method), "")


@cache
def datasets(task: str) -> tuple[str, ...]:
    """A task's data sets in the paper's order."""
    return tuple(dict.fromkeys(row["dataset"] for row in _rows() if row["task"] == task))


@cache
def tasks() -> tuple[str, ...]:
    """The paper's tasks in its order."""
    return tuple(dict.fromkeys(row["task"] for row in _rows()))


@cache
def _values() -> dict[tuple[str, str, str, str], dict[str, Published]]:
    values: dict[tuple[str, str, str, str], dict[str, Published]] = {}
    for row in _rows():
        key = row["task"], row["dataset"], row["method"], row["metric"]
        spread = float(row["spread"]) if row["spread"] else None
        values.setdefault(key, {})[row["group"]] = Published(float(row["value"]), spread)
    return values


@cache
def _rows() -> tuple[dict[str, str], ...]:
    text = files("condiff.reproduce").joinpath("published.csv").read_text(encoding="utf-8")
    return tuple(csv.DictReader(text.splitlines()))
