"""A diffusion of arrays over a graph, layer by layer: what fitted models answer with, without torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from condiff import kernels
from condiff.graph.graph import Graph
from condiff.graph.passes import Matrix, layered, padded

#: In double precision, or in single, which explicit layers keep.
Array = NDArray[Any]

#: The names of :data:`condiff.diffusion.SOLVERS`, known before these are imported.
SOLVER_NAMES = ("euler", "exact", "chebyshev", "implicit", "power")
# Solvers whose layers are explicit steps, ``u - strength L u``.
_EXPLICIT = ("euler", "power")
# Entries of the graph, of all columns and layers, from which on to load compiled loops takes less time than they save.
_WORTHWHILE = 200_000_000


@dataclass(frozen=True, eq=False)
class Flow:
    """``layers`` layers of ``u' = -strength L u`` over a graph.

    Attributes
    ----------
    graph
        Whose Laplacian it is.
    layers, strength
        Number of layers, and strength of one.
    solver
        A name of :data:`condiff.diffusion.SOLVERS`. Explicit layers need no torch.
    """

    graph: Graph
    layers: int
    strength: float
    solver: str = "euler"

    @property
    def is_explicit(self) -> bool:
        """Whether a layer is an explicit step."""
        return self.solver in _EXPLICIT

    def __call__(self, u: Array) -> Array:
        """The values at the nodes after all layers."""
        if not self.is_explicit:
            return reduce(lambda before, _: self._by_solver(before), range(self.layers), u)
        if self._compiles(u):
            matrix, kept = self._compiled(u.dtype)
            return layered(matrix, u, kept, self.strength, self.layers) if self.layers else u
        for _ in range(self.layers):
            u = self._explicit(u)
        return u

    def steps(self, u: Array) -> Iterator[tuple[Array, Array]]:
        """The values at the nodes before and after each layer."""
        width = u.shape[1]
        step: Callable[[Array], Array]
        if self.is_explicit and self._compiles(u):
            matrix, kept = self._compiled(u.dtype)
            u = padded(u)  # once, and not for every layer
            step = partial(layered, matrix, kept=kept, strength=self.strength, layers=1)
        else:
            step = self._explicit if self.is_explicit else self._by_solver
        for _ in range(self.layers):
            after = step(u)
            yield u[:, :width], after[:, :width]
            u = after

    def _explicit(self, u: Array) -> Array:
        moved = self.strength * (self.graph.degree[:, None] * u - self.graph.weights @ u)
        return np.asarray(u - moved, u.dtype)

    def _by_solver(self, u: Array) -> Array:
        import torch

        from condiff.diffusion import SOLVERS

        with torch.no_grad():
            found = SOLVERS[self.solver]()(self.graph.laplacian(torch.float64), torch.as_tensor(u), self.strength, 1)
        return np.asarray(found.numpy())

    def _compiles(self, u: Array) -> bool:
        work = self.graph.weights.nnz * u.shape[1] * self.layers
        return work >= _WORTHWHILE and kernels.available()

    def _compiled(self, dtype: np.dtype[np.floating[Any]]) -> tuple[Matrix, NDArray[Any]]:
        """What the compiled loops take, in the precision of the values."""
        weights = self.graph.weights
        starts, columns = (np.ascontiguousarray(each, np.int32) for each in (weights.indptr, weights.indices))
        kept = (1.0 - self.strength * self.graph.degree).astype(dtype)
        return Matrix(starts, columns, np.ascontiguousarray(weights.data, dtype)), kept
