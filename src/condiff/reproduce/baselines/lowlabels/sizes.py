"""Methods that are told how many points every class has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from scipy.sparse.csgraph import dijkstra

from condiff.diffusion import Euler
from condiff.diffusion.conjugate import Array, Codes, Columns, solve_symmetric
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

    It begins with the label that is nearest along the graph. As in the authors' code, scores fluctuate at random, and
    of all assignments the one with the least energy is taken: that in which the classes leak least into each other.

    Parameters
    ----------
    rounds
        Assignments; without fluctuations it ends when none changes.
    temperature
        The standard deviation of the fluctuations.
    """

    knows_sizes: ClassVar[bool] = True

    rounds: int = 100
    temperature: float = 0.1

    def codes_of(self, problems: Sequence[LowLabelProblem], seeds: Sequence[int]) -> list[Codes]:
        return [self._codes(problem, seed) for problem, seed in zip(problems, seeds, strict=True)]

    def _codes(self, problem: LowLabelProblem, seed: int) -> Codes:
        lengths = problem.graph.weights.copy()
        lengths.data = 1 / np.maximum(lengths.data, 1e-12)
        nearest = dijkstra(lengths, indices=problem.known, min_only=True, return_predecessors=True)[2]
        label_of = np.zeros(len(problem.points), np.int64)
        label_of[problem.known] = problem.labels
        found: Codes = label_of[np.maximum(nearest, 0)]
        spread, random = problem.graph.normalised, np.random.default_rng(seed)
        free = np.ones(len(found), bool)
        free[problem.known] = False
        sizes = problem.sizes - np.bincount(problem.labels, minlength=problem.n_classes)
        prices, ones = None, padded(np.eye(problem.n_classes))
        every, most, best = np.arange(len(found)), -np.inf, found
        for _ in range(self.rounds):
            scores = spread(spread(ones[found]))[:, : problem.n_classes]
            stays = float(scores[every, found].sum())  # all else leaks: the sum of all scores does not change
            if stays > most:
                most, best = stays, found
            before, found = found, found.copy()
            moved = scores[free] + self.temperature * random.standard_normal((int(free.sum()), problem.n_classes))
            found[free], prices = assign(moved, sizes, prices)
            if not self.temperature and np.array_equal(before, found):
                break
        return best


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

    at_once: ClassVar[int] = 6

    s: tuple[float, ...] = (0.0, 0.1)
    iterations: tuple[int, ...] = (100, 400)
    settled: float = 1e-6

    def codes_of(self, problems: Sequence[LowLabelProblem], seeds: Sequence[int]) -> list[Codes]:
        x = np.concatenate([_without_signs(problem) for problem in problems], axis=1)
        both = np.maximum(x, 0)
        for s, most in zip(self.s, self.iterations, strict=True):
            x, both = self._settled(problems, s, most, x, both)
        found = []
        for problem, columns in zip(problems, blocks(problems), strict=True):
            codes = both[:, columns].argmax(axis=1)
            codes[problem.known] = problem.labels
            found.append(codes)
        return found

    def _settled(
        self, problems: Sequence[LowLabelProblem], s: float, most: int, x: Columns, both: Columns
    ) -> tuple[Columns, Columns]:
        """Iterate each problem until it has settled: its X, and X with the dual variable added."""
        ends, width = (x.copy(), both.copy()), problems[0].n_classes
        left = list(range(len(problems)))
        cuts = _Cuts(problems, s)
        for iteration in range(1, most + 1):
            before, (x, both) = both, cuts.step(x, both)
            changes = np.abs(np.maximum(both, 0) - np.maximum(before, 0)).mean(axis=0, dtype=np.float64)
            moving = changes.reshape(-1, width).mean(axis=1) > self.settled
            if iteration < most and moving.all():
                continue
            for place, number in enumerate(left):
                if iteration == most or not moving[place]:
                    for end, latest in zip(ends, (x, both), strict=True):
                        columns = latest[:, place * width : (place + 1) * width]
                        end[:, number * width : (number + 1) * width] = columns
            left = [number for number, more in zip(left, moving, strict=True) if more]
            if not left:
                break
            x, both = (np.ascontiguousarray(each[:, np.repeat(moving, width)]) for each in (x, both))
            cuts = _Cuts([problems[number] for number in left], s)
        return ends


def _without_signs(problem: LowLabelProblem) -> Columns:
    """The solution at s = 0 and without X >= 0."""
    scores, times = Laplace().with_exit_times([problem])[0]
    x = scores - times * ((scores.sum(axis=0) - problem.sizes) / times.sum())
    x[problem.known] = 0.0
    return np.asarray(x, np.float32)


class _Cuts:
    """The quadratic programs of some draws, side by side: what a step of ADMM on them needs.

    With the dual variable added, X is what is positive, and the dual variable what is negative.
    """

    def __init__(self, problems: Sequence[LowLabelProblem], s: float) -> None:
        graph, self.width = problems[0].graph, problems[0].n_classes
        free = np.ones((len(problems[0].points), len(problems)), np.float32)
        for place, problem in enumerate(problems):
            free[problem.known, place] = 0.0
        self.free = np.repeat(free, self.width, axis=1)
        pulls = [graph.weights[:, problem.known] @ problem.indicators for problem in problems]
        self.pull = self.free * np.concatenate(pulls, axis=1).astype(np.float32)
        self.sizes = np.concatenate([problem.sizes - problem.indicators.sum(axis=0) for problem in problems])
        self.penalty = np.float32(max(1.0, s * float(graph.degree.max())))  # enough to keep every step convex
        diagonal = (1 - s) * graph.degree + self.penalty
        self.row_sums = free * (diagonal[:, None] - graph.weights @ free).astype(np.float32)
        self.solve = graph.solver(diagonal, [problem.known for problem in problems], self.width)
        self.even = self.solve(self.free, 1e-6)
        self.even_sums = self.even.sum(axis=0, dtype=np.float64)

    def step(self, x: Columns, both: Columns) -> tuple[Columns, Columns]:
        """The next X, whose rows and columns have their sums, and X with the dual variable added."""
        right = self.penalty * np.abs(both) + self.pull
        rows = right.reshape(len(right), -1, self.width)
        rows -= ((np.einsum("ijk->ij", rows) - self.row_sums) / np.float32(self.width))[:, :, None]
        sums = (self.even * right).sum(axis=0, dtype=np.float64)
        right -= ((sums - self.sizes) / self.even_sums).astype(np.float32)
        right *= self.free
        x = self.solve(right, 1e-4, x)
        return x, x + np.minimum(both, 0)
