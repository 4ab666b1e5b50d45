"""How a base that was fitted on the labels alone is diffused, and how the result is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from condiff.bases.classical import Base, Labelled, Trees
from condiff.diffusion.flow import Flow
from condiff.diffusion.readout import ReadOut
from condiff.estimators.choice import Candidate, Joined
from condiff.estimators.links import Ground, Links, Mix
from condiff.graph import Graph

Array = NDArray[np.float64]
#: Fits a base to labels, and trees beside it if it has none.
FitBase = Callable[[Labelled, int], tuple[Base, Trees]]


def half_strength(graph: Graph) -> float:
    """Half of the largest strength that keeps answers positive."""
    return 0.5 / (graph.max_diagonal or 1.0)


def clamped(base: Array, data: Labelled) -> Array:
    """The base's answers with the given labels instead of its own."""
    held = np.zeros_like(base)
    weight = np.zeros(len(base))
    np.add.at(held, data.rows, data.weights[:, None] * data.indicators)
    np.add.at(weight, data.rows, data.weights)
    known = weight > 0
    u = base.copy()
    u[known] = held[known] / weight[known, None]
    return u


def class_shares(u: Array, data: Labelled, prior: Array | None) -> Array:
    """What part of all points each class is to have after the diffusion.

    As known; otherwise between what the base's answers say and the smoothed counts of the labels, the more of the
    former the more labels there are.
    """
    if prior is not None:
        return prior
    counts = np.bincount(data.targets, data.weights, minlength=data.n_outputs) + 1.0
    share = len(data.rows) / (len(data.rows) + data.n_outputs)
    mean = np.maximum(u.mean(axis=0), 1e-12) ** share * (counts / counts.sum()) ** (1 - share)
    return np.asarray(mean / mean.sum())


def read_out(diffused: Array, before: Array, data: Labelled, prior: Array | None) -> ReadOut | Affine:
    """How diffused answers are read: masses and certainty, or mean and spread, are those of before."""
    if data.classifies:
        return ReadOut.fit(diffused, class_shares(before, data, prior), float((before**2).sum(axis=1).mean()))
    return Affine.fit(diffused, before)


@dataclass(frozen=True, eq=False)
class Affine:
    """Values stretched and shifted, one column by itself."""

    slope: Array
    bias: Array

    def __call__(self, u: Array) -> Array:
        return u * self.slope + self.bias

    @classmethod
    def plain(cls, n_outputs: int) -> Affine:
        """Values as they are."""
        return cls(np.ones(n_outputs), np.zeros(n_outputs))

    @classmethod
    def fit(cls, u: Array, before: Array) -> Affine:
        """Give the values the mean and the spread that they had before."""
        spread = u.std(axis=0)
        slope = np.where(spread > 1e-12, before.std(axis=0) / np.maximum(spread, 1e-12), 1.0)
        return cls(slope, before.mean(axis=0) - slope * u.mean(axis=0))

    def to_dict(self) -> dict[str, Any]:
        """Plain values, to be saved."""
        return dict(vars(self))


@dataclass(frozen=True, eq=False)
class Finished:
    """A base's answers, diffused and read.

    Attributes
    ----------
    answers
        At all points.
    read
        How the diffused answers were read.
    links
        The graph, where it was made for this base.
    strength
        Of a layer.
    """

    answers: Array
    read: ReadOut | Affine
    links: Links | None
    strength: float


@dataclass(frozen=True, eq=False)
class Recipe:
    """How a base is fitted, diffused and read.

    Attributes
    ----------
    fit, rehearsal
        What fits the base, and what stands for it in rehearsals.
    graphs
        The graphs to diffuse over and, for each, the numbers of layers that a rehearsal compares. Given layers are over
        the first.
    layers, strength
        Of the diffusion; None lets a rehearsal choose, or takes half of the positivity limit.
    prior
        Known shares of the classes, or None.
    seed
        Of bases and rehearsals.
    """

    fit: FitBase
    rehearsal: FitBase
    graphs: Mapping[Joined, tuple[Mix, tuple[int, ...]]]
    layers: int | None
    strength: float | None
    prior: Array | None
    seed: int

    def given(self) -> Candidate:
        """The diffusion that was asked for."""
        return Candidate(next(iter(self.graphs)), self.layers) if self.layers else Candidate()

    def finish(
        self, ground: Ground, data: Labelled, base: Base, trees: Trees, before: Array, how: Candidate
    ) -> Finished:
        """Diffuse a base's answers, ``before``, as a candidate says."""
        links = ground.join(self.graphs[how.graph][0], base, trees, before) if how.layers else None
        graph = ground.own if links is None else links.graph
        step = half_strength(graph) if self.strength is None else self.strength
        if not how.layers and self.prior is None:
            plain = ReadOut.plain(data.n_outputs) if data.classifies else Affine.plain(data.n_outputs)
            return Finished(before, plain, links, step)
        start = clamped(before, data) if how.layers else before
        moved = Flow(graph, how.layers, step)(start)
        read = read_out(moved, start, data, self.prior)
        return Finished(read(moved), read, links, step)
