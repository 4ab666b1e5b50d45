"""Certified accuracy against radius on the digits: the base network, COIN, and both trained with noise."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from condiff.estimators import COINClassifier
from condiff.reproduce.demo import draw_labels
from condiff.theory.smoothing import SmoothedClassifier

#: By name: the diffusion layers, and whether noisy copies of the labelled digits are used in training.
METHODS: dict[str, tuple[Any, bool]] = {
    "network": (0, False),
    "COIN": ("auto", False),
    "network + noise": (0, True),
    "COIN + noise": ("auto", True),
}
#: Standard deviations of the noise, of pixels from 0 to 1.
NOISES = (0.25, 0.5)
LABELS_PER_CLASS = 5
#: Noisy copies of each labelled digit.
COPIES = 20
# Radii of a curve, in standard deviations of the noise; five hundred votes at 0.001 reach 2.21.
_RADII = np.linspace(0.0, 2.25, 46)


@dataclass(frozen=True)
class Protocol:
    """The settings that all curves share.

    Attributes
    ----------
    points
        Digits that are held out of the fit, labels and graph alike, to be certified: in the graph, a digit would be
        its own nearest neighbour, however far noise moves it.
    samples, selection_samples, alpha
        As in :class:`condiff.theory.smoothing.SmoothedClassifier`.
    seed
        Of the digits that are held out, the labels that are shown and the noise.
    """

    points: int = 200
    samples: int = 500
    selection_samples: int = 50
    alpha: float = 0.001
    seed: int = 0


def curves(noises: tuple[float, ...] = NOISES, protocol: Protocol | None = None) -> Iterator[dict[str, Any]]:
    """Yield a row for each noise and method; see :func:`certified_curve`."""
    for noise in noises:
        for method in METHODS:
            yield certified_curve(method, noise, protocol or Protocol())


def certified_curve(method: str, noise: float, protocol: Protocol) -> dict[str, Any]:
    """Fit one method, certify the held-out digits, and count those that are right and certified beyond each radius."""
    fit_on, truth, held_out, answers = _split(protocol)
    labels = draw_labels(truth, LABELS_PER_CLASS, protocol.seed)
    layers, with_noise = METHODS[method]
    if with_noise:
        fit_on, labels = with_noisy_copies(fit_on, labels, noise, protocol.seed)
    model = COINClassifier(base="residual", layers=layers, folds=0).fit(fit_on, labels)
    smoothed = SmoothedClassifier(
        model,
        noise,
        alpha=protocol.alpha,
        selection_samples=protocol.selection_samples,
        samples=protocol.samples,
        random_state=protocol.seed,
    )
    found = smoothed.certify(held_out)
    radii = noise * _RADII
    right = (found.labels == answers) & ~found.abstained
    return {
        "task": "smoothing",
        "dataset": "digits",
        "method": method,
        "noise": noise,
        "labels_per_class": LABELS_PER_CLASS,
        "points": len(answers),
        "samples": protocol.samples,
        "alpha": protocol.alpha,
        "accuracy_without_smoothing": float((model.predict(held_out) == answers).mean()),
        "abstained": float(found.abstained.mean()),
        "mean_radius": float((found.radius * right).mean()),
        "radii": radii.round(6).tolist(),
        "certified_accuracy": found.certified_accuracy(answers, radii).round(6).tolist(),
    }


def with_noisy_copies(
    X: NDArray[np.float64], labels: NDArray[np.int64], noise: float, seed: int
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Add ``COPIES`` of every labelled row, each with noise of its own and the row's label."""
    shown = np.repeat(np.flatnonzero(labels >= 0), COPIES)
    generator = np.random.default_rng((seed, 1))
    copies = X[shown] + noise * generator.standard_normal((len(shown), X.shape[1]))
    return np.vstack([X, copies]), np.concatenate([labels, labels[shown]])


def _split(
    protocol: Protocol,
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]:
    """Rows and classes to fit on, and those held out."""
    X, y = load_digits(return_X_y=True)
    X = X / 16.0
    order = np.random.default_rng(protocol.seed).permutation(len(y))
    held_out, kept = order[: protocol.points], np.sort(order[protocol.points :])
    return X[kept], y[kept], X[held_out], y[held_out]
