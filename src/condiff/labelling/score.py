"""How good answers are, from labels that were held out and whose rows were not chosen for being hard."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest

from condiff.uncertainty.record import FitRecord


@dataclass(frozen=True)
class Score:
    """How many held-out labels were answered rightly, and Wilson's 95 % interval of their share."""

    right: int
    of: int
    low: float
    high: float

    @classmethod
    def counted(cls, right: NDArray[np.bool_]) -> Score | None:
        """From which were right; None where nothing was held out."""
        if not len(right):
            return None
        low, high = binomtest(int(right.sum()), len(right)).proportion_ci(method="wilson")
        return cls(int(right.sum()), len(right), float(low), float(high))


def held_out_scores(record: FitRecord, fair: NDArray[np.bool_]) -> tuple[Score | None, Score | None]:
    """The scores of a fitted classifier over held-out labels: of rows that are a fair sample, and of all rows.

    None where too few labels were held out for a score.

    Parameters
    ----------
    record
        What the fit saw.
    fair
        Which rows of the table were not asked for because they are hard.
    """
    if not record.is_scored:
        return None, None
    right = record.answers.argmax(axis=1) == record.targets[record.held_out]
    sample = np.isin(record.nodes[record.held_out], record.node_of_row[fair])
    return Score.counted(right[sample]), Score.counted(right)
