"""Learning on a graph from its weights and a few labels: harmonic functions, Poisson's equation, and their kin."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from condiff.diffusion.conjugate import Array, Codes
from condiff.reproduce.baselines.lowlabels.field import FieldGraph
from condiff.reproduce.baselines.lowlabels.method import LowLabelMethod, LowLabelProblem
from condiff.reproduce.baselines.lowlabels.spectrum import inverse

# Points whose distances to labels are measured at once.
_AT_ONCE = 1024


@dataclass(frozen=True)
class Scored(LowLabelMethod):
    """A method that gives every class a score at every point; the largest is its answer."""

    at_once: ClassVar[int] = 6  # with ten classes, as many columns as a compiled product holds in registers

    @abstractmethod
    def scores_of(self, problems: Sequence[LowLabelProblem]) -> list[Array]:
        """(points, classes) for each of some problems on one graph."""

    def scores(self, problem: LowLabelProblem) -> Array:
        """(points, classes)."""
        return self.scores_of([problem])[0]

    def codes_of(self, problems: Sequence[LowLabelProblem], seeds: Sequence[int]) -> list[Codes]:
        found = []
        for problem, scores in zip(problems, self.scores_of(problems), strict=True):
            codes = np.asarray(scores.argmax(axis=1))
            codes[problem.known] = problem.labels
            found.append(codes)
        return found


@dataclass(frozen=True)
class Laplace(Scored):
    """Harmonic functions (Zhu, Ghahramani and Lafferty, ICML 2003): every other point is the mean of its neighbours.

    That is what the labelled points make of it by pushing just so hard that they have their labels: what a push at each
    of them does is known from the graph alone, and the pushes solve as many equations as there are labels.

    Parameters
    ----------
    tolerance
        Of the solution, relative.
    """

    tolerance: float = 1e-5

    def scores_of(self, problems: Sequence[LowLabelProblem]) -> list[Array]:
        return [found for found, _ in self.with_exit_times(problems)]

    def with_exit_times(self, problems: Sequence[LowLabelProblem]) -> list[tuple[Array, Array]]:
        """The scores, and how long a walk from every point takes to a label: what is zero there and has ``L e = 1``."""
        graph = problems[0].graph
        still = graph.scale[:, None] * graph.spectrum.still  # constants, one for each part of the graph
        every = graph.pushed(np.concatenate([problem.known for problem in problems]), self.tolerance)
        alike = graph.scale[:, None] * graph.spectrum.apply(inverse, graph.scale[:, None].copy(), self.tolerance)
        found, last = [], 0
        for problem in problems:
            first, last, known = last, last + len(problem.known), problem.known
            free, moved = still[known], every[:, first:last]
            equations = np.block([[moved[known], free], [free.T, np.zeros((free.shape[1], free.shape[1]))]])
            right = np.zeros((len(equations), problem.n_classes + 1))
            right[: len(known)] = np.concatenate([problem.indicators, -alike[known]], axis=1)
            right[len(known) :, -1] = -still.sum(axis=0)
            # A part of the graph without labels has no equation for its constant: the smallest will do.
            pushes = np.linalg.lstsq(equations, right, rcond=None)[0]
            solved = moved @ pushes[: len(known)] + still @ pushes[len(known) :]
            scores, times = solved[:, :-1].copy(), solved[:, -1:] + alike
            scores[known], times[known] = problem.indicators, 0.0
            found.append((scores, times))
        return found


@dataclass(frozen=True)
class Reweighted(Scored):
    """Harmonic functions on a graph whose weights depend on the labels: every draw is solved by itself.

    Parameters
    ----------
    tolerance
        Of the solution, relative.
    """

    at_once: ClassVar[int] = 1

    tolerance: float = 1e-5

    @abstractmethod
    def graph(self, problem: LowLabelProblem) -> FieldGraph:
        """The weights that the mean is taken with."""

    def scores_of(self, problems: Sequence[LowLabelProblem]) -> list[Array]:
        return [self._scores(problem, self.graph(problem)) for problem in problems]

    def _scores(self, problem: LowLabelProblem, graph: FieldGraph) -> Array:
        right = (graph.weights[:, problem.known] @ problem.indicators).astype(np.float32)
        solve = graph.solver(graph.degree, [problem.known], problem.n_classes)
        found = solve(right, self.tolerance).astype(np.float64)
        found[problem.known] = problem.indicators
        return found


@dataclass(frozen=True)
class WeightedNonlocal(Reweighted):
    """The weighted nonlocal Laplacian (Shi, Osher and Zhu, 2017): labelled points weigh as much as the others do."""

    def graph(self, problem: LowLabelProblem) -> FieldGraph:
        factor = np.ones(len(problem.points))
        factor[problem.known] = len(problem.points) / len(problem.known)
        return FieldGraph(problem.graph.weights @ sp.diags_array(factor))


@dataclass(frozen=True)
class ProperlyWeighted(Reweighted):
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

    def graph(self, problem: LowLabelProblem) -> FieldGraph:
        found = distance_to_nearest(problem.points, problem.known)
        factor = np.minimum(1 + (found.mean() / np.maximum(found, 1e-12)) ** self.alpha, self.most)
        scale, weights = sp.diags_array(factor), problem.graph.weights
        return FieldGraph((scale @ weights + weights @ scale) / 2)


@dataclass(frozen=True)
class LabelSpreading(Scored):
    """Local and global consistency (Zhou et al., NIPS 2003): the labels, spread, with a little pull back to them.

    Parameters
    ----------
    alpha
        How much is spread.
    """

    alpha: float = 0.99

    def scores_of(self, problems: Sequence[LowLabelProblem]) -> list[Array]:
        graph = problems[0].graph
        right = np.zeros((len(graph.degree), len(problems) * problems[0].n_classes))
        for columns, problem in zip(blocks(problems), problems, strict=True):
            right[problem.known, columns] = problem.indicators
        solved = graph.spectrum.apply(lambda values: 1 / (1 - self.alpha * (1 - values)), right, 1e-6)
        return [solved[:, columns] for columns in blocks(problems)]


@dataclass(frozen=True)
class Poisson(Scored):
    """Poisson learning (Calder, Cook, Thorpe and Slepcev, ICML 2020): labels are sources and sinks.

    Parameters
    ----------
    tolerance
        Of the solution, relative.
    """

    tolerance: float = 1e-5

    def scores_of(self, problems: Sequence[LowLabelProblem]) -> list[Array]:
        graph, scale = problems[0].graph, problems[0].graph.scale[:, None]
        right = scale * np.concatenate([sources(problem) for problem in problems], axis=1)
        solved = graph.spectrum.apply(inverse, right, self.tolerance)
        return [scale * solved[:, columns] for columns in blocks(problems)]


def distance_to_nearest(points: NDArray[np.float32], some: Codes) -> Array:
    """How far every point is from the nearest of some: found by one product, then measured."""
    others, found = points[some], np.empty(len(points))
    half = (others**2).sum(axis=1) / 2
    for here in (slice(first, first + _AT_ONCE) for first in range(0, len(points), _AT_ONCE)):
        apart = points[here] - others[(half - points[here] @ others.T).argmin(axis=1)]
        found[here] = np.sqrt(np.einsum("ij,ij->i", apart, apart, dtype=np.float64))
    return found


def blocks(problems: Sequence[LowLabelProblem]) -> list[slice]:
    """The columns of each problem, where they stand beside each other."""
    width = problems[0].n_classes
    return [slice(number * width, (number + 1) * width) for number in range(len(problems))]


def sources(problem: LowLabelProblem) -> Array:
    """The right-hand side of Poisson's equation: the labels less their mean."""
    found = np.zeros((len(problem.points), problem.n_classes))
    found[problem.known] = problem.indicators - problem.indicators.mean(axis=0)
    return found
