"""How accuracy depends on the diffusion: the paper's two findings as claims that the runs can refute."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from scipy import stats

from condiff.reproduce.runs import Run

#: Accuracies closer than this, in points, count as comparable.
COMPARABLE = 1.0
#: A range of totals is broad if its ends are at least this factor apart.
BROAD = 1.5
#: Two numbers of layers do not differ if the 90 % interval of their difference lies within this many points.
EQUIVALENT = 0.5


def claims(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """The findings for every data set, each with what was measured and whether it holds."""
    found = []
    for dataset in dict.fromkeys(run.dataset for run in runs):
        own = [run for run in runs if run.dataset == dataset]
        found.append(_optimum(dataset, own))
        found += _layers(dataset, own)
    return found


def _optimum(dataset: str, runs: Sequence[Run]) -> dict[str, Any]:
    """Accuracy rises and then falls with the total strength, and is nearly as good over a broad range."""
    by_setting: dict[tuple[int, float], list[float]] = defaultdict(list)
    for run in runs:
        by_setting[_layers_of(run), _total(run)].append(run.metrics["accuracy"])
    layers = max({number for number, _ in by_setting})
    means = {total: statistics.fmean(values) for (number, total), values in by_setting.items() if number == layers}
    totals = sorted(means)
    best = max(totals, key=lambda total: means[total])
    place = totals.index(best)
    near = [place, place]
    while near[0] > 0 and means[totals[near[0] - 1]] >= means[best] - COMPARABLE:
        near[0] -= 1
    while near[1] + 1 < len(totals) and means[totals[near[1] + 1]] >= means[best] - COMPARABLE:
        near[1] += 1
    low, high = totals[near[0]], totals[near[1]]
    return {
        "claim": "a broad optimum in layers * strength",
        "dataset": dataset,
        "layers": layers,
        "best_total": best,
        "best_accuracy": means[best],
        "lowest_total": totals[0],
        "lowest_accuracy": means[totals[0]],
        "highest_total": totals[-1],
        "highest_accuracy": means[totals[-1]],
        "within_one_point_from": low,
        "within_one_point_to": high,
        "text": f"best {means[best]:.1f} at {best:g}; within {COMPARABLE:g} point from {low:g} to {high:g}; "
        f"{means[totals[0]]:.1f} at {totals[0]:g}, {means[totals[-1]]:.1f} at {totals[-1]:g} ({layers} layers)",
        "holds": 0 < place < len(totals) - 1 and high / low >= BROAD,
    }


def _layers(dataset: str, runs: Sequence[Run]) -> list[dict[str, Any]]:
    """At the same total strength, the number of layers makes no difference: two one-sided tests on paired splits."""
    by_setting: dict[tuple[int, float], dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        by_setting[_layers_of(run), _total(run)][run.split].append(run.metrics["accuracy"])
    numbers = sorted({number for number, _ in by_setting})
    found = []
    for few, many in pairwise(numbers):
        for total in sorted({total for number, total in by_setting if number == few}):
            one, two = by_setting[few, total], by_setting.get((many, total), {})
            splits = sorted(set(one) & set(two))
            differences = [statistics.fmean(one[split]) - statistics.fmean(two[split]) for split in splits]
            if len(differences) < 3:
                continue
            mean = statistics.fmean(differences)
            error = statistics.stdev(differences) / math.sqrt(len(differences))
            half = float(stats.t.ppf(0.95, len(differences) - 1)) * error
            found.append(
                {
                    "claim": f"{few} layers are no different from {many} at the same layers * strength",
                    "dataset": dataset,
                    "total": total,
                    "difference": mean,
                    "interval_90": [mean - half, mean + half],
                    "splits": len(splits),
                    "text": f"{mean:+.2f} points at {total:g}, 90 % interval {mean - half:+.2f} to {mean + half:+.2f}",
                    "holds": max(abs(mean - half), abs(mean + half)) <= EQUIVALENT,
                }
            )
    return found


def _layers_of(run: Run) -> int:
    return int(run.settings["layers"])


def _total(run: Run) -> float:
    # Rounded, so that 20 * 0.3 and 40 * 0.15 are the same.
    return round(float(run.settings["layers"] * run.settings["strength"]), 6)
