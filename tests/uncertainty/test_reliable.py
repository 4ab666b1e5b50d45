from __future__ import annotations

import numpy as np
import pytest

from condiff.uncertainty import reliability, reliability_per_class


def test_groups_of_about_the_same_size_with_intervals() -> None:
    generator = np.random.default_rng(0)
    chances = generator.uniform(0.5, 1.0, 400)
    honest = generator.random(400) < chances
    found = reliability(chances, honest)
    assert [each.n for each in found] == [80] * 5
    assert all(each.agrees and each.low < each.right < each.high for each in found)
    assert not all(each.agrees for each in reliability(np.sqrt(chances), honest))


def test_few_answers_say_little() -> None:
    [only] = reliability(np.array([0.9, 0.8, 0.7, 0.9]), np.ones(4, bool))
    assert (only.n, only.right, only.high) == (4, 1.0, 1.0) and only.low < 0.6
    assert only.said == pytest.approx(0.825)


def test_intervals_hold_as_often_as_they_say() -> None:
    generator = np.random.default_rng(1)
    held = [reliability(np.full(20, 0.8), generator.random(20) < 0.8)[0] for _ in range(500)]
    assert np.mean([each.low <= 0.8 <= each.high for each in held]) > 0.9


def test_classes_by_themselves() -> None:
    probabilities = np.array([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.4, 0.6]])
    first, second = reliability_per_class(probabilities, np.array([0, 0, 1, 1]))
    assert first.said == pytest.approx(0.6) and first.right == second.right == 0.5
