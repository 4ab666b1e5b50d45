"""Points, labels with most of them hidden, and a graph, shared by the tests of the classifier."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.datasets import make_blobs

#: A fit of a twentieth of a second, where the fit's quality is not the question.
FAST: dict[str, Any] = {"base": "residual", "epochs": 15, "n_inits": 1, "folds": 0}


def blobs(n: int = 90, per_class: int = 4, centers: int = 3, seed: int = 0, spread: float = 1.0):
    """Clusters, all true classes, and the same with all but a few hidden as -1."""
    X, y = make_blobs(n, centers=centers, n_features=4, cluster_std=spread, random_state=seed)
    return X, y, hide(y, per_class)


def hide(y: np.ndarray, per_class: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    labels = np.full(len(y), -1)
    for label in np.unique(y):
        labels[rng.choice(np.flatnonzero(y == label), per_class, replace=False)] = label
    return labels


def objects(labels: np.ndarray, names: list[Any], missing: Any) -> np.ndarray:
    found = np.empty(len(labels), dtype=object)
    found[:] = [missing if label < 0 else names[label] for label in labels]
    return found


def two_rings(n: int = 20) -> tuple[np.ndarray, np.ndarray]:
    """Two rings, joined by one weak edge, and the ring of every node."""
    ring = np.roll(np.eye(n), 1, axis=1) + np.roll(np.eye(n), -1, axis=1)
    adjacency = np.kron(np.eye(2), ring)
    adjacency[0, n] = adjacency[n, 0] = 0.1
    return adjacency, np.repeat([0, 1], n)
