"""Nearest prototypes: how well features separate classes, from a few images of each."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from condiff.errors import InvalidInputError


def prototype_accuracy(
    features: NDArray[Any],
    labels: NDArray[np.int64],
    *,
    ways: int = 5,
    shots: int = 1,
    queries: int = 15,
    tasks: int = 500,
    seed: int = 0,
) -> float:
    """Mean accuracy, from 0 to 1, of the nearest class mean over random tasks.

    A task has ``ways`` classes with ``shots`` images each, whose means are the prototypes, and ``queries`` further
    images per class, each of which gets the class of the nearest prototype in the Euclidean distance. The same seed
    draws the same tasks.
    """
    members = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    if len(members) < ways:
        raise InvalidInputError(f"tasks of {ways} classes cannot be drawn from {len(members)} classes")
    fewest = min(map(len, members))
    if fewest < shots + 1:
        raise InvalidInputError(f"a class has {fewest} image(s), but {shots + 1} are needed for {shots} shot(s)")
    queries = min(queries, fewest - shots)
    generator = np.random.default_rng(seed)
    truth = np.repeat(np.arange(ways), queries)
    right = 0
    for _ in range(tasks):
        chosen = [
            generator.choice(members[label], shots + queries, replace=False)
            for label in generator.choice(len(members), ways, replace=False)
        ]
        drawn = features[np.stack(chosen)]
        prototypes = drawn[:, :shots].mean(axis=1)
        rows = drawn[:, shots:].reshape(ways * queries, -1)
        # |x - p|^2 without |x|^2, which all prototypes share.
        distances = (prototypes**2).sum(axis=1) - 2 * rows @ prototypes.T
        right += int((distances.argmin(axis=1) == truth).sum())
    return right / (tasks * len(truth))
