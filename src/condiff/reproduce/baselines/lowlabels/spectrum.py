"""Functions of a graph's normalised Laplacian for thousands of columns: one decomposition serves all draws of labels.

What makes an equation on a graph slow to solve are its slow modes: the clusters, and how these hang together. There are
few of them, and they are the same for every right-hand side. So they are found once, on them a function is exact, and
on what is left of a column, whose modes are all fast, a short Chebyshev series is as good.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp
import torch
from scipy.linalg import eigh
from scipy.sparse.linalg import eigsh

from condiff.diffusion.chebyshev import chebyshev_coefficients
from condiff.diffusion.conjugate import Array, operator_of
from condiff.graph.steps import chebyshev_sum, combination

#: From what makes arrays to these, made or kept from before.
Keep = Callable[[Callable[[], dict[str, Array]]], dict[str, Array]]
#: Slow modes that are found, points up to which all modes are, and columns that are worked on at once.
SLOW, _ALL, _COLUMNS = 100, 300, 64
#: What counts as zero among the modes.
ZERO = 1e-9
# Chebyshev's coefficients that are looked at, and by how much the largest mode may lie above what was found.
_COEFFICIENTS, _ABOVE = 400, 1.01


class Spectrum:
    """The modes of ``I - W``.

    Parameters
    ----------
    weights
        W: symmetric, with no eigenvalue outside of [-1, 1].
    keep
        From what makes the modes to the modes, which it may have kept.

    Attributes
    ----------
    values, vectors
        The slow modes, slowest first; all modes of a small graph.
    largest
        What no mode is above; None where all modes are known.
    """

    def __init__(self, weights: sp.csr_array, keep: Keep | None = None) -> None:
        n = weights.shape[0]
        self._weights = weights
        self.largest: float | None = None
        if n <= _ALL:
            self.values, self.vectors = eigh(np.eye(n) - weights.toarray())
            return
        found = _slow_modes(weights) if keep is None else keep(lambda: _slow_modes(weights))
        self.values, self.vectors, self.largest = found["values"], found["vectors"], float(found["largest"])
        self._operator = operator_of(weights, torch.float32)

    @property
    def still(self) -> Array:
        """The modes that do not move at all: one for every part of the graph."""
        return np.asarray(self.vectors[:, self.values < ZERO])

    def apply(self, function: Callable[[Array], Array], columns: Array, tolerance: float) -> Array:
        """A function of ``I - W`` times columns, (points, columns).

        Parameters
        ----------
        function
            From eigenvalues to values; smooth beyond the slow ones.
        columns
            What to apply it to.
        tolerance
            Of the function beyond the slow modes, relative to its mean there.
        """
        found, slow = np.empty_like(columns), function(self.values)[:, None]
        series = None if self.largest is None else self._series(function, tolerance)
        for first in range(0, columns.shape[1], _COLUMNS):
            here = columns[:, first : first + _COLUMNS]
            shares = self.vectors.T @ here
            block = self.vectors @ (slow * shares)
            if series is not None:
                block += series(here - self.vectors @ shares)
            found[:, first : first + _COLUMNS] = block
        return found

    def _series(self, function: Callable[[Array], Array], tolerance: float) -> Callable[[Array], Array]:
        """The function as a Chebyshev series beyond the slow modes, in single precision."""
        assert self.largest is not None
        low, reach = float(self.values[-1]), self.largest - float(self.values[-1])
        every = chebyshev_coefficients(
            lambda x: torch.as_tensor(function(low + x.numpy())), reach, _COEFFICIENTS, 2 * _COEFFICIENTS
        )
        tails = every.abs().flip(0).cumsum(0).flip(0)
        degree = max(1, int((tails >= tolerance * every[0].abs()).sum()) - 1)
        coefficients = every[: degree + 1].float()
        # I - W, brought from [low, largest] to [-1, 1], is this share of the identity and that of W.
        kept = torch.full((self._weights.shape[0],), 2 * (1 - low) / reach - 1)
        scale = -2 / reach

        def apply(columns: Array) -> Array:
            before = torch.as_tensor(columns, dtype=torch.float32)
            width = before.shape[1]
            before = torch.nn.functional.pad(before, (0, -width % 16))
            now = combination(self._operator, before, kept, scale)
            total = chebyshev_sum(self._operator, before, now, coefficients, 2 * kept, 2 * scale)
            return np.asarray(total[:, :width].double().numpy())

        return apply


def _slow_modes(weights: sp.csr_array) -> dict[str, Array]:
    start = np.random.default_rng(0).normal(size=weights.shape[0])
    found, vectors = eigsh(weights, SLOW, which="LA", v0=start, tol=1e-8)
    order = np.argsort(-found)
    least = eigsh(weights, 1, which="SA", v0=start, tol=1e-3, return_eigenvectors=False)
    return {
        "values": 1 - found[order],
        "vectors": np.ascontiguousarray(vectors[:, order]),
        "largest": _ABOVE * (1 - least[0]),
    }


def inverse(values: Array) -> Array:
    """``1 / value``, and 0 at the modes that do not move: the pseudo-inverse."""
    return np.divide(1.0, values, out=np.zeros_like(values), where=values > ZERO)
