"""The compiled loop of Diff-ResNet's wide weight: one pass over it an epoch, where products by themselves need two."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from condiff.training.vectors import FOLD, add_products, load, nothing, plus_scaled, store

# Rows of the weight that are used for both products before the next ones are read.
_TILE = 4


@njit(nogil=True, cache=True, boundscheck=False, error_model="numpy")
def move_and_read(
    wide: Any,
    factor: float,
    summed: Any,
    gradient: Any,
    classifier: Any,
    speed: Any,
    product: Any,
    rate: float,
    momentum: float,
    decay: float,
) -> None:
    """Move the classifier along ``gradient + factor * summed V^T``, and write its new product with V.

    ``wide`` is V by rows of 64, (features * blocks, 64), and ``summed`` and ``product`` are (classes * blocks, 64);
    ``gradient``, ``classifier`` and ``speed`` are (classes, features). A row of V makes one column of the classifier,
    which is all that the row's share of the new product needs.
    """
    n_classes, n_features = classifier.shape
    blocks = wide.shape[0] // n_features
    sums = np.zeros((n_classes, FOLD), classifier.dtype)
    for place in range(n_classes * blocks):
        store(product, place, nothing(product))
    for start in range(0, n_features, _TILE):
        stop = min(start + _TILE, n_features)
        for unit in range(start, stop):
            for block in range(blocks):
                row = load(wide, unit * blocks + block)
                for class_ in range(n_classes):
                    add_products(sums, class_, row, load(summed, class_ * blocks + block))
            for class_ in range(n_classes):
                total = gradient[class_, unit]
                for part in range(FOLD):
                    total += factor * sums[class_, part]
                    sums[class_, part] = 0.0
                value = classifier[class_, unit]
                speed[class_, unit] = momentum * speed[class_, unit] + total + decay * value
                classifier[class_, unit] = value - rate * speed[class_, unit]
        for class_ in range(n_classes):
            for block in range(blocks):
                row = load(product, class_ * blocks + block)
                for unit in range(start, stop):
                    row = plus_scaled(row, classifier[class_, unit], load(wide, unit * blocks + block))
                store(product, class_ * blocks + block, row)
