"""What prediction sets promise, against simulations whose exact coverage is known."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from condiff.errors import InvalidInputError
from condiff.uncertainty.conformal import Promise, intervals, n_as_bad, sets


@pytest.mark.parametrize(("coverage", "n", "excluded"), [(0.9, 19, 2), (0.9, 20, 2), (0.8, 9, 2), (0.95, 99, 5)])
def test_the_number_that_is_left_out_is_not_off_by_rounding(coverage: float, n: int, excluded: int) -> None:
    promise = Promise(coverage, n)
    assert promise.is_kept and promise.excluded == excluded and promise.coverage == coverage


def test_few_labels_promise_what_they_can() -> None:
    promise = Promise(0.99, 19)
    assert not promise.is_kept and promise.coverage == pytest.approx(19 / 20) and promise.excluded == 1
    # Three labels of classes of one: a new row is of an unseen class about as often.
    promise = Promise(0.9, 19, unseen=3)
    assert promise.coverage == pytest.approx(16 / 20) and promise.excluded == 4
    assert Promise(0.9, 3, unseen=3).excluded == 0


def test_a_proof_needs_more_labels() -> None:
    assert Promise(0.9, 95, folds=5, proved=True).is_kept
    promise = Promise(0.9, 94, folds=5, proved=True)
    assert not promise.is_kept and 0.89 < promise.coverage < 0.9
    # Split conformal prediction is the case of one fold, where nothing is lost but the factor.
    assert Promise(0.9, 199, folds=1, proved=True).excluded == Promise(0.95, 199).excluded


@pytest.mark.parametrize("coverage", [0.0, 1.0, 90.0, math.nan, "0.9", None])
def test_a_coverage_is_a_share(coverage: Any) -> None:
    with pytest.raises(InvalidInputError, match="between 0 and 1"):
        Promise(coverage, 20)


def test_labels_are_counted_under_their_own_models() -> None:
    scores, fold = np.array([0.1, 0.5, 0.9, 0.3]), np.array([0, 0, 1, 1])
    at = np.array([[[0.5, 0.6]], [[0.2, 1.0]]])
    assert n_as_bad(scores, fold, at).tolist() == [[1 + 2, 0]]


@pytest.mark.parametrize(("n", "coverage"), [(10, 0.9), (19, 0.9), (25, 0.8), (40, 0.95)])
def test_exchangeable_scores_are_covered_exactly_as_often_as_counted(n: int, coverage: float) -> None:
    """With one model, the rank of the true score among n + 1 is uniform: coverage is known to the last digit."""
    generator = np.random.default_rng(n)
    draws, promise = 4000, Promise(coverage, n)
    held = 0
    for _ in range(draws):
        scores = generator.normal(size=n)
        truth = generator.normal(size=(1, 1, 1))
        held += int(sets(scores, np.zeros(n, np.int64), np.zeros(n, np.int64), truth, [promise])[0, 0])
    exact = 1 - promise.excluded / (n + 1)
    assert abs(held / draws - exact) < 4 * math.sqrt(exact * (1 - exact) / draws)


def test_folds_with_models_of_their_own_are_covered() -> None:
    """Models that err in the fold's own direction: the means of folds differ, as fits of few labels do."""
    generator = np.random.default_rng(0)
    draws, n, folds = 2000, 20, 5
    fold = np.arange(n) % folds
    typical, proved = Promise(0.9, n), Promise(0.5, n, folds=folds, proved=True)
    held = np.zeros(2)
    for _ in range(draws):
        bias = generator.normal(size=folds)
        y, new = generator.normal(size=n), generator.normal()
        misses = np.abs(y - bias[fold])
        at = np.abs(new - bias)[:, None, None]
        for each, promise in enumerate((typical, proved)):
            held[each] += sets(misses, fold, np.zeros(n, np.int64), at, [promise])[0, 0]
            low, high = intervals(misses, fold, bias[:, None], np.ones((folds, 1)), promise)[0]
            assert low <= high
            if sets(misses, fold, np.zeros(n, np.int64), at, [promise])[0, 0]:
                assert low <= new <= high
    assert held[0] / draws > 0.9 - 0.02
    assert held[1] / draws > 0.5


def test_every_class_is_judged_by_its_own_labels() -> None:
    scores, codes = np.array([0.1, 0.2, 0.3, 0.7, 0.8, 0.9]), np.array([0, 0, 0, 1, 1, 1])
    fold = np.zeros(6, np.int64)
    at = np.array([[[0.5, 0.5]]])
    together = sets(scores, fold, codes, at, [Promise(0.5, 6)])
    apart = sets(scores, fold, codes, at, [Promise(0.5, 3), Promise(0.5, 3)])
    assert together.tolist() == [[True, True]] and apart.tolist() == [[False, True]]


def test_intervals_have_the_scale_of_their_rows() -> None:
    misses, fold = np.linspace(0.1, 1.0, 10), np.zeros(10, np.int64)
    found = intervals(misses, fold, np.array([[5.0, 5.0]]), np.array([[1.0, 3.0]]), Promise(0.8, 10))
    # Two of eleven places are left out: the second largest miss is within.
    assert np.allclose(found, [[5 - 0.9, 5 + 0.9], [5 - 2.7, 5 + 2.7]])
