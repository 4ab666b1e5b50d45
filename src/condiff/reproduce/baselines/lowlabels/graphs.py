"""Learning on a graph from its weights and a few labels: harmonic functions, Poisson's equation, and their kin."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import scipy.sparse as sp
import torch

from condiff.graph import Graph, nearest
from condiff.reproduce.baselines.lowlabels.method import Array, Codes, LowLabelMethod, LowLabelProblem


def solve_symmetric(apply: Callable[[Array], Array], right: Array, tolerance: float, most: int = 2000) -> Array:
    """Conjugate gradients for all columns at once, until every residual is small relative to its right-hand side."""
    found = np.zeros_like(right)
    residual, direction = right.copy(), right.copy()
    size = (residual**2).sum(axis=0)
    wanted = tolerance**2 * np.maximum(size, 1e-300)
    for _ in range(most):
        image = apply(direction)
        step = size / np.maximum((direction * image).sum(axis=0), 1e-300)
        found += step * direction
        residual -= step * image
        before, size = size, (residual**2).sum(axis=0)
        if (size <= wanted).all():
            break
        direction = residual + size / np.maximum(before, 1e-300) * direction
    return found


def product(matrix: sp.csr_array, dtype: torch.dtype = torch.float64) -> Callable[[Array], Array]:
    """Multiply columns by a symmetric matrix, by the kernel that condiff's own diffusion uses."""
    graph = Graph.of(matrix)
    operator = graph.laplacian(dtype)
    diagonal = torch.as_tensor(graph.degree, dtype=dtype)[:, None]

    def multiply(columns: Array) -> Array:
        v = torch.as_tensor(columns)
        with torch.no_grad():
            return np.asarray((diagonal * v - operator(v)).numpy())

    return multiply


def degrees(weights: sp.csr_array) -> Array:
    """Row sums, none of them zero."""
    return np.asarray(np.maximum(np.asarray(weights.sum(axis=1)).ravel(), 1e-12))


@dataclass(frozen=True)
class Scored(LowLabelMethod):
    """A method that gives every class a score at every point; the largest is its answer."""

    @abstractmethod
    def scores(self, problem: LowLabelProblem) -> Array:
        """(points, classes)."""

    def codes(self, problem: LowLabelProblem, seed: int) -> Codes:
        found = np.asarray(self.scores(problem).argmax(axis=1))
        found[problem.known] = problem.labels
        return found


@dataclass(frozen=True)
class Laplace(Scored):
    """Harmonic functions (Zhu, Ghahramani and Lafferty, ICML 2003): every other point is the mean of its neighbours.

    Parameters
    ----------
    tolerance
        Of the solution, relative.
    """

    tolerance: float = 1e-5

    def weights(self, problem: LowLabelProblem) -> sp.csr_array:
        """The weights that the mean is taken with."""
        return problem.weights

    def scores(self, problem: LowLabelProblem) -> Array:
        weights = self.weights(problem)
        free = np.ones(len(problem.points), bool)
        free[problem.known] = False
        scale = degrees(weights)[free] ** -0.5
        inner = sp.csr_array(weights[free][:, free])
        pull = weights[free][:, problem.known] @ problem.indicators
        found = np.zeros((len(free), problem.n_classes))
        found[problem.known] = problem.indicators
        diagonal = sp.diags_array(scale)
        scaled = product(sp.csr_array(diagonal @ inner @ diagonal))
        solution = solve_symmetric(partial(_less, scaled), scale[:, None] * pull, self.tolerance)
        found[free] = scale[:, None] * solution
        return found


@dataclass(frozen=True)
class WeightedNonlocal(Laplace):
    """The weighted nonlocal Laplacian (Shi, Osher and Zhu, 2017): labelled points weigh as much as the others do."""

    def weights(self, problem: LowLabelProblem) -> sp.csr_array:
        factor = np.ones(len(problem.points))
        factor[problem.known] = len(problem.points) / len(problem.known)
        return sp.csr_array(problem.weights @ sp.diags_array(factor))


