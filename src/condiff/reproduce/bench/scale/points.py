"""Made-up points of any number with a known best accuracy: Gaussian clusters on a curved surface in 64 dimensions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FEATURES, CLASSES, LABELS_PER_CLASS = 64, 10, 100
# The surface has six dimensions; a class is three Gaussian clusters on it.
_DIMENSION, _CLUSTERS = 6, 3
# Distance of the clusters' centres from the middle, in their standard deviations, and how strongly the surface bends.
_RADIUS, _BEND = 6.5, 0.35
_BLOCK = 65_536


@dataclass(frozen=True, eq=False)
class Points:
    """Points, their classes, which of them are labelled, and how well the best possible rule does on them.

    Attributes
    ----------
    x
        (n, 64) in single precision, or with another number of columns.
    labels
        The class of every point.
    shown
        The same where it is known, 100 points per class, and -1 elsewhere.
    best_accuracy
        That of the Bayes rule on the points without a shown label, which knows the clusters and the surface.
    """

    x: NDArray[np.float32]
    labels: NDArray[np.int64]
    shown: NDArray[np.int64]
    best_accuracy: float

    def accuracy(self, answers: NDArray[np.int64]) -> float:
        """The share of correct answers where no label was given."""
        hidden = self.shown < 0
        return float((answers[hidden] == self.labels[hidden]).mean())


def make_points(n: int, seed: int = 0, features: int = FEATURES) -> Points:
    r"""Draw ``n`` points; the first ones are the same for every ``n`` with as many features, 64 by default.

    A point of the surface :math:`z \in R^6` comes from one of 30 Gaussian clusters of unit variance, three per class,
    and is carried into 64 dimensions by :math:`x = Q (0.3 z, \sin(B z + b))` with orthonormal Q. The map is one-to-one,
    so the best rule on x is the best rule on z: the class of the largest posterior, which is known.
    """
    rng = np.random.default_rng([seed, 0])
    centres = rng.normal(size=(CLASSES * _CLUSTERS, _DIMENSION))
    centres *= _RADIUS / np.linalg.norm(centres, axis=1, keepdims=True)
    waves = features - _DIMENSION
    bends, phases = rng.normal(size=(_DIMENSION, waves)) * _BEND, rng.uniform(0, 2 * np.pi, waves)
    rotation = np.linalg.qr(rng.normal(size=(features, features)))[0]
    x, labels = np.empty((n, features), np.float32), np.empty(n, np.int64)
    best = np.empty(n, np.int64)
    for start in range(0, n, _BLOCK):
        here = slice(start, min(start + _BLOCK, n))
        block = np.random.default_rng([seed, 1 + start // _BLOCK])
        cluster = block.integers(0, len(centres), _BLOCK)
        z = centres[cluster] + block.normal(size=(_BLOCK, _DIMENSION))
        # Whole blocks always, because matrix products of other sizes round otherwise.
        kept = slice(0, here.stop - start)
        labels[here] = cluster[kept] % CLASSES
        x[here] = (np.hstack([0.3 * z, np.sin(z @ bends + phases)]) @ rotation)[kept]
        likelihood = np.exp(z @ centres.T - (centres**2).sum(axis=1) / 2)
        best[here] = likelihood.reshape(len(z), _CLUSTERS, CLASSES).sum(axis=1).argmax(axis=1)[kept]
    shown = np.full(n, -1, np.int64)
    for class_ in range(CLASSES):
        first = np.flatnonzero(labels == class_)[:LABELS_PER_CLASS]
        shown[first] = class_
    hidden = shown < 0
    return Points(x, labels, shown, float((best[hidden] == labels[hidden]).mean()))
