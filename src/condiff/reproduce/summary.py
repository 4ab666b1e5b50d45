"""Runs summarised: one row for each data set, condition, method, settings and metric, beside the published value."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from condiff.reproduce.blocks import pooled
from condiff.reproduce.published import published
from condiff.reproduce.rows import Row, Spread, comparable, paper_order, published_as
from condiff.reproduce.runs import Run


def summarise(runs: Iterable[Run]) -> list[Row]:
    """The rows of ``summary.json``, as the protocol of each task makes them; in the paper's order and then by name."""
    from condiff.reproduce.protocols import PROTOCOLS, protocol

    tasks: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        tasks[run.task].append(run)
    rows = [
        row
        for task, own in tasks.items()
        for row in (protocol(task).summarise(own) if task in PROTOCOLS else rows_of(own))
    ]
    return sorted(rows, key=paper_order)


def rows_of(runs: Iterable[Run]) -> list[Row]:
    """A row for each data set, condition, method, settings and metric; safe for strict JSON.

    ``mean`` is over the splits, after averaging the runs of each split: they share their data, and some splits may
    have more of them than others. ``stderr`` is the standard error of that mean; one split gives None. ``std`` is the
    sample's over all runs (divided by one less than their number), and None for one run. ``epochs`` and
    ``seconds_per_run`` are means, ``seconds_per_epoch`` is all time over all epochs (None without any), and
    ``memory_mb`` is the largest peak, because a process that did another run before may reuse its memory.
    A method with several settings has a row for each. Where runs are blocks of tasks, a run in all of this is a task,
    and the spread to show is half the width of the mean's 95 % interval. What is not a finite number becomes None.
    """
    cells: dict[tuple[Any, ...], list[Run]] = defaultdict(list)
    for run in runs:
        cells[run.task, run.dataset, run.condition, run.method, comparable(run.settings)].append(run)
    rows = []
    for cell in cells.values():
        rows += [_row(cell, metric) for metric in dict.fromkeys(name for run in cell for name in run.metrics)]
    return rows


def _row(runs: list[Run], metric: str) -> Row:
    first = runs[0]
    runs = [run for run in runs if metric in run.metrics]
    values = [run.metrics[metric] for run in runs]
    by_split = _split_means(runs, metric)
    mean = statistics.fmean(by_split)
    papers = published_as(first.task, first.dataset, first.condition)
    paper = published(first.task, papers[0], first.method, metric, group=papers[1]) if papers else None
    epochs, seconds = [run.epochs for run in runs], [run.seconds for run in runs]
    row = Row(
        task=first.task,
        dataset=first.dataset,
        method=first.method,
        metric=metric,
        mean=_finite(mean),
        std=_deviation(values),
        runs=len(runs),
        published=paper.value if paper else None,
        published_std=paper.spread if paper else None,
        seconds_per_run=_finite(statistics.fmean(seconds)),
        stderr=_standard_error(by_split),
        epochs=statistics.fmean(epochs),
        seconds_per_epoch=_finite(math.fsum(seconds) / sum(epochs)) if sum(epochs) else None,
        memory_mb=_finite(max(run.memory_mb for run in runs)),
        splits=len({run.split for run in runs}),
        inits=len({run.init for run in runs}),
        settings=first.settings,
        condition=first.condition,
    )
    found = pooled(runs, metric)
    if found is None:
        return row
    return replace(
        row,
        mean=_finite(found.mean),
        std=found.std,
        runs=found.tasks,
        seconds_per_run=found.seconds,
        stderr=found.stderr,
        seconds_per_epoch=found.seconds * len(epochs) / sum(epochs) if sum(epochs) else None,
        interval=found.interval,
        spread_kind=Spread.INTERVAL,
    )


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
