"""Methods that are told how many points every class has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from scipy.sparse.csgraph import dijkstra

from condiff.graph import Graph
from condiff.reproduce.baselines.lowlabels.graphs import Poisson, degrees, product, solve_symmetric, sources
from condiff.reproduce.baselines.lowlabels.method import Codes, LowLabelMethod, LowLabelProblem
from condiff.uncertainty.quota import assign


@dataclass(frozen=True)
class PoissonWithSizes(Poisson):
    """Poisson learning whose scores are scaled until every class has its size, which it is told."""

    knows_sizes: ClassVar[bool] = True

    def codes(self, problem: LowLabelProblem, seed: int) -> Codes:
        found = self.scores(problem)
        return assign(found / max(float(found.std()), 1e-12), problem.sizes)[0]


@dataclass(frozen=True)
class PoissonMBO(LowLabelMethod):
    """Poisson learning, then heat and threshold in turn, every class keeping its size, which it is told.

    Calder et al., ICML 2020, with the authors' settings. They scale the classes until the sizes are nearly right; here
    the best assignment with exactly these sizes is taken.

    Parameters
    ----------
    outer, inner
        Thresholds, and steps of heat before each; a step is the inverse of the largest degree.
    fidelity
        Weight of the sources in a step.
    """

    knows_sizes: ClassVar[bool] = True

    outer: int = 20
    inner: int = 40
    fidelity: float = 1.0

    def codes(self, problem: LowLabelProblem, seed: int) -> Codes:
        found = PoissonWithSizes().codes(problem, seed)
        step = 1 / float(degrees(problem.weights).max())
        # In single precision: what is added at the labels is six orders above the rounding.
        operator = Graph.of(problem.weights).laplacian(torch.float32)
        added = torch.as_tensor(self.fidelity * step * sources(problem), dtype=torch.float32)
        for _ in range(self.outer):
            u = torch.eye(problem.n_classes)[found]
            for _ in range(self.inner):
                u = u - step * operator(u) + added
            before, found = found, assign(u.double().numpy(), problem.sizes)[0]
            if np.array_equal(before, found):
                break
        return found


@dataclass(frozen=True)
class VolumeMBO(LowLabelMethod):
    """Auction dynamics (Jacobs, Merkurjev and Esedoglu, 2018): spread, then the best assignment with the right sizes.

    It begins with the label that is nearest along the graph. The authors' random fluctuations (their temperature) are
    left out.

    Parameters
    ----------
    rounds
        Assignments at most; it ends when none changes.
    """

    knows_sizes: ClassVar[bool] = True

    rounds: int = 100

    def codes(self, problem: LowLabelProblem, seed: int) -> Codes:
        lengths = sp.csr_array(problem.weights, copy=True)
        lengths.data = 1 / np.maximum(lengths.data, 1e-12)
        nearest = dijkstra(lengths, indices=problem.known, min_only=True, return_predecessors=True)[2]
        label_of = np.zeros(len(problem.points), np.int64)
        label_of[problem.known] = problem.labels
        found: Codes = label_of[np.maximum(nearest, 0)]
        scale = sp.diags_array(degrees(problem.weights) ** -0.5)
        spread = product(sp.csr_array(scale @ problem.weights @ scale))
        free = np.ones(len(found), bool)
        free[problem.known] = False
        sizes = problem.sizes - np.bincount(problem.labels, minlength=problem.n_classes)
        for _ in range(self.rounds):
            before = found.copy()
            found[free] = assign(spread(spread(np.eye(problem.n_classes)[found]))[free], sizes)[0]
            if np.array_equal(before, found):
                break
        return found


@dataclass(frozen=True)
class CutSSL(LowLabelMethod):
    """Cuts with given sizes as a quadratic program (Holtz, Chen, Wang, Cloninger and Mishne, NeurIPS 2024), by ADMM.

    ``tr X'(L - s D)X`` is made least over X >= 0 whose rows sum to one and whose columns sum to the sizes; with s above
    zero its corners, where every row is one class, become the solutions.

    Parameters
    ----------
    s
        From a convex problem to the one that is wanted.
    iterations
        Of ADMM, for each.
    """

    knows_sizes: ClassVar[bool] = True

    s: tuple[float, ...] = (0.0, 0.1)
    iterations: tuple[int, ...] = (100, 400)

    def codes(self, problem: LowLabelProblem, seed: int) -> Codes:
        free = np.ones(len(problem.points), bool)
        free[problem.known] = False
        degree = degrees(problem.weights)[free]
        spread = product(sp.csr_array(problem.weights[free][:, free]))
        pull = problem.weights[free][:, problem.known] @ problem.indicators
        sizes = (problem.sizes - problem.indicators.sum(axis=0)).astype(np.float64)
        y = np.repeat(sizes[None] / free.sum(), free.sum(), axis=0)
        for s, most in zip(self.s, self.iterations, strict=True):
            penalty = max(1.0, s * float(degree.max()))  # enough to keep every step convex
            diagonal = (1 - s) * degree + penalty
            scale = diagonal[:, None] ** -0.5

            def solve(right: np.ndarray, scale: np.ndarray = scale) -> np.ndarray:
                return scale * solve_symmetric(lambda v: v - scale * spread(scale * v), scale * right, 1e-4, 200)

            ones = np.ones((len(degree), 1))
            even, row_sums = solve(ones), diagonal[:, None] - spread(ones)
            dual = np.zeros_like(y)
            for _ in range(most):
                right = penalty * (y - dual) + pull
                of_rows = (right.sum(axis=1, keepdims=True) - row_sums) / problem.n_classes
                of_columns = (even.T @ (right - of_rows) - sizes) / float(even.sum())
                x = solve(right - of_rows - of_columns)
                y = np.maximum(x + dual, 0)
                dual += x - y
        found = np.zeros(len(free), np.int64)
        found[problem.known], found[free] = problem.labels, y.argmax(axis=1)
        return found
