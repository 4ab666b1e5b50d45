"""Any base, then as much diffusion as a rehearsal supports; and the blend of bases that suits tables.

Twenty labels cannot say how far to diffuse: held-out folds of four are noisier than the gain. The unlabelled points
can. A rehearsal takes the base's own answers for the truth, draws new labels from them, as many of each class as were
given, fits and diffuses anew, and counts how much of that truth every candidate finds again. Where points that are
joined in the graph do not belong together, diffusion loses in the rehearsal as it would in earnest. The candidate whose
gain over no diffusion is largest, less its standard error, is taken; no diffusion at all is always among them.

Candidates diffuse over two graphs: nearest neighbours, and shared leaves of trees (those that the base has grown on the
labels, cut further by random ones that know no label), along which columns that do not matter are passed over.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from condiff.bases.classical import (
    Base,
    Blend,
    Labelled,
    Trees,
    blend,
    fit_discriminant,
    fit_gaussian_process,
    fit_logistic,
    fit_trees,
)
from condiff.bases.forest import Forest
from condiff.diffusion import Euler
from condiff.diffusion.readout import ReadOut
from condiff.diffusion.stability import max_diagonal
from condiff.graph import Graph
from condiff.graph.leaves import LeafGraph

Array = NDArray[np.float64]
Joined = Literal["none", "trees", "near"]

#: Half steps of the candidates: from hardly any to what mixes a neighbourhood.
STEPS: dict[Joined, tuple[int, ...]] = {"trees": (4,), "near": (4, 16, 48)}
#: Rehearsals, and the points that they are held on at most.
REPLICAS, STAGE = 6, 3000
# Trees that make the graph, the fewest points in a leaf of the random ones, and the points that those are grown on.
_GRAPH_TREES, _RANDOM_LEAF, _CELL_POINTS = 50, 30, 2000
# A Gaussian process costs the cube of the labels.
_MOST_FOR_PROCESS = 1500
_TREES, _REHEARSAL_TREES = 200, 50


@dataclass(frozen=True)
class Candidate:
    """One way to diffuse, and how a rehearsal judged it.

    Attributes
    ----------
    graph, layers
        Over which graph, and how many half steps.
    gain
        Mean gain over no diffusion, in points of accuracy, or of explained variance, in percent.
    error
        Its standard error.
    """

    graph: Joined = "none"
    layers: int = 0
    gain: float = 0.0
    error: float = 0.0

    @property
    def worth(self) -> float:
        """The gain less its standard error."""
        return self.gain - self.error

    def __str__(self) -> str:
        names = {"none": "no diffusion", "trees": "shared leaves", "near": "nearest neighbours"}
        where = names[self.graph] if not self.layers else f"{self.layers} half steps over {names[self.graph]}"
        return where if not self.layers else f"{where} ({self.gain:+.1f} ± {self.error:.1f})"


class Ground:
    """What all fits of one data set share: inputs, the graph of their neighbours, and random cells that know no label.

    Parameters
    ----------
    inputs
        Of all points, dense.
    near
        The normalised graph of nearest neighbours, or a given one.
    n_neighbors
        How many a point keeps in a graph of shared leaves.
    seed
        Of the random cells.
    """

    def __init__(self, inputs: Array, near: Graph, n_neighbors: int, seed: int) -> None:
        self.inputs, self.near, self.n_neighbors, self.seed = inputs, near, n_neighbors, seed

    @cached_property
    def cells(self) -> Forest:
        """Totally random trees."""
        generator = np.random.default_rng(self.seed)
        some = generator.permutation(len(self.inputs))[:_CELL_POINTS]
        noise = generator.normal(size=(len(some), 1))
        fewest = min(_RANDOM_LEAF, max(1, len(some) // 4))
        return Forest.grow(
            self.inputs[some], noise, np.ones(len(some)), n_trees=_GRAPH_TREES, n_tried=1, fewest=fewest, seed=self.seed
        )

    @cached_property
    def own_cells(self) -> NDArray[np.int32]:
        """The cell of every point in every random tree."""
        return self.cells.leaves(self.inputs)

    def links(self, trees: Trees) -> Links:
        """What joins points by the leaves that they share."""
        return Links.build(self.inputs, trees, self.cells, self.own_cells, self.n_neighbors)

    def graph(self, joined: Joined, trees: Trees | None) -> Graph:
        """The graph of a candidate."""
        return self.near if joined != "trees" or trees is None else self.links(trees).joined.graph


@dataclass(frozen=True, eq=False)
class Links:
    """A graph of shared leaves, and the trees that say where a new point belongs in it.

    Attributes
    ----------
    trees, cells
        The base's trees, and random ones.
    joined
        The graph of the points that were there.
    """

    trees: Trees
    cells: Forest
    joined: LeafGraph

    @classmethod
    def build(cls, inputs: Array, trees: Trees, cells: Forest, own_cells: NDArray[np.int32], n_neighbors: int) -> Links:
        """Join points that share leaves of the base's trees and random cells."""
        return cls(trees, cells, LeafGraph.build(_both(trees, cells, inputs, own_cells), n_neighbors))

    def rows_of(self, inputs: Array) -> sp.csr_array:
        """Normalised weights of new points towards those of the graph."""
        return self.joined.rows_of(_both(self.trees, self.cells, inputs, self.cells.leaves(inputs)))

    def to_dict(self) -> dict[str, Any]:
        """Arrays and plain values, to be saved; the graph is saved beside them."""
        return {
            "trees": self.trees.to_dict(),
            "cells": self.cells.to_dict(),
            "leaves": self.joined.leaves,
            "degree": self.joined.degree,
            "n_neighbors": self.joined.n_neighbors,
        }

    @classmethod
    def from_dict(cls, state: dict[str, Any], graph: Graph) -> Links:
        """The inverse of :meth:`to_dict`."""
        trees = Base.from_dict(state["trees"])
        assert isinstance(trees, Trees)
        joined = LeafGraph(graph, state["leaves"], state["degree"], state["n_neighbors"])
        return cls(trees, Forest.from_dict(state["cells"]), joined)


