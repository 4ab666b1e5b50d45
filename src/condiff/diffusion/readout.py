"""What diffused answers say: as much of every class, and as much certainty, as there was before the diffusion.

Diffusion levels: the longer it lasts, the nearer every answer comes to the mean, and a small class is outvoted
everywhere although its mass is kept. What diffusion is to change is which point gets which answer. So answers are read
through ``p = softmax(slope * log u + bias)``, with the bias that gives every class a wanted share of all points, and
the slope that gives a wanted mean purity, the sum of the squared probabilities.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_TINY = 1e-12
# Points that a read-out is fitted on, rounds of balancing, and halvings of the slope's range.
_POINTS, _ROUNDS, _HALVINGS = 1000, 4, 12


@dataclass(frozen=True, eq=False)
class ReadOut:
    """``softmax(slope * log u + bias)`` of the rows."""

    slope: float
    bias: Array

    def __call__(self, u: Array) -> Array:
        return _softmax(self.slope * np.log(np.maximum(u, _TINY)) + self.bias)

    @classmethod
    def plain(cls, n_classes: int) -> ReadOut:
        """Answers as they are, normalised."""
        return cls(1.0, np.zeros(n_classes))

    @classmethod
    def fit(cls, u: Array, shares: Array, purity: float) -> ReadOut:
        """The read-out under which the classes have these shares of all points, and answers this mean purity.

        Parameters
        ----------
        u
            Diffused answers, (points, classes).
        shares
            What part of all points each class is to have.
        purity
            The wanted mean over points of the sum of squared probabilities.
        """
        z = _sample(u)
        unit = float(z.std(axis=0).mean()) or 1.0
        low, high = np.log(0.05), np.log(150.0)
        slope, bias = 1.0 / unit, -z.mean(axis=0) / unit
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            # The last bias, stretched, is nearly that of the next slope.
            bias, slope = bias * (np.exp(middle) / unit / slope), float(np.exp(middle)) / unit
            bias = _balance(slope * z, shares, _ROUNDS, bias)
            pure = float((_softmax(slope * z + bias) ** 2).sum(axis=1).mean())
            low, high = (middle, high) if pure < purity else (low, middle)
        return cls(slope, _balance(slope * z, shares, 10 * _ROUNDS, bias))

    @classmethod
    def balanced(cls, u: Array, shares: Array, slope: float = 1.0) -> ReadOut:
        """The read-out of a given slope under which the classes have these shares of all points."""
        z = slope * _sample(u)
        return cls(slope, _balance(z, shares, 10 * _ROUNDS, -z.mean(axis=0)))

    def to_dict(self) -> dict[str, Any]:
        """Plain values, to be saved."""
        return dict(vars(self))


def _balance(z: Array, shares: Array, rounds: int, bias: Array) -> Array:
    """The bias under which the mean of ``softmax(z + bias)`` is ``shares``, by iterative scaling from a first one."""
    shares = np.maximum(shares, 1e-6) / np.maximum(shares, 1e-6).sum()
    for _ in range(rounds):
        bias = bias + np.log(shares / np.maximum(_softmax(z + bias).mean(axis=0), _TINY))
    return np.asarray(bias)


def _softmax(z: Array) -> Array:
    powers = np.exp(z - z.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def _sample(u: Array) -> Array:
    """The logarithms of some answers, spread evenly over the points."""
    return np.log(np.maximum(u[np.linspace(0, len(u) - 1, min(len(u), _POINTS)).astype(np.int64)], _TINY))
