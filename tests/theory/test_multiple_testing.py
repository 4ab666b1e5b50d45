from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from condiff.errors import InvalidInputError
from condiff.theory.multiple_testing import rejected

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