def _both(trees: Trees, cells: Forest, inputs: Array, own_cells: NDArray[np.int32]) -> NDArray[np.int64]:
    """Which leaf of the base's trees and which random cell a point lies in, as one number for each pair of trees."""
    grown = first_trees(trees.forest, own_cells.shape[1]).leaves(trees.seen(inputs))
    return np.asarray(grown.astype(np.int64) * (cells.feature.size + 1) + own_cells)


def first_trees(forest: Forest, number: int) -> Forest:
    """The first trees of a forest; the others' nodes stay in its arrays."""
    return Forest(forest.roots[:number], forest.feature, forest.threshold, forest.left, forest.right, forest.value)


def fit_blend(data: Labelled, seed: int) -> tuple[Blend, Trees]:
    """The default base, and its trees, which count twice, beside linear models and a Gaussian process."""
    trees = fit_trees(data, n_trees=_TREES, seed=seed)
    linear = fit_logistic(data)
    process = fit_gaussian_process(data) if len(data.rows) <= _MOST_FOR_PROCESS else None
    if not data.classifies:
        return blend([(trees, 1.0), (linear, 1.0), (process, 1.0)]), trees
    return blend([(trees, 2.0), (linear, 1.0), (process, 1.0), (fit_discriminant(data), 0.5)]), trees


def fit_for_rehearsal(data: Labelled, seed: int) -> tuple[Base, Trees]:
    """The two cheapest of the blend."""
    trees = fit_trees(data, n_trees=_REHEARSAL_TREES, seed=seed)
    return blend([(trees, 1.0), (fit_logistic(data), 1.0)]), trees


#: Fits a base to labels; also gives its trees, if it has any.
FitBase = Callable[[Labelled, int], tuple[Base, Trees | None]]


def half_strength(graph: Graph) -> float:
    """Half of the largest strength that keeps answers positive."""
    return 0.5 / (max_diagonal(graph.laplacian(torch.float64)) or 1.0)


def diffused(graph: Graph, u: Array, layers: int, strength: float) -> Array:
    """Explicit layers over a graph, all at once."""
    with torch.no_grad():
        found = Euler()(graph.laplacian(torch.float64), torch.as_tensor(u), strength, layers)
    return np.asarray(found.numpy())


def clamped(base: Array, data: Labelled) -> Array:
    """The base's answers with the given labels in the place of its own."""
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
class Diffused:
    """A base that was fitted and diffused.

    Attributes
    ----------
    base
        The base.
    links
        The graph of shared leaves, if that is what was diffused over.
    layers, strength
        The diffusion.
    read
        How its result is read.
    before, after
        Answers at all points.
    answers
        What was answered for held-out items, (held-out items, outputs).
    candidates
        What a rehearsal found, no diffusion first; empty where the layers were given.
    """

    base: Base
    links: Links | None
    layers: int
    strength: float
    read: ReadOut | Affine
    before: Array
    after: Array
    answers: Array
    candidates: list[Candidate]


