"""Methods that are told how many points every class has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from scipy.sparse.csgraph import dijkstra

from condiff.diffusion import Euler
from condiff.diffusion.conjugate import Array, Codes, solve_symmetric
from condiff.graph.passes import padded
from condiff.reproduce.baselines.lowlabels.graphs import Laplace, Poisson, blocks, sources
from condiff.reproduce.baselines.lowlabels.method import LowLabelMethod, LowLabelProblem
from condiff.uncertainty.quota import assign

# The tolerance of Poisson's equation in the authors' code.
_ROUGHLY = 1e-3


@dataclass(frozen=True)
class PoissonWithSizes(Poisson):
    """Poisson learning whose scores are scaled until every class has its size, which it is told."""

    knows_sizes: ClassVar[bool] = True

    def codes_of(self, problems: Sequence[LowLabelProblem], seeds: Sequence[int]) -> list[Codes]:
        return filled(problems, self.scores_of(problems))


def filled(problems: Sequence[LowLabelProblem], scores: Sequence[Array]) -> list[Codes]:
    """The best assignment of every problem in which each class has its size."""
    pairs = zip(problems, scores, strict=True)
    return [assign(each / max(float(each.std()), 1e-12), problem.sizes)[0] for problem, each in pairs]


@dataclass(frozen=True)
class PoissonMBO(LowLabelMethod):
    """Poisson learning, then heat and threshold in turn, every class keeping its size, which it is told.

    Calder et al., ICML 2020, with the authors' settings. They scale the classes until the sizes are nearly right; here
    the best assignment with exactly these sizes is taken.

    Poisson's equation, from which it begins, is solved as roughly as theirs, by conjugate gradients.

    Parameters
    ----------
    outer, inner
        Thresholds, and steps of heat before each; a step is the inverse of the largest degree.
    fidelity
        Weight of the sources in a step.
    """

    knows_sizes: ClassVar[bool] = True
    at_once: ClassVar[int] = 6

    outer: int = 20
    inner: int = 40
    fidelity: float = 1.0

    def codes_of(self, problems: Sequence[LowLabelProblem], seeds: Sequence[int]) -> list[Codes]:
        graph, width = problems[0].graph, problems[0].n_classes
        right = graph.scale[:, None] * np.concatenate([sources(problem) for problem in problems], axis=1)
        solved = solve_symmetric(lambda v, _: graph.normalised.less(v), right, _ROUGHLY, width=width)
        found = filled(problems, [graph.scale[:, None] * solved[:, columns] for columns in blocks(problems)])
        step = 1 / float(graph.degree.max())
        # In single precision: what is added at the labels is six orders above the rounding. Steps are linear, so that
        # the sources' share of all inner ones together is the same in every round.
        added = torch.as_tensor(
            np.concatenate([self.fidelity * step * sources(problem) for problem in problems], axis=1),
            dtype=torch.float32,
        )
        share, kernel = added, Euler()
        for _ in range(self.inner - 1):
            share = kernel(graph.heat, share, step, 1) + added
        prices: list[np.ndarray | None] = [None] * len(problems)
        left = list(range(len(problems)))
        for _ in range(self.outer):
            u = torch.cat([torch.eye(width)[found[number]] for number in left], dim=1)
            u = kernel(graph.heat, u, step, self.inner).double()
            changed = []
            for columns, number in zip(blocks(problems), left, strict=False):
                scores = (u[:, columns] + share[:, blocks(problems)[number]]).numpy()
                before, sizes = found[number], problems[number].sizes
                found[number], prices[number] = assign(scores, sizes, prices[number])
                if not np.array_equal(before, found[number]):
                    changed.append(number)
            left = changed
            if not left:
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

    def codes_of(self, problems: Sequence[LowLabelProblem], seeds: Sequence[int]) -> list[Codes]:
        return [self._codes(problem) for problem in problems]

    def _codes(self, problem: LowLabelProblem) -> Codes:
        lengths = problem.graph.weights.copy()
        lengths.data = 1 / np.maximum(lengths.data, 1e-12)
        nearest = dijkstra(lengths, indices=problem.known, min_only=True, return_predecessors=True)[2]
        label_of = np.zeros(len(problem.points), np.int64)
        label_of[problem.known] = problem.labels
        found: Codes = label_of[np.maximum(nearest, 0)]
        spread = problem.graph.normalised
        free = np.ones(len(found), bool)
        free[problem.known] = False
        sizes = problem.sizes - np.bincount(problem.labels, minlength=problem.n_classes)
        prices, ones = None, padded(np.eye(problem.n_classes))
        for _ in range(self.rounds):
            before = found.copy()
            scores = spread(spread(ones[found]))[free, : problem.n_classes]
            found[free], prices = assign(scores, sizes, prices)
            if np.array_equal(before, found):
                break
        return found


@dataclass(frozen=True)
class CutSSL(LowLabelMethod):
    """Cuts with given sizes as a quadratic program (Holtz, Chen, Wan, Cheng and Mishne, NeurIPS 2024), by ADMM.

    ``tr X'(L - s D)X`` is made least over X >= 0 whose rows sum to one and whose columns sum to the sizes; with s above
    zero its corners, where every row is one class, become the solutions. It begins with the solution at s = 0 and
    without X >= 0, as the authors do: Laplace learning, with exit times added until the columns have their sums.

    Parameters
    ----------
    s
        From a convex problem to the one that is wanted.
    iterations
        Of ADMM at most, for each.
    settled
        ADMM ends where X changes by no more than this, in the mean.
    """

    knows_sizes: ClassVar[bool] = True

    s: tuple[float, ...] = (0.0, 0.1)
    iterations: tuple[int, ...] = (100, 400)
    settled: float = 1e-6

    def codes_of(self, problems: Sequence[LowLabelProblem], seeds: Sequence[int]) -> list[Codes]:
        return [self._codes(problem) for problem in problems]

    def _codes(self, problem: LowLabelProblem) -> Codes:
        graph, known, n_classes = problem.graph, problem.known, problem.n_classes
        scores, times = Laplace().with_exit_times([problem])[0]
        free = np.ones((len(problem.points), 1), np.float32)
        free[known] = 0.0
        x = free * (scores - times * ((scores.sum(axis=0) - problem.sizes) / times.sum()))
        x = padded(x.astype(np.float32))
        pull = padded(free * (graph.weights[:, known] @ problem.indicators).astype(np.float32))
        sizes = padded((problem.sizes - problem.indicators.sum(axis=0)).astype(np.float32)[None])
        within = padded(np.repeat(free, n_classes, axis=1))
        for s, most in zip(self.s, self.iterations, strict=True):
            penalty = np.float32(max(1.0, s * float(graph.degree.max())))  # enough to keep every step convex
            diagonal = (1 - s) * graph.degree + penalty
            solve = graph.solver(diagonal, known, x.shape[1])
            even = solve(within, 1e-6)[:, :1]
            row_sums = free * (diagonal - graph.weights @ free[:, 0]).astype(np.float32)[:, None]
            # With the dual variable added, X is what is positive, and the dual variable what is negative.
            both = np.maximum(x, 0)
            for _ in range(most):
                right = penalty * np.abs(both) + pull
                right -= (right.sum(axis=1, keepdims=True) - row_sums) / n_classes
                right -= (even.T @ right - sizes) / even.sum()
                x = solve(within * right, 1e-4, x)
                before, both = both, x + np.minimum(both, 0)
                if np.abs(np.maximum(both, 0) - np.maximum(before, 0)).mean() <= self.settled:
                    break
        found: Codes = both[:, :n_classes].argmax(axis=1)
        found[known] = problem.labels
        return found
