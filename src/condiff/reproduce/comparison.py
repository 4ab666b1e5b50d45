"""Methods compared over many data sets: means, ranks with their critical difference, and pairs.

Only the data sets and draws count that all methods have; a method that cannot run everywhere is compared apart, with
all others on the data sets that it has.
"""

from __future__ import annotations

import csv
import io
import json
import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from condiff.reproduce.metrics import metric
from condiff.reproduce.rows import Row, Spread, comparable, labels
from condiff.reproduce.runs import Condition, Run

#: The name of all data sets together.
ALL = "tables"
#: Metrics whose ranks are shown; the first of a target's decides the order of methods.
RANKED = ("accuracy", "balanced_accuracy", "log_loss", "r2")
_ORDER = (*RANKED, "calibration_error", "relative_error")
#: Which method is set beside all others, and the one that it must not fall behind.
OURS, OUR_BASE = "COIN", "COIN-base"
_LEVEL = 0.05
_WORST = 5


@dataclass(frozen=True, eq=False)
class Comparison:
    """Methods on the same data sets and draws of one condition.

    Attributes
    ----------
    condition
        What the runs share.
    methods, settings
        Labels of the methods, and their settings.
    tables, draws
        Names and seeds.
    values
        By metric: (methods, tables, draws), NaN where a draw is missing for all methods.
    seconds
        Likewise.
    """

    condition: Condition
    methods: list[str]
    names: list[str]
    settings: list[dict[str, Any]]
    tables: list[str]
    draws: list[int]
    values: dict[str, NDArray[np.float64]]
    seconds: NDArray[np.float64]

    @property
    def metrics(self) -> list[str]:
        """Those that were measured, in the order in which they are shown."""
        return [name for name in _ORDER if name in self.values]

    @property
    def ranked(self) -> list[str]:
        """Those whose ranks are shown."""
        return [name for name in RANKED if name in self.values]

    @property
    def runs(self) -> int:
        """Runs of each method."""
        return int(np.isfinite(self.seconds[0]).sum())

    @property
    def file_name(self) -> str:
        """Letters and digits that distinguish the condition from others."""
        parts = [
            self.condition["half"],
            self.condition.get("where"),
            "regression" * (self.condition["target"] == "values"),
        ]
        budget = f"{self.condition['labels']}-{'per-class' if self.condition['per_class'] else 'labels'}"
        return "-".join(["ranks", *(str(part).lower() for part in parts if part), budget])

    def by_table(self, name: str) -> NDArray[np.float64]:
        """Means over draws, (methods, tables)."""
        return np.asarray(np.nanmean(self.values[name], axis=2))

    @cached_property
    def contenders(self) -> list[int]:
        """The methods that are ranked: variants of ours would only share its places."""
        return [index for index, name in enumerate(self.names) if not name.startswith(f"{OURS}-")]

    @property
    def is_contest(self) -> bool:
        """Whether there is enough to rank and to test."""
        return len(self.tables) > 1 and len(self.contenders) > 2

    def ranks(self, name: str) -> NDArray[np.float64]:
        """Ranks of the contenders on every table, 1 for the best; equal ones share the mean rank.

        The shape is (methods, tables), with NaN for methods that are not ranked.
        """
        from scipy import stats

        sign = -1 if metric(name).higher_is_better else 1
        found = np.full((len(self.methods), len(self.tables)), np.nan)
        # What prints the same is the same.
        found[self.contenders] = stats.rankdata(np.round(sign * self.by_table(name)[self.contenders], 6), axis=0)
        return found

    def critical_difference(self) -> float:
        """Nemenyi: mean ranks closer than this cannot be distinguished at the 5 % level."""
        from scipy import stats

        k, n = len(self.contenders), len(self.tables)
        return float(
            stats.studentized_range.ppf(1 - _LEVEL, k, np.inf) / math.sqrt(2) * math.sqrt(k * (k + 1) / (6 * n))
        )

    def friedman(self, name: str) -> float:
        """The p-value of Friedman's test that all methods are alike."""
        from scipy import stats

        return float(stats.friedmanchisquare(*self.by_table(name)[self.contenders]).pvalue)

    def rows(self) -> list[Row]:
        """A row for every method and metric."""
        found = []
        for index, method in enumerate(self.names):
            found += [self._row(index, method, name, self.values[name][index]) for name in self.metrics]
            if index in self.contenders:
                ranks = {name: float(self.ranks(name)[index].mean()) for name in self.ranked}
                found += [self._row(index, method, f"rank_{name}", None, rank) for name, rank in ranks.items()]
            found.append(self._row(index, method, "seconds", self.seconds[index]))
        return found

    def _row(
        self, index: int, method: str, name: str, values: NDArray[np.float64] | None, mean: float | None = None
    ) -> Row:
        deviation = None
        if values is not None:
            mean = float(np.nanmean(values, axis=1).mean())
            # Of the mean over tables, from draw to draw: draws that all tables have.
            draws = values[:, np.isfinite(values).all(axis=0)].mean(axis=0)
            deviation = statistics.stdev(draws.tolist()) if draws.size > 1 else None
        return Row(
            task="tables",
            dataset=ALL,
            method=method,
            metric=name,
            mean=mean,
            std=deviation,
            runs=self.runs,
            seconds_per_run=float(np.nanmean(self.seconds[index])),
            stderr=None if deviation is None else deviation / math.sqrt(len(self.draws)),
            splits=len(self.draws),
            settings=self.settings[index],
            condition=self.condition,
            spread_kind=Spread.BETWEEN_DRAWS,
        )

    def against(self, reference: str) -> list[dict[str, Any]]:
        """How far a method is ahead of every other: means over tables, their standard errors, and tables won."""
        if reference not in self.methods:
            return []
        own = self.methods.index(reference)
        found = []
        for index, method in enumerate(self.methods):
            if index == own:
                continue
            for name in self.metrics:
                sign = 1 if metric(name).higher_is_better else -1
                table = self.by_table(name)
                gaps = sign * (table[own] - table[index])
                error = float(gaps.std(ddof=1) / math.sqrt(gaps.size)) if gaps.size > 1 else None
                won = float((gaps > 0).sum() + 0.5 * (gaps == 0).sum())
                place = {**self.condition, "reference": reference, "method": method, "metric": name}
                found.append(
                    {**place, "tables": gaps.size, "difference": float(gaps.mean()), "stderr": error, "won": won}
                )
        return found

    def worst(self, reference: str, other: str, name: str) -> list[tuple[str, float]]:
        """The tables on which a method is furthest behind another, with the differences."""
        if not {reference, other} <= set(self.methods):
            return []
        table = self.by_table(name)
        sign = 1 if metric(name).higher_is_better else -1
        gaps = sign * (table[self.methods.index(reference)] - table[self.methods.index(other)])
        return [(self.tables[index], float(gaps[index])) for index in np.argsort(gaps)[:_WORST]]


