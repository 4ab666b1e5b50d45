"""Methods compared split by split: what a split has in common, such as a lucky training set, cancels out."""

from __future__ import annotations

import json
import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any

from condiff.errors import InvalidInputError, did_you_mean
from condiff.reproduce.metrics import Metric, metric
from condiff.reproduce.rows import labels, method_place
from condiff.reproduce.runs import Condition, Run


@dataclass(frozen=True)
class Pair:
    """How far a reference is ahead of a method, over the splits that both were run on.

    Attributes
    ----------
    task, dataset, condition, metric
        What both were run on, and the metric to compare.
    reference, method, settings
        The two methods, and the settings of the second.
    splits
        How many both were run on.
    difference
        The mean of the splits' differences, positive where the reference is better.
    stderr
        Of that mean; None for one split.
    wins
        Splits on which the reference is better; one without a difference counts as half.
    """

    task: str
    dataset: str
    condition: Condition
    reference: str
    method: str
    settings: dict[str, Any]
    metric: str
    splits: int
    difference: float
    stderr: float | None
    wins: float

    @property
    def place(self) -> tuple[str, Condition, str]:
        """As in a :class:`~condiff.reproduce.rows.Row`."""
        return self.dataset, self.condition, self.metric

    @property
    def judged(self) -> Metric:
        """How the differences are rounded."""
        return metric(self.metric, self.task)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        found = {each.name: getattr(self, each.name) for each in fields(self)}
        return {**found, "condition": dict(self.condition)}


def paired(runs: Iterable[Run], metrics: Sequence[str], reference: str | None = None) -> list[Pair]:
    """How far a method is ahead of every other, over the splits that both were run on; in the paper's order.

    Initialisations of a split are averaged first. The reference is COIN, or the method of the most runs, where none is
    named; one with several settings is taken with those of the most runs.
    """
    runs = list(runs)
    if reference is None:
        names = [run.method for run in runs]
        reference = "COIN" if "COIN" in names else max(names, key=names.count)
    if len({(run.task, run.dataset, run.condition) for run in runs}) > 1:
        raise InvalidInputError("splits of different data sets cannot be paired: give the runs of one")
    cells: dict[tuple[str, str], dict[int, list[Run]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        cells[run.method, json.dumps(run.settings, sort_keys=True)][run.split].append(run)
    own = [key for key in cells if key[0] == reference]
    if not own:
        known = list(dict.fromkeys(name for name, _ in cells))
        raise InvalidInputError(f"there is no run of {reference!r} to compare with{did_you_mean(reference, known)}")
    chosen = max(own, key=lambda key: sum(map(len, cells[key].values())))
    others = sorted((key for key in cells if key != chosen), key=lambda key: method_place(runs[0].task, key[0]))
    found = (_pair(cells[chosen], cells[key], name) for name in metrics for key in others)
    return [pair for pair in found if pair is not None]


def pairs_markdown(pairs: Sequence[Pair]) -> str:
    """One line per method and two columns per metric: difference with its standard error, and splits won."""
    if not pairs:
        raise InvalidInputError("there are no methods to compare")
    names = list(dict.fromkeys(pair.metric for pair in pairs))
    titles = [title for name in names for title in (metric(name).title, "won")]
    lines = [
        f"| {pairs[0].reference} against | " + " | ".join(titles) + " |",
        "| --- |" + " ---: |" * len(titles),
    ]
    rows: dict[str, dict[str, Pair]] = defaultdict(dict)
    for pair, label in zip(pairs, labels(pairs), strict=True):
        rows[label][pair.metric] = pair
    for label, cells in rows.items():
        texts = [text for name in names for text in _texts(cells.get(name))]
        lines.append(f"| {label} | " + " | ".join(texts) + " |")
    return "\n".join(lines)


def pairs_texts(pairs: Sequence[Pair], markdown: str = "") -> dict[str, str]:
    """The files ``pairs.md`` and ``pairs.json``, with this Markdown instead of the plain table; none without pairs."""
    if not pairs:
        return {}
    found = json.dumps([pair.to_dict() for pair in pairs], indent=2) + "\n"
    return {"pairs.md": markdown or pairs_markdown(pairs) + "\n", "pairs.json": found}


def _pair(ours: dict[int, list[Run]], theirs: dict[int, list[Run]], name: str) -> Pair | None:
    one, two = _by_split(ours, name), _by_split(theirs, name)
    sign = 1 if metric(name).higher_is_better else -1
    differences = [sign * (one[split] - two[split]) for split in sorted(one.keys() & two.keys())]
    if not differences:
        return None
    first, other = next(iter(ours.values()))[0], next(iter(theirs.values()))[0]
    return Pair(
        first.task,
        first.dataset,
        first.condition,
        first.method,
        other.method,
        other.settings,
        name,
        len(differences),
        statistics.fmean(differences),
        statistics.stdev(differences) / math.sqrt(len(differences)) if len(differences) > 1 else None,
        sum((value > 0) + 0.5 * (value == 0) for value in differences),
    )


def _by_split(runs: dict[int, list[Run]], name: str) -> dict[int, float]:
    values = {split: [run.metrics[name] for run in found if name in run.metrics] for split, found in runs.items()}
    return {split: statistics.fmean(found) for split, found in values.items() if found}


def _texts(pair: Pair | None) -> tuple[str, str]:
    if pair is None:
        return "-", "-"
    judged = pair.judged
    text = judged.difference_text(pair.difference)
    if pair.stderr is not None:
        text += f" ± {judged.text(pair.stderr)}"
    return text, f"{pair.wins:g} of {pair.splits}"
