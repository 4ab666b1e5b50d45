"""Many statements at once: how sure each must be for all of them to hold together."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from condiff.errors import InvalidInputError, did_you_mean

Correction = Literal["none", "bonferroni", "holm"]


def check_correction(correction: str) -> None:
    """Refuse a name that is none of :data:`Correction`."""
    known = get_args(Correction)
    if correction not in known:
        raise InvalidInputError(
            f"unknown correction {correction!r}{did_you_mean(str(correction), known)}; known are {', '.join(known)}"
        )


def rejected(p_values: NDArray[np.float64], alpha: float, correction: Correction = "holm") -> NDArray[np.bool_]:
    """Which of the tests reject their hypothesis.

    Parameters
    ----------
    p_values
        One a test, of any dependence.
    alpha
        The probability of an error: of each test (``none``), or of any at all among those whose hypothesis is true.
    correction
        ``bonferroni`` compares every p-value with ``alpha / m``. ``holm`` goes from the smallest up, comparing the
        k-th smallest with ``alpha / (m - k + 1)``, and stops at the first that fails; it rejects all that Bonferroni
        does, often more, under the same guarantee.
    """
    check_correction(correction)
    p_values = np.asarray(p_values, dtype=np.float64)
    if correction == "none":
        return p_values <= alpha
    if correction == "bonferroni":
        return p_values <= alpha / max(1, len(p_values))
    order = np.argsort(p_values, kind="stable")
    passes = p_values[order] <= alpha / np.arange(len(p_values), 0, -1)
    found = np.zeros(len(p_values), dtype=bool)
    found[order] = np.logical_and.accumulate(passes)
    return found