#: The half of a table, by its name; whether a method, by its name, runs on all tables.
Half = Callable[[str], str]
General = Callable[[str], bool]


def comparisons(runs: Iterable[Run], half: Half, general: General) -> list[Comparison]:
    """One for each half, target and budget, and one more for each method that cannot run on every table."""
    places: dict[Condition, list[Run]] = defaultdict(list)
    for run in runs:
        target = "values" if "r2" in run.metrics else "classes"
        places[Condition(run.condition, half=half(run.dataset), target=target)].append(run)
    found = []
    for condition, own in sorted(places.items(), key=lambda each: comparable(each[0])):
        everywhere = [run for run in own if general(run.method)]
        found.append(_comparison(condition, everywhere))
        for name in sorted({run.method for run in own} - {run.method for run in everywhere}):
            some = [run for run in own if general(run.method) or run.method == name]
            found.append(_comparison(Condition(condition, where=name), some))
    return [each for each in found if each is not None]


def _comparison(condition: Condition, runs: Sequence[Run]) -> Comparison | None:
    cells: dict[tuple[str, Any], dict[tuple[str, int], Run]] = defaultdict(dict)
    for run in runs:
        cells[run.method, comparable(run.settings)][run.dataset, run.split] = run
    if not cells:
        return None
    common = set.intersection(*(set(own) for own in cells.values()))
    if not common:
        return None
    tables, draws = sorted({table for table, _ in common}), sorted({draw for _, draw in common})
    firsts = [next(iter(own.values())) for own in cells.values()]
    shown = [
        Row(run.task, ALL, run.method, "accuracy", None, settings=run.settings, condition=condition) for run in firsts
    ]
    names = list(firsts[0].metrics)
    values = {name: np.full((len(cells), len(tables), len(draws)), np.nan) for name in names}
    seconds = np.full((len(cells), len(tables), len(draws)), np.nan)
    for index, own in enumerate(cells.values()):
        for table, draw in common:
            run, place = own[table, draw], (index, tables.index(table), draws.index(draw))
            seconds[place] = run.seconds
            for name in names:
                values[name][place] = run.metrics[name]
    methods = [run.method for run in firsts]
    return Comparison(
        condition, labels(shown), methods, [run.settings for run in firsts], tables, draws, values, seconds
    )


def summary(runs: Iterable[Run], half: Half, general: General) -> list[Row]:
    """The rows of all comparisons."""
    return [row for each in comparisons(runs, half, general) for row in each.rows()]