@dataclass(frozen=True)
class ProperlyWeighted(Laplace):
    """The properly weighted Laplacian (Calder and Slepcev, 2020): weights grow towards labels as a power of distance.

    The factor is ``1 + (r / d)^alpha`` with ``d`` the distance to the nearest label, averaged over an edge's ends, and
    ``r`` the mean of these distances.

    Parameters
    ----------
    alpha
        The power.
    most
        The largest factor.
    """

    alpha: float = 2.0
    most: float = 1e7

    def weights(self, problem: LowLabelProblem) -> sp.csr_array:
        found = nearest(problem.points[problem.known], 1, queries=problem.points).distances[:, 0].astype(np.float64)
        factor = np.minimum(1 + (found.mean() / np.maximum(found, 1e-12)) ** self.alpha, self.most)
        scale = sp.diags_array(factor)
        return sp.csr_array((scale @ problem.weights + problem.weights @ scale) / 2)


@dataclass(frozen=True)
class PLaplace(Scored):
    """The variational p-Laplacian (Flores, Calder and Lerman, 2022): ``sum w |u(x) - u(y)|^p`` is least.

    With p above two, labels pull on more than their neighbours. Every class is solved by itself, by damped reweighted
    Laplace equations whose power grows from two.

    Parameters
    ----------
    p
        The power.
    rounds
        Equations at each power on the way, and five times as many at the last.
    """

    p: float = 3.0
    rounds: int = 3

    def scores(self, problem: LowLabelProblem) -> Array:
        weights = sp.coo_array(problem.weights)
        rows, columns, data = weights.row, weights.col, weights.data
        found = np.asarray(Laplace().scores(problem))
        free = np.ones(len(found), bool)
        free[problem.known] = False
        for code in range(problem.n_classes):
            u = found[:, code]
            for p in np.arange(2.25, self.p + 1e-9, 0.25):
                for _ in range(self.rounds * (5 if p == self.p else 1)):
                    steep = np.maximum(np.abs(u[rows] - u[columns]), 1e-6) ** (p - 2)
                    pulled = sp.csr_array((data * steep, (rows, columns)), shape=weights.shape)
                    scale = degrees(pulled)[free] ** -0.5
                    inner = product(sp.csr_array(sp.diags_array(scale) @ pulled[free][:, free] @ sp.diags_array(scale)))
                    right = scale * (pulled[free][:, problem.known] @ u[problem.known])
                    solved = scale * solve_symmetric(partial(_less, inner), right[:, None], 1e-4)[:, 0]
                    u[free] += (solved - u[free]) / (p - 1)
        return found


def _less(spread: Callable[[Array], Array], v: Array) -> Array:
    return v - spread(v)


@dataclass(frozen=True)
class LabelSpreading(Scored):
    """Local and global consistency (Zhou et al., NIPS 2003): the labels, spread, with a little pull back to them.

    Parameters
    ----------
    alpha
        How much is spread.
    """

    alpha: float = 0.99

    def scores(self, problem: LowLabelProblem) -> Array:
        scale = sp.diags_array(degrees(problem.weights) ** -0.5)
        spread = product(sp.csr_array(scale @ problem.weights @ scale))
        right = np.zeros((len(problem.points), problem.n_classes))
        right[problem.known] = problem.indicators
        return solve_symmetric(lambda v: v - self.alpha * spread(v), right, 1e-6)


@dataclass(frozen=True)
class Poisson(Scored):
    """Poisson learning (Calder, Cook, Thorpe and Slepcev, ICML 2020): labels are sources and sinks.

    Parameters
    ----------
    tolerance
        Of the solution, relative; the authors' own is as rough.
    """

    tolerance: float = 1e-3

    def scores(self, problem: LowLabelProblem) -> Array:
        scale = degrees(problem.weights) ** -0.5
        diagonal = sp.diags_array(scale)
        spread = product(sp.csr_array(diagonal @ problem.weights @ diagonal))
        right = scale[:, None] * sources(problem)
        return scale[:, None] * solve_symmetric(partial(_less, spread), right, self.tolerance)


def sources(problem: LowLabelProblem) -> Array:
    """The right-hand side of Poisson's equation: the labels less their mean."""
    found = np.zeros((len(problem.points), problem.n_classes))
    found[problem.known] = problem.indicators - problem.indicators.mean(axis=0)
    return found
