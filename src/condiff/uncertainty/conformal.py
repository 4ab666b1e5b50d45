r"""Prediction sets and intervals from answers that were made without the labels that they are compared with.

Cross-conformal prediction (Vovk, 2015; CV+ of Barber, Candes, Ramdas and Tibshirani, 2021). The labels are dealt into
folds, and for each fold a model is fitted without it. A label's score says how badly that model's answer fits it. A
class belongs to the set of a row if enough labels scored as badly under their models as the class does there:

.. math:: C(x) = \{y : \#\{i : s_i \ge s_{k(i)}(x, y)\} \ge \lfloor \alpha (n + 1) \rfloor\}.

What holds, for ``n`` labels in ``K`` folds that are a random draw from the same rows as the one asked for:

- such sets miss the true class with a probability of about :math:`\alpha`. That is measured, not proved; proved is
  :math:`2 \alpha + 2 (1 - \alpha) (K - 1) / (n + K)` at most, because each fold by itself gives an exact p-value, and
  twice the mean of dependent p-values is one (Vovk and Wang, 2020);
- the same theorem read backwards gives larger sets that miss it with :math:`\alpha` at most, which takes
  :math:`n \ge K (2 / \alpha - 1)` labels to say anything.

A label that could not be held out, because it is the only one of its class, counts as one that no model could have
guessed. That is what it is: how often this happens among the labels is how often a new row is of a class not seen yet.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from condiff.errors import InvalidInputError

Array = NDArray[np.float64]
Codes = NDArray[np.int64]

# Numbers in memory at once where every row is compared with every label.
_BLOCK = 4_000_000


@dataclass(frozen=True)
class Promise:
    """What coverage ``n`` labels can promise.

    Attributes
    ----------
    asked
        The coverage that was asked for.
    n, unseen
        Labels, and those of them that could not be held out.
    folds, proved
        How many folds there were, and whether the coverage is to be a theorem.
    """

    asked: float
    n: int
    unseen: int = 0
    folds: int = 1
    proved: bool = False

    def __post_init__(self) -> None:
        asked: Any = self.asked
        if not isinstance(asked, Real) or not 0 < float(asked) < 1:
            raise InvalidInputError(f"coverage must be a number between 0 and 1, not {asked!r}")

    @property
    def _excluded(self) -> int:
        alpha = 1 - self.asked
        # A product such as 0.1 * 20 may come out just below 2.
        if self.proved:
            return math.floor(alpha * (self.n + self.folds) / 2 + 1e-9) - self.folds + 1
        return math.floor(alpha * (self.n + 1) + 1e-9)

    @property
    def is_kept(self) -> bool:
        """Whether what was asked for can be promised."""
        return self._excluded > self.unseen

    @property
    def excluded(self) -> int:
        """An answer is left out if fewer labels than this are as bad as it is.

        As asked, or the fewest that leave out anything at all; 0 where no label was held out.
        """
        return max(self._excluded, self.unseen + 1) if self.unseen < self.n else 0

    @property
    def most(self) -> float:
        """The largest coverage that these labels can speak of."""
        folds = self.folds if self.proved else 1
        least = (folds + self.unseen) / (self.n + folds) * (2 if self.proved else 1)
        return max(1 - least, 0.0)

    @property
    def coverage(self) -> float:
        """The coverage that is promised: what was asked for, or the most there is."""
        return self.asked if self.is_kept else self.most


def n_as_bad(scores: Array, fold: Codes, at: Array) -> NDArray[np.int64]:
    """How many labels scored at least as badly as the answers at hand do under the labels' own models.

    Parameters
    ----------
    scores, fold
        Of every held-out label: its score, and its fold.
    at
        The scores of the answers at hand under every fold's model, (folds, ...).
    """
    found = np.zeros(at.shape[1:], np.int64)
    for number, own in enumerate(at):
        ordered = np.sort(scores[fold == number])
        found += len(ordered) - np.searchsorted(ordered, own, side="left")
    return found


def sets(scores: Array, fold: Codes, codes: Codes, at: Array, promises: Sequence[Promise]) -> NDArray[np.bool_]:
    """Which classes belong to the sets of rows, (rows, classes).

    Parameters
    ----------
    scores, fold, codes
        Of every held-out label: its score, its fold and its class.
    at
        Scores of all classes at the rows under every fold's model, (folds, rows, classes).
    promises
        One for all classes, or one for each of them: then only its own labels speak for a class.
    """
    if len(promises) == 1:
        return np.asarray(n_as_bad(scores, fold, at) + promises[0].unseen >= promises[0].excluded)
    columns = []
    for code, promise in enumerate(promises):
        own = codes == code
        columns.append(n_as_bad(scores[own], fold[own], at[:, :, code]) + promise.unseen >= promise.excluded)
    return np.stack(columns, axis=1)


def intervals(misses: Array, fold: Codes, middle: Array, scale: Array, promise: Promise) -> Array:
    """Lower and upper ends for rows, (rows, 2).

    Parameters
    ----------
    misses, fold
        Of every held-out label: how far the answer was off, in units of the scale there; and its fold.
    middle, scale
        Answers at the rows and their scales under every fold's model, (folds, rows).
    promise
        What is promised.
    """
    n, low = len(misses), promise.excluded - 1
    found = np.empty((middle.shape[1], 2))
    step = max(1, _BLOCK // max(n, 1))
    for start in range(0, len(found), step):
        here = slice(start, start + step)
        reach = misses[:, None] * scale[fold, here]
        found[here, 0] = np.partition(middle[fold, here] - reach, low, axis=0)[low]
        found[here, 1] = np.partition(middle[fold, here] + reach, n - 1 - low, axis=0)[n - 1 - low]
    return found