def texts(runs: Iterable[Run], half: Half, general: General, heading: Callable[[Row], str]) -> dict[str, str]:
    """``comparison.md`` and ``.json`` for people and programs, and ``by-table.csv`` with the means of every table."""
    found = comparisons(runs, half, general)
    if not found:
        return {}
    pairs = [pair for each in found for pair in each.against(OURS)]
    tests = [
        {
            **each.condition,
            "metric": name,
            "tables": len(each.tables),
            "methods": len(each.contenders),
            "friedman_p": each.friedman(name),
            "critical_difference": each.critical_difference(),
        }
        for each in found
        if each.is_contest
        for name in each.ranked
    ]
    written = {"tests": tests, "pairs": pairs}
    return {
        "comparison.md": "\n\n".join(_markdown(each, heading) for each in found) + "\n",
        "comparison.json": json.dumps(written, indent=2) + "\n",
        "by-table.csv": _csv(found),
    }


def _markdown(each: Comparison, heading: Callable[[Row], str]) -> str:
    parts = [f"## {heading(each.rows()[0])}", _ranking(each)]
    if each.is_contest:
        first = each.ranked[0]
        parts.append(
            f"Mean ranks closer than {each.critical_difference():.2f} cannot be distinguished (Nemenyi, 5 %); "
            f"that all methods are alike in {metric(first).title} has p = {each.friedman(first):.1g} (Friedman)."
        )
    parts += [text for text in (_pairs(each), _worst(each)) if text]
    return "\n\n".join(parts)


def _ranking(each: Comparison) -> str:
    """Methods by their first metric, the best first."""
    names, ranked = each.metrics, each.ranked
    titles = [*(metric(name).title for name in names), *(metric(f"rank_{name}").title for name in ranked), "seconds"]
    lines = [f"| method | {' | '.join(titles)} |", "| --- |" + " ---: |" * len(titles)]
    means = {name: each.by_table(name).mean(axis=1) for name in names}
    ranks = {name: each.ranks(name).mean(axis=1) for name in ranked}
    sign = -1 if metric(names[0]).higher_is_better else 1
    for index in np.argsort(sign * means[names[0]], kind="stable"):
        cells = [metric(name, "tables").text(float(means[name][index])) for name in names]
        cells += [f"{ranks[name][index]:.2f}" if index in each.contenders else "-" for name in ranked]
        lines.append(f"| {each.methods[index]} | {' | '.join(cells)} | {np.nanmean(each.seconds[index]):.2g} |")
    return "\n".join(lines)


def _pairs(each: Comparison) -> str:
    """How far ours is ahead of every other, with standard errors over tables."""
    pairs = each.against(OURS)
    if not pairs:
        return ""
    names = each.metrics
    titles = [title for name in names for title in (metric(name).title, "won")]
    lines = [f"| {OURS} is ahead of | {' | '.join(titles)} |", "| --- |" + " ---: |" * len(titles)]
    cells: dict[str, list[str]] = defaultdict(list)
    for pair in pairs:
        judged = metric(pair["metric"], "tables")
        error = "" if pair["stderr"] is None else f" ± {judged.text(pair['stderr'])}"
        cells[pair["method"]] += [f"{judged.difference_text(pair['difference'])}{error}", f"{pair['won']:g}"]
    lines += [f"| {method} | {' | '.join(texts)} |" for method, texts in cells.items()]
    count = len(each.tables)
    return "\n".join(
        [*lines, "", f"Differences are means over {count} tables ± their standard errors; won: of {count}."]
    )


def _worst(each: Comparison) -> str:
    """Where ours is furthest behind its own base."""
    lines = []
    for name in each.ranked:
        worst = each.worst(OURS, OUR_BASE, name)
        if worst:
            judged = metric(name, "tables")
            texts = ", ".join(f"{table} {judged.difference_text(gap)}" for table, gap in worst)
            lines.append(f"- {judged.title}: {texts}")
    return "\n".join([f"{OURS} beside its own base, the {_WORST} worst tables:", "", *lines]) if lines else ""


def _csv(found: Sequence[Comparison]) -> str:
    stream = io.StringIO()
    metrics = [name for name in _ORDER if any(name in each.values for each in found)]
    names = ["half", "target", "labels", "per_class", "where", "table", "method", "draws", *metrics, "seconds"]
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(names)
    for each in found:
        place = [each.condition.get(name, "") for name in names[:5]]
        means = {name: each.by_table(name) for name in each.metrics}
        for column, table in enumerate(each.tables):
            draws = int(np.isfinite(each.seconds[0, column]).sum())
            for index, method in enumerate(each.methods):
                values = [f"{means[name][index, column]:.5g}" if name in means else "" for name in metrics]
                seconds = f"{np.nanmean(each.seconds[index, column]):.3g}"
                writer.writerow([*place, table, method, draws, *values, seconds])
    return stream.getvalue()
