"""One temperature that turns diffused outputs into honest probabilities, or a share of doubt where labels are too few.

Diffusion and weight decay leave outputs whose order is right but whose size says little: on Citeseer every value may
lie within 0.01 of 1/6. ``p ~ u^(1/T)`` keeps the order, and T is fitted on outputs for points whose labels were held
out.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

_TINY = 1e-12
_CERTAIN = 1 - 1e-9
# Below the first no float64 output says more, above the last every answer is a coin toss.
_LOG_RANGE = (np.log(1e-4), np.log(20.0))


def apply_temperature(u: NDArray[np.float64], temperature: float) -> NDArray[np.float64]:
    """Rows of probabilities proportional to ``u^(1 / temperature)``."""
    logits = np.log(np.clip(u, _TINY, None)) / temperature
    return np.asarray(np.exp(log_softmax(logits, axis=1)))


def shrink(probabilities: NDArray[np.float64], share: float) -> NDArray[np.float64]:
    """Mix a share of equal chances into every row but those that are certain, which labels were given for.

    Where no labels can be held out, nothing tells how far outputs can be believed. ``1 / (1 + labels)`` is as Laplace's
    rule of succession has it: after so many answers, all of them right, the next one may still be wrong.
    """
    mixed = (1 - share) * probabilities + share / probabilities.shape[1]
    return np.where(probabilities.max(axis=1, keepdims=True) >= _CERTAIN, probabilities, mixed)


def fit_temperature(u: NDArray[np.float64], codes: NDArray[np.int64], weights: NDArray[np.float64]) -> float:
    """The temperature with the smallest held-out loss.

    The targets are smoothed as in Platt's scaling, ``(N + 1) / (N + 2)`` for the true class: with few labels, all of
    them answered rightly, the loss alone would ask for certainty.
    """
    from scipy.optimize import minimize_scalar

    weights = weights * (len(weights) / weights.sum())
    total, n_classes = len(weights), u.shape[1]
    truth = np.full(u.shape, 1.0 / (total + 2.0) / (n_classes - 1))
    truth[np.arange(len(codes)), codes] = (total + 1.0) / (total + 2.0)
    logits = np.log(np.clip(u, _TINY, None))

    def loss(log_temperature: float) -> float:
        log_probabilities = log_softmax(logits / np.exp(log_temperature), axis=1)
        return float(-(weights[:, None] * truth * log_probabilities).sum() / total)

    # The loss has one minimum in 1 / T, but flat tails: a coarse look first keeps the search out of them.
    grid = np.linspace(*_LOG_RANGE, 40)
    best = int(np.argmin([loss(point) for point in grid]))
    bracket = (grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)])
    found = minimize_scalar(loss, bounds=bracket, method="bounded", options={"xatol": 1e-4})
    return float(np.exp(found.x))
