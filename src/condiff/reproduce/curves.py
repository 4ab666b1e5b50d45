"""ROC and precision-recall curves at fixed positions, so that curves of many runs can be averaged and stored."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from condiff.reproduce.runs import Run

Kind = Literal["roc", "prc"]

#: False-positive rates and recalls, in percent, at which a curve is taken.
PLACES = (1, 2, 3, 5, 7, *range(10, 100, 5))
# Digits kept of a value: a test set of a thousand patients has no more precision.
_DECIMALS = 4


def curve_points(truth: NDArray[np.int64], scores: NDArray[np.float64]) -> dict[str, float]:
    """Points of both curves by name.

    ``roc_05`` is the true-positive rate at 5 % false positives, on straight lines between the steps. ``prc_05`` is the
    precision at the highest threshold that reaches a recall of 5 %, of which the average precision is made.
    """
    from sklearn.metrics import precision_recall_curve, roc_curve

    places = np.array(PLACES) / 100
    false, true, _ = roc_curve(truth, scores)
    precision, recall, _ = precision_recall_curve(truth, scores)
    # Recall falls from 1 to 0: the last that is still high enough.
    reached = np.searchsorted(-recall, -places, side="right") - 1
    values: dict[Kind, NDArray[np.float64]] = {"roc": np.interp(places, false, true), "prc": precision[reached]}
    return {
        f"{kind}_{place:02d}": round(float(value), _DECIMALS)
        for kind, points in values.items()
        for place, value in zip(PLACES, points, strict=True)
    }


@dataclass(frozen=True, eq=False)
class Curve:
    """A method's mean curve.

    Parameters
    ----------
    places
        False-positive rates or recalls.
    mean, spread
        Of the values there: over all runs, and the standard deviation between the means of the splits.
    splits, runs
        Of how many.
    """

    places: NDArray[np.float64]
    mean: NDArray[np.float64]
    spread: NDArray[np.float64]
    splits: int
    runs: int


def mean_curve(runs: Iterable[Run], kind: Kind) -> Curve | None:
    """The mean of the runs' curves, or None where no run has one."""
    names = [f"{kind}_{place:02d}" for place in PLACES]
    by_split: dict[int, list[list[float]]] = {}
    for run in runs:
        if names[0] in run.metrics:
            by_split.setdefault(run.split, []).append([run.metrics[name] for name in names])
    if not by_split:
        return None
    everything: Sequence[list[float]] = [values for split in by_split.values() for values in split]
    means = np.array([np.mean(values, axis=0) for values in by_split.values()])
    spread = means.std(axis=0, ddof=1) if len(means) > 1 else np.zeros(len(PLACES))
    return Curve(np.array(PLACES) / 100, np.mean(everything, axis=0), spread, len(by_split), len(everything))
