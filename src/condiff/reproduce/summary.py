"""Runs put together: one row for each data set, method, settings and metric, beside the published value."""

from __future__ import annotations

import json
import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from condiff.reproduce.blocks import pooled
from condiff.reproduce.published import datasets, methods, published, published_place, tasks
from condiff.reproduce.runs import Run

Row = dict[str, Any]


def summarise(runs: Iterable[Run]) -> list[Row]:
    """The rows of ``summary.json``, in the paper's order and then by name; safe for strict JSON.

    ``mean`` is over the splits, the runs of a split being averaged first: they share their data, and some splits may
    have more of them than others. ``stderr`` is the standard error of that mean; one split gives None. ``std`` is the
    sample's over all runs (divided by one less than their number), and None for one run. ``epochs`` and
    ``seconds_per_run`` are means, ``seconds_per_epoch`` is all time by all epochs (None without any), and ``memory_mb``
    is the largest peak, because a process that did another run before may have memory at hand.
    A method under several settings has a row for each. Where runs are blocks of tasks, a run in all of this is a task,
    and ``interval`` is half the width of the mean's 95 % interval. What is not a finite number becomes None.
    """
    cells: dict[tuple[Any, ...], list[Run]] = defaultdict(list)
    for run in runs:
        cells[run.task, run.dataset, run.method, _comparable(run.settings)].append(run)
    rows = []
    for cell in cells.values():
        rows += [_row(cell, metric) for metric in dict.fromkeys(name for run in cell for name in run.metrics)]
    return sorted(rows, key=_order)


def labels(rows: Sequence[Row]) -> list[str]:
    """The name of each row's method, with the settings that tell it apart where a data set has it under several."""
    families: dict[tuple[str, ...], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        families[_family(row)].append(row["settings"])
    return [_label(row["method"], row["settings"], families[_family(row)]) for row in rows]


def group(task: str, method: str) -> str:
    """The group of a method in the paper's table, or an empty text."""
    if task == "fewshot":
        return ""  # its groups are backbones
    return next((each.group for each in methods(task) if each.name == method), "")


def dataset_place(task: str, dataset: str) -> tuple[int, str]:
    """What to sort data sets by: the paper's order, then others by name."""
    return _place(dataset, datasets(task))


def method_place(task: str, method: str) -> tuple[int, str]:
    """What to sort methods by: the paper's order, then others by name."""
    return _place(method, [each.name for each in methods(task)])


def _row(runs: list[Run], metric: str) -> Row:
    first = runs[0]
    runs = [run for run in runs if metric in run.metrics]
    values = [run.metrics[metric] for run in runs]
    by_split = _split_means(runs, metric)
    mean = statistics.fmean(by_split)
    dataset, place = published_place(first.task, first.dataset)
    paper = published(first.task, dataset, first.method, metric, group=place)
    epochs, seconds = [run.epochs for run in runs], [run.seconds for run in runs]
    row = {
        "task": first.task,
        "dataset": first.dataset,
        "method": first.method,
        "metric": metric,
        "mean": _finite(mean),
        "std": _deviation(values),
        "runs": len(runs),
        "published": paper.value if paper else None,
        "published_std": paper.spread if paper else None,
        "seconds_per_run": _finite(statistics.fmean(seconds)),
        "difference": _finite(mean - paper.value) if paper else None,
        "stderr": _standard_error(by_split),
        "epochs": statistics.fmean(epochs),
        "seconds_per_epoch": _finite(math.fsum(seconds) / sum(epochs)) if sum(epochs) else None,
        "memory_mb": _finite(max(run.memory_mb for run in runs)),
        "splits": len({run.split for run in runs}),
        "inits": len({run.init for run in runs}),
        "settings": first.settings,
    }
    found = pooled(runs, metric)
    if found is not None:
        row |= {
            "mean": _finite(found.mean),
            "std": found.std,
            "runs": found.tasks,
            "seconds_per_run": found.seconds,
            "difference": _finite(found.mean - paper.value) if paper else None,
            "stderr": found.stderr,
            "seconds_per_epoch": found.seconds * len(epochs) / sum(epochs) if sum(epochs) else None,
            "interval": found.interval,
        }
    return row


def _split_means(runs: list[Run], metric: str) -> list[float]:
    splits: dict[int, list[float]] = defaultdict(list)
    for run in runs:
        splits[run.split].append(run.metrics[metric])
    return [statistics.fmean(values) for values in splits.values()]


def _standard_error(by_split: list[float]) -> float | None:
    deviation = _deviation(by_split)
    return None if deviation is None else deviation / math.sqrt(len(by_split))


def _deviation(values: list[float]) -> float | None:
    return statistics.stdev(values) if len(values) > 1 and all(map(math.isfinite, values)) else None


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _order(row: Row) -> tuple[Any, ...]:
    task = row["task"]
    return (
        _place(task, tasks()),
        dataset_place(task, row["dataset"]),
        method_place(task, row["method"]),
        _comparable(row["settings"]),
    )


def _place(name: str, known: Sequence[str]) -> tuple[int, str]:
    return (known.index(name), "") if name in known else (len(known), name.casefold())


def _comparable(settings: dict[str, Any]) -> tuple[tuple[str, int, float, str], ...]:
    # None, numbers and everything else, in this order; numbers by size, which their text would not give.
    found = []
    for name, value in _flat(settings).items():
        if value is None:
            found.append((name, 0, 0.0, ""))
        elif isinstance(value, int | float):
            found.append((name, 1, float(value), ""))
        else:
            found.append((name, 2, 0.0, json.dumps(value)))
    return tuple(found)


def _flat(settings: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    # {"training": {"epochs": 5}} is {"training.epochs": 5}; sorted.
    found: dict[str, Any] = {}
    for name, value in sorted(settings.items()):
        found |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return found


def _family(row: Row) -> tuple[str, ...]:
    return row["task"], row["dataset"], row["method"], row["metric"]


def _label(method: str, settings: dict[str, Any], family: list[dict[str, Any]]) -> str:
    shared = set.intersection(*(set(_comparable(each)) for each in family))
    telling = [item[0] for item in _comparable(settings) if item not in shared]
    values = _flat(settings)
    return f"{method} ({', '.join(f'{name} {_value_text(values[name])}' for name in telling)})" if telling else method


def _value_text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else "none" if value is None else str(value)
