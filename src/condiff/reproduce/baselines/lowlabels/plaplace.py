"""Learning on a graph with the p-Laplacian: like harmonic functions, but steep edges cost more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from condiff import kernels
from condiff.diffusion.conjugate import Array, Codes, Columns, solve_symmetric
from condiff.graph.passes import Matrix, by_parts, padded
from condiff.kernels.threads import thread_count
from condiff.reproduce.baselines.lowlabels.graphs import Laplace, Scored, blocks
from condiff.reproduce.baselines.lowlabels.method import LowLabelProblem

#: An edge counts as so steep at least, so that no point is without stiffness.
LEAST = 1e-6
# How well the equation of a step is solved, relative, and the most steps at a power.
_ROUGHLY, _STEPS = 0.1, 100


@dataclass(frozen=True)
class PLaplace(Scored):
    """The variational p-Laplacian (Flores, Calder and Lerman, 2022): ``sum w |u(x) - u(y)|^p`` is least.

    With p above two, labels pull on more than their neighbours. Every class is solved by itself, by Newton's method
    from the solution at p = 2, p growing by one at most at a time. What is least is unique: the way there does not
    matter.

    Parameters
    ----------
    p
        The power.
    tolerance
        Steps end where they are, in the mean square, so small beside the spread of the solution.
    """

    at_once: ClassVar[int] = 3  # with ten classes, two lanes of columns

    p: float = 3.0
    tolerance: float = 1e-3

    def scores_of(self, problems: Sequence[LowLabelProblem]) -> list[Array]:
        u = padded(np.concatenate(Laplace().scores_of(problems), axis=1).astype(np.float32))
        for p in (*np.arange(3.0, self.p), self.p):
            for _ in range(_STEPS):
                step = self._step(problems, u, p)
                u += step
                if (step.std(axis=0) <= self.tolerance * u.std(axis=0)).all():
                    break
        return [u[:, columns].astype(np.float64) for columns in blocks(problems)]

    def _step(self, problems: Sequence[LowLabelProblem], u: NDArray[np.float32], p: float) -> NDArray[np.float32]:
        """One step of Newton's method, of all columns at once; those that have settled stay."""
        edges = Stiffness(problems[0].graph.weights, u, p)
        inverse = np.divide(1, edges.stiffness, out=np.zeros_like(u), where=edges.stiffness > 0)
        for columns, problem in zip(blocks(problems), problems, strict=True):
            inverse[problem.known, columns] = 0.0
        return np.asarray(solve_symmetric(edges, edges.pull, _ROUGHLY, inverse=inverse) / np.float32(p - 1))


class Stiffness:
    """What edges do at a function: weigh ``w |u_i - u_j|^(p - 2)``, for every column by itself.

    Parameters
    ----------
    weights
        Of the graph.
    u
        (points, 16 times lanes).
    p
        The power; 3 has compiled loops.

    Attributes
    ----------
    stiffness
        The sum of a point's edges.
    pull
        The sum of these times how far up they go.
    """

    def __init__(self, weights: sp.csr_array, u: NDArray[np.float32], p: float) -> None:
        self._u = u.copy()
        self._matrix = Matrix(
            weights.indptr.astype(np.int32), weights.indices.astype(np.int32), weights.data.astype(np.float32)
        )
        self._compiled = p == 3 and kernels.available()
        self.stiffness, self.pull = np.empty_like(u), np.empty_like(u)
        if self._compiled:
            from condiff.kernels.plaplace import pull_rows

            self._run(pull_rows, self._u, self.stiffness, self.pull)
            return
        rows = np.repeat(np.arange(len(u)), np.diff(weights.indptr))
        steep = np.maximum(np.abs(u[rows] - u[weights.indices]), np.float32(LEAST)) ** np.float32(p - 2)
        self._edges = [
            sp.csr_array((column, weights.indices, weights.indptr), shape=weights.shape)
            for column in (self._matrix.values[:, None] * steep).T
        ]
        self.stiffness[:] = np.stack([edges.sum(axis=1) for edges in self._edges], axis=1)
        self.pull[:] = -self(self._u, np.empty(0, np.int64))

    def __call__(self, v: Columns, _: Codes) -> Columns:
        """The matrix of these edges, points against neighbours, times columns."""
        if not self._compiled:
            through = [edges @ column for edges, column in zip(self._edges, v.T, strict=True)]
            return np.asarray(self.stiffness * v - np.stack(through, axis=1))
        from condiff.kernels.plaplace import stiff_rows

        out = np.empty_like(v)
        self._run(stiff_rows, self.stiffness, self._u, v, out)
        return out

    def _run(self, kernel: Callable[..., None], *arrays: Columns) -> None:
        with ThreadPoolExecutor(thread_count()) as pool:
            by_parts(pool, self._matrix, kernel, np.float32(LEAST), *arrays)