def fit_then_diffuse(
    ground: Ground,
    data: Labelled,
    held_out: NDArray[np.bool_],
    *,
    fit: FitBase,
    rehearsal: FitBase,
    layers: int | None,
    strength: float | None,
    prior: Array | None,
    seed: int,
) -> Diffused:
    """Fit a base, decide how far to diffuse it, do so, and answer for the items that folds hold out.

    Parameters
    ----------
    ground, data
        Points and labels.
    held_out
        Which items each fold leaves out, (folds, items).
    fit, rehearsal
        What fits the base, and what stands for it in rehearsals.
    layers, strength
        Of the diffusion over ``ground.near``; None lets a rehearsal choose, or takes half of the positivity limit.
    prior
        Known shares of the classes, or None.
    seed
        Of bases and rehearsals.
    """
    base, trees = fit(data, seed)
    before = base.outputs(ground.inputs)
    folds = [fit(data.without(left_out), seed) for left_out in held_out]
    at_folds = [each.outputs(ground.inputs) for each, _ in folds]
    candidates: list[Candidate] = []
    chosen = Candidate("near", layers or 0)
    if layers is None:
        # How far an answer is off without its label: labels that are drawn anew are as noisy.
        misses = [
            own[data.rows[left_out]] - data.indicators[left_out]
            for own, left_out in zip(at_folds, held_out, strict=True)
        ]
        noise = 0.7 * float(np.sqrt(np.mean(np.concatenate(misses) ** 2))) if misses else 0.0
        candidates = rehearse(ground, data, before, rehearsal, prior, noise, seed)
        chosen = max(candidates, key=lambda each: each.worth)

    def finished(
        base: Array, trees: Trees | None, labels: Labelled
    ) -> tuple[Array, ReadOut | Affine, Links | None, float]:
        links = ground.links(trees) if chosen.graph == "trees" and trees is not None else None
        graph = ground.near if links is None else links.joined.graph
        step = half_strength(graph) if strength is None else strength
        if not chosen.layers:
            return base, ReadOut.plain(data.n_outputs) if data.classifies else Affine.plain(data.n_outputs), links, step
        start = clamped(base, labels)
        moved = diffused(graph, start, chosen.layers, step)
        read = read_out(moved, start, labels, prior)
        return read(moved), read, links, step

    after, read, links, step = finished(before, trees, data)
    answers = [
        finished(own, grown, data.without(left_out))[0][data.rows[left_out]]
        for own, (_, grown), left_out in zip(at_folds, folds, held_out, strict=True)
    ]
    found = np.concatenate(answers) if answers else np.zeros((0, data.n_outputs))
    return Diffused(base, links, chosen.layers, step, read, before, after, found, candidates)


def rehearse(
    ground: Ground, data: Labelled, base: Array, fit: FitBase, prior: Array | None, noise: float, seed: int
) -> list[Candidate]:
    """Every candidate with its gain, no diffusion first.

    Parameters
    ----------
    ground, data
        Points and labels.
    base
        The base's answers at all points, taken for the truth.
    fit
        What is fitted in a rehearsal.
    prior
        Known shares of the classes, or None.
    noise
        For values, what to add to the truth where a label is drawn.
    seed
        Of the labels that are drawn.
    """
    generator = np.random.default_rng(seed)
    gains: dict[tuple[Joined, int], list[float]] = {}
    for replica in range(REPLICAS):
        drawn = _draw(data, base, noise, generator)
        fitted, trees = fit(drawn, replica)
        answers = fitted.outputs(ground.inputs)
        tested = np.ones(len(base), bool)
        tested[drawn.rows] = False
        before, start = _score(answers, base, data, tested), clamped(answers, drawn)
        for joined, steps in STEPS.items():
            if joined == "trees" and trees is None:
                continue
            graph, done, u = ground.graph(joined, trees), 0, start
            strength = half_strength(graph)
            for layers in steps:
                u, done = diffused(graph, u, layers - done, strength), layers
                found = _score(read_out(u, start, drawn, prior)(u), base, data, tested)
                gains.setdefault((joined, layers), []).append(100 * (found - before))
    return [Candidate()] + [
        Candidate(joined, layers, float(np.mean(each)), float(np.std(each, ddof=1) / np.sqrt(len(each))))
        for (joined, layers), each in gains.items()
    ]


def _draw(data: Labelled, base: Array, noise: float, generator: np.random.Generator) -> Labelled:
    """New labels from the base's answers: as many of each class as were given, or as many values."""
    if not data.classifies:
        rows = generator.choice(len(base), min(len(data.rows), len(base)), replace=False)
        targets = base[rows] + noise * generator.normal(size=(len(rows), base.shape[1]))
        return Labelled(data.inputs, rows, targets, np.ones(len(rows)), data.n_outputs)
    truth = base.argmax(axis=1)
    truth[data.rows] = data.targets
    rows_of = []
    for label, count in enumerate(np.bincount(data.targets, minlength=data.n_outputs)):
        members = np.flatnonzero(truth == label)
        # A class that the base sees nowhere else keeps the labels that it has.
        own = data.rows[data.targets == label]
        rows_of.append(generator.choice(members, min(count, len(members)), replace=False) if len(members) > 1 else own)
    rows = np.concatenate(rows_of)
    return Labelled(data.inputs, rows, truth[rows], np.ones(len(rows)), data.n_outputs)


def _score(answers: Array, base: Array, data: Labelled, tested: NDArray[np.bool_]) -> float:
    if data.classifies:
        return float((answers.argmax(axis=1) == base.argmax(axis=1))[tested].mean())
    spread = float(base[tested].var()) or 1.0
    return -float(((answers - base)[tested] ** 2).mean()) / spread
