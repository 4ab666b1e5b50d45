from __future__ import annotations

import numpy as np
import pytest

from condiff.errors import InvalidInputError
from condiff.reproduce.pretraining.prototypes import prototype_accuracy

LABELS = np.repeat(np.arange(6), 20)


def blobs(spread: float, width: int = 8) -> np.ndarray:  # type: ignore[type-arg]
    generator = np.random.default_rng(0)
    centres = 10 * np.eye(6, width)
    return centres[LABELS] + generator.normal(0, spread, (len(LABELS), width))


def test_far_classes_are_told_apart_and_noise_is_chance() -> None:
    assert prototype_accuracy(blobs(0.1), LABELS) == 1.0
    chance = prototype_accuracy(np.random.default_rng(1).normal(size=(120, 8)), LABELS, tasks=300)
    assert abs(chance - 0.2) < 0.03


def test_more_shots_help() -> None:
    one, five = (prototype_accuracy(blobs(6.0), LABELS, shots=shots, tasks=300) for shots in (1, 5))
    assert five > one + 0.05


def test_the_distance_is_euclidean() -> None:
    # Two classes on one ray: the angle cannot tell them, the distance can.
    features = np.repeat([[1.0, 0.0], [3.0, 0.0]], 5, axis=0)
    assert prototype_accuracy(features, np.repeat([0, 1], 5), ways=2) == 1.0


def test_the_same_seed_draws_the_same_tasks() -> None:
    values = [prototype_accuracy(blobs(6.0), LABELS, tasks=20, seed=seed) for seed in (3, 3, 4)]
    assert values[0] == values[1] != values[2]


def test_small_classes_have_fewer_queries() -> None:
    assert prototype_accuracy(blobs(0.1)[::10], LABELS[::10]) == 1.0


def test_too_few_classes_or_images_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="tasks of 7 classes cannot be drawn from 6"):
        prototype_accuracy(blobs(1.0), LABELS, ways=7)
    with pytest.raises(InvalidInputError, match=r"a class has 2 image\(s\), but 3 are needed for 2 shot"):
        prototype_accuracy(blobs(1.0)[::10], LABELS[::10], shots=2)
