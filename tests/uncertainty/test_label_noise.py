from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from condiff.uncertainty.label_noise import doubted


def answers(n: int, flipped: int, seed: int = 0) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Answers of three classes, right as often as they say, the surest first; and labels, the first ones exchanged."""
    generator = np.random.default_rng(seed)
    said = generator.integers(3, size=n)
    how = 1 - np.geomspace(0.001, 0.6, n)
    outputs = np.repeat((1 - how)[:, None] / 2, 3, axis=1)
    outputs[np.arange(n), said] = how
    codes = np.where(generator.random(n) < how, said, (said + generator.integers(1, 3, size=n)) % 3)
    codes[:flipped] = (said[:flipped] + 1) % 3
    return outputs, codes


def test_labels_that_contradict_sure_answers_are_doubted() -> None:
    outputs, codes = answers(60, 6)
    found = doubted(outputs, codes, np.ones(60))
    assert found[:6].all() and found[6:].sum() <= 3


def test_labels_that_contradict_unsure_answers_are_not() -> None:
    found = [doubted(*answers(60, 0, seed), np.ones(60)).any() for seed in range(40)]
    assert np.mean(found) < 0.15


def test_no_class_is_doubted_as_a_whole() -> None:
    outputs, codes = answers(60, 0)
    outputs = np.column_stack([outputs * 0.999, np.full(60, 0.001)])
    codes[:9] = 3  # nine labels of a class that no answer has ever heard of
    assert doubted(outputs, codes, np.ones(60))[:9].sum() == 3


def test_weights_count() -> None:
    outputs, codes = answers(60, 6)
    light = np.where(codes == outputs.argmax(axis=1), 1.0, 1e-6)
    assert not doubted(outputs, codes, light).any()
