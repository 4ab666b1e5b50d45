"""What certified radii promise, alone and many at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import binom, norm

from condiff.errors import InvalidInputError
from condiff.theory.certificates import Certificates, certified_radius, lower_confidence_bound, rejected


def certificates(votes: list[int], *, correction: Any = "none", alpha: float = 0.05) -> Certificates:
    labels = np.arange(len(votes)) % 2
    return Certificates.from_votes(labels, np.array(votes), 100, noise=0.5, alpha=alpha, correction=correction)


@pytest.mark.parametrize(("successes", "trials"), [(1, 10), (7, 10), (10, 10), (990, 1000)])
def test_the_bound_is_where_the_binomial_tail_is_alpha(successes: int, trials: int) -> None:
    root = brentq(lambda p: binom.sf(successes - 1, trials, p) - 0.01, 1e-9, 1 - 1e-12, xtol=1e-14)
    assert lower_confidence_bound(successes, trials, 0.01) == pytest.approx(root, rel=1e-8)


def test_without_a_success_there_is_no_bound() -> None:
    np.testing.assert_array_equal(lower_confidence_bound([0, 0], 10, 0.01), [0, 0])


@given(st.integers(1, 200), st.floats(0.001, 0.4), st.data())
def test_the_bound_covers(trials: int, alpha: float, data: st.DataObject) -> None:
    """For every true probability, the outcomes whose bound exceeds it have a probability of at most alpha."""
    p = data.draw(st.floats(0.01, 0.99))
    outcomes = np.arange(trials + 1)
    exceeding = lower_confidence_bound(outcomes, trials, alpha) > p + 1e-12
    assert binom.pmf(outcomes[exceeding], trials, p).sum() <= alpha * (1 + 1e-9)


def test_the_radius_of_a_share() -> None:
    np.testing.assert_allclose(certified_radius(norm.cdf([0.0, 1.0, 2.0]), 0.5), [0.0, 0.5, 1.0], atol=1e-12)
    assert certified_radius(0.3, 0.5) == 0


def test_bonferroni_asks_more_of_each() -> None:
    votes = [50, 62, 70, 99, 100]
    plain, corrected = certificates(votes), certificates(votes, correction="bonferroni")
    np.testing.assert_allclose(corrected.lower_bound, lower_confidence_bound(votes, 100, 0.01))
    assert (corrected.radius <= plain.radius).all()
    assert plain.abstained.tolist() == [True, False, False, False, False]
    assert corrected.abstained.tolist() == [True, True, False, False, False]


def test_holm_gives_no_radii() -> None:
    with pytest.raises(InvalidInputError, match="decisions, not radii"):
        certificates([60], correction="holm")


@pytest.mark.parametrize("radius", [0.0, 0.2, 0.7])
def test_alone_a_point_is_robust_where_its_radius_says_so(radius: float) -> None:
    found = certificates(list(range(101)))
    expected = found.lower_bound >= norm.cdf(radius / 0.5)
    np.testing.assert_array_equal(found.robust_at(radius, correction="none"), expected)


def test_holm_marks_at_least_what_bonferroni_does() -> None:
    found = certificates([99, 98, 97, 62, 61, 60, 64, 63])
    holm, bonferroni = found.robust_at(0.0), found.robust_at(0.0, correction="bonferroni")
    assert holm.sum() > bonferroni.sum()
    assert (holm | ~bonferroni).all()


def test_certified_accuracy_counts_right_answers_beyond_the_radius() -> None:
    found = certificates([50, 100, 100, 80])  # of the labels 0, 1, 0, 1
    largest = found.radius[1]
    shares = found.certified_accuracy([0, 1, 1, 1], [0.0, found.radius[3], largest])
    assert shares.tolist() == [0.5, 0.25, 0.0]
    assert len(found) == 4


def test_bad_input() -> None:
    found = certificates([50, 100])
    for radius in (-0.1, float("nan"), float("inf"), "0.5", True):
        with pytest.raises(InvalidInputError, match="radius must be a number"):
            found.robust_at(radius)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="there are 2 certificates"):
        found.certified_accuracy([0], [0.0])
    with pytest.raises(InvalidInputError, match="no certificate"):
        certificates([]).certified_accuracy([], [0.0])


P_VALUES = st.lists(st.floats(0, 1), max_size=12)


def test_a_worked_example() -> None:
    p_values = np.array([0.01, 0.04, 0.03, 0.005])
    assert rejected(p_values, 0.05, "none").tolist() == [True, True, True, True]
    assert rejected(p_values, 0.05, "bonferroni").tolist() == [True, False, False, True]
    # 0.005 <= 0.05 / 4 and 0.01 <= 0.05 / 3, but 0.03 > 0.05 / 2, which ends it.
    assert rejected(p_values, 0.05, "holm").tolist() == [True, False, False, True]
    assert rejected(np.array([0.012, 0.016, 0.9]), 0.05, "holm").tolist() == [True, True, False]
    assert rejected(np.array([0.012, 0.017, 0.9]), 0.05, "bonferroni").tolist() == [True, False, False]


@given(P_VALUES, st.floats(0.001, 0.5))
def test_holm_is_between_bonferroni_and_none(p_values: list[float], alpha: float) -> None:
    none, holm, bonferroni = (rejected(np.array(p_values), alpha, name) for name in ("none", "holm", "bonferroni"))  # type: ignore[arg-type]
    assert (holm >= bonferroni).all()
    assert (none >= holm).all()


@given(P_VALUES, st.floats(0.001, 0.5))
def test_holm_is_the_closure_of_bonferroni(p_values: list[float], alpha: float) -> None:
    """A test is rejected if and only if every set of tests with it is, by the smallest p-value of the set."""
    array = np.array(p_values)
    expected = []
    for p in array:
        # Of the sets of k tests with this one, the hardest holds the others with the largest p-values.
        others = np.sort(np.delete(array, list(array).index(p)))[::-1]
        hardest = [min([p, *others[: k - 1]]) <= alpha / k for k in range(1, len(array) + 1)]
        expected.append(all(hardest))
    assert rejected(array, alpha).tolist() == expected


def test_any_error_is_as_rare_as_promised() -> None:
    generator = np.random.default_rng(0)
    trials, errors = 3000, {"holm": 0, "none": 0}
    for _ in range(trials):
        p_values = generator.random(10)
        p_values[:4] *= 1e-4  # false hypotheses
        for name in errors:
            errors[name] += bool(rejected(p_values, 0.1, name)[4:].any())  # type: ignore[arg-type]
    assert errors["holm"] <= binom.ppf(0.9999, trials, 0.1)
    assert errors["none"] > 0.3 * trials


def test_an_unknown_correction() -> None:
    with pytest.raises(InvalidInputError, match="did you mean 'bonferroni'"):
        rejected(np.array([0.1]), 0.1, "bonferoni")  # type: ignore[arg-type]
