"""The field's graph, and what methods make of it once for all draws of the labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
import scipy.sparse as sp
import torch

from condiff.diffusion.conjugate import Array, Codes, Columns, Product, operator_of, solve_symmetric
from condiff.graph import SparseLaplacian
from condiff.graph.steps import combination
from condiff.reproduce.baselines.lowlabels.spectrum import Keep, Spectrum, inverse

#: From right-hand sides, a tolerance and perhaps where to begin, to solutions.
Solver = Callable[..., Columns]


class FieldGraph:
    """Weights, and what methods make of them for every draw of the labels.

    Parameters
    ----------
    weights
        With an empty diagonal; symmetric, unless a method has changed them.
    keep
        Keeps the modes from one process to the next, if they are worth it.
    """

    def __init__(self, weights: sp.csr_array, keep: Keep | None = None) -> None:
        self.weights = sp.csr_array(weights, dtype=np.float64)
        self._keep = keep

    @cached_property
    def degree(self) -> Array:
        """Row sums, none of them zero."""
        return np.asarray(np.maximum(np.asarray(self.weights.sum(axis=1)).ravel(), 1e-12))

    @cached_property
    def scale(self) -> Array:
        """The inverse roots of the degrees."""
        return np.asarray(self.degree**-0.5)

    @cached_property
    def plain(self) -> Product:
        """Products with the weights."""
        return Product(self.weights)

    @cached_property
    def normalised(self) -> Product:
        """Products with the weights over the roots of both degrees."""
        return Product(self._between_roots)

    @cached_property
    def _between_roots(self) -> sp.csr_array:
        diagonal = sp.diags_array(self.scale)
        return sp.csr_array(diagonal @ self.weights @ diagonal)

    @cached_property
    def spectrum(self) -> Spectrum:
        """The modes of the normalised Laplacian, of symmetric weights."""
        return Spectrum(self._between_roots, self._keep)

    def pushed(self, points: Codes, tolerance: float) -> Array:
        """What heat does that flows in at each of some points and out everywhere: columns of the inverse Laplacian."""
        right = np.zeros((len(self.degree), len(points)))
        right[points, np.arange(len(points))] = self.scale[points]
        return self.scale[:, None] * self.spectrum.apply(inverse, right, tolerance)

    @cached_property
    def heat(self) -> SparseLaplacian:
        """The Laplacian in single precision."""
        return operator_of(self.weights, torch.float32)

    def solver(self, diagonal: Array, known: Sequence[Codes], width: int) -> Solver:
        """From right-hand sides to solutions of ``diagonal v - W v``, zero at some points, by conjugate gradients.

        All arrays are in single precision and have ``width`` columns for each entry of ``known``, the points at which
        these are zero. W is symmetric between other points.
        """
        kept = torch.as_tensor(diagonal, dtype=torch.float32)
        inverse = np.repeat((1 / kept.numpy())[:, None], len(known) * width, axis=1)
        for place, points in enumerate(known):
            inverse[points, place * width : (place + 1) * width] = 0.0

        def apply(v: Columns, _: Codes) -> Columns:
            return np.asarray(combination(self.heat, torch.from_numpy(v), kept, -1.0).numpy())

        def solve(right: Columns, tolerance: float, start: Columns | None = None) -> Columns:
            return solve_symmetric(apply, right, tolerance, width=width, start=start, inverse=inverse)

        return solve
