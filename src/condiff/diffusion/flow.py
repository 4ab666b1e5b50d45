"""A diffusion of arrays over a graph, layer by layer: what fitted models answer with, without torch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np
from numpy.typing import NDArray

from condiff import kernels
from condiff.graph.graph import Graph
from condiff.graph.passes import Matrix, layered

Array = NDArray[np.float64]

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
            return layered(self._matrix, u, self._kept, self.strength, self.layers) if self.layers else u
        for _ in range(self.layers):
            u = self._explicit(u)
        return u

    def steps(self, u: Array) -> Iterator[tuple[Array, Array]]:
        """The values at the nodes before and after each layer."""
        compiles = self.is_explicit and self._compiles(u)
        for _ in range(self.layers):
            if compiles:
                after = layered(self._matrix, u, self._kept, self.strength, 1)
            else:
                after = self._explicit(u) if self.is_explicit else self._by_solver(u)
            yield u, after
            u = after

    def _explicit(self, u: Array) -> Array:
        return np.asarray(u - self.strength * (self.graph.degree[:, None] * u - self.graph.weights @ u))

    def _by_solver(self, u: Array) -> Array:
        import torch

        from condiff.diffusion import SOLVERS

        with torch.no_grad():
            found = SOLVERS[self.solver]()(self.graph.laplacian(torch.float64), torch.as_tensor(u), self.strength, 1)
        return np.asarray(found.numpy())

    def _compiles(self, u: Array) -> bool:
        work = self.graph.weights.nnz * u.shape[1] * self.layers
        return work >= _WORTHWHILE and u.dtype == np.float64 and kernels.available()

    @cached_property
    def _matrix(self) -> Matrix:
        weights = self.graph.weights
        starts, columns = (np.ascontiguousarray(each, np.int32) for each in (weights.indptr, weights.indices))
        return Matrix(starts, columns, np.ascontiguousarray(weights.data, np.float64))

    @cached_property
    def _kept(self) -> Array:
        return np.asarray(1.0 - self.strength * self.graph.degree)
