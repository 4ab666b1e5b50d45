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
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from condiff.bases.classical import (
    Base,
    Blend,
    Inputs,
    Labelled,
    Trees,
    blend,
    fit_discriminant,
    fit_gaussian_process,
    fit_linear,
    fit_trees,
    tilted,
)
from condiff.bases.forest import Forest
from condiff.diffusion import Euler
from condiff.diffusion.readout import ReadOut
from condiff.diffusion.stability import max_diagonal
from condiff.graph import Graph, nearest
from condiff.graph.leaves import LeafGraph

Array = NDArray[np.float64]
Joined = Literal["none", "trees", "near", "given"]

_WHERE: dict[Joined, str] = {
    "none": "no graph",
    "trees": "shared leaves",
    "near": "nearest neighbours",
    "given": "the given graph",
}
#: Half steps of the candidates: from hardly any to what mixes a neighbourhood.
STEPS: dict[Joined, tuple[int, ...]] = {"trees": (4,), "near": (4, 16, 48)}
#: Rehearsals, and the points that they are held on at most.
REPLICAS, STAGE = 6, 3000
#: The bases in words.
BLEND, NETWORK = "trees, linear models and a Gaussian process", "residual network"
#: From this redundancy of the columns on a contest may be won.
REDUNDANT = 0.6
# Columns that unit vectors of an encoder have at least.
_EMBEDDED = 32
# Draws of a contest for each of the two truths; how far ahead the network must be over both, and how little behind
# where the truth is the other base's.
_CONTESTS, _AHEAD, _BEHIND = 3, 0.15, 0.05
# Trees that make the graph, the fewest points in a leaf of the random ones, and the points that those are grown on.
_GRAPH_TREES, _RANDOM_LEAF, _CELL_POINTS = 50, 30, 2000
# A Gaussian process costs the cube of the labels.
_MOST_FOR_PROCESS = 1500
_TREES, _REHEARSAL_TREES = 200, 50
#: Unlabelled points below which a rehearsal says nothing.
FEWEST_TESTED = 10
# Redundancy of columns: neighbours that are asked, and halves of the columns that are hidden.
_ALIKE, _HALVES = 6, 4


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
        if not self.layers:
            return "no diffusion"
        judged = f" ({self.gain:+.1f} ± {self.error:.1f} points)" if self.error else ""
        return f"{self.layers} layers over {_WHERE[self.graph]}{judged}"


@dataclass(frozen=True)
class Choice:
    """What a fit decided by itself; its text is one line.

    Attributes
    ----------
    base
        What answers before the diffusion, in words.
    why
        The reason for this base, or nothing where it was asked for.
    candidates
        The diffusions that a rehearsal compared, none first; empty where there was no rehearsal.
    chosen
        The one that was taken.
    """

    base: str
    chosen: Candidate
    why: str = ""
    candidates: tuple[Candidate, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain values, to be saved."""
        return asdict(self)

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> Choice:
        """The inverse of :meth:`to_dict`."""
        candidates = tuple(Candidate(**each) for each in state["candidates"])
        return cls(state["base"], Candidate(**state["chosen"]), state["why"], candidates)

    def __str__(self) -> str:
        others: dict[str, list[Candidate]] = {}
        for each in self.candidates:
            if each.layers and each != self.chosen:
                others.setdefault(_WHERE[each.graph], []).append(each)
        compared = [
            f"{', '.join(str(each.layers) for each in same)} over {where}: "
            f"{', '.join(f'{each.gain:+.1f}' for each in same)}"
            for where, same in others.items()
        ]
        beside = f"; in rehearsal {'; '.join(compared)} points" * bool(compared)
        return f"{self.base}{f' ({self.why})' * bool(self.why)}, {self.chosen}{beside}"


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

    def __init__(self, inputs: Inputs, near: Graph, n_neighbors: int, seed: int) -> None:
        self.inputs, self.near, self.n_neighbors, self.seed = inputs, near, n_neighbors, seed

    @cached_property
    def cells(self) -> Forest:
        """Totally random trees."""
        generator = np.random.default_rng(self.seed)
        some = generator.permutation(len(self.inputs))[:_CELL_POINTS]
        noise = generator.normal(size=(len(some), 1))
        fewest = min(_RANDOM_LEAF, max(1, len(some) // 4))
        points, weights = self.inputs.values[some], np.ones(len(some))
        return Forest.grow(points, noise, weights, n_trees=_GRAPH_TREES, n_tried=1, fewest=fewest, seed=self.seed)

    @cached_property
    def own_cells(self) -> NDArray[np.int32]:
        """The cell of every point in every random tree."""
        return self.cells.leaves(self.inputs.values)

    def links(self, trees: Trees) -> Links:
        """What joins points by the leaves that they share."""
        return Links.build(self.inputs.values, trees, self.cells, self.own_cells, self.n_neighbors)

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
    """The default base, and its trees: trees count twice for classes, a Gaussian process for values."""
    trees = fit_trees(data, n_trees=_TREES, seed=seed)
    linear = fit_linear(data)
    process = fit_gaussian_process(data) if len(data.rows) <= _MOST_FOR_PROCESS else None
    if not data.classifies:
        return blend([(trees, 1.0), (linear, 1.0), (process, 2.0)]), trees
    found = blend([(trees, 2.0), (linear, 1.0), (process, 1.0), (fit_discriminant(data), 0.5)])
    return tilted(found, data), trees


def fit_for_rehearsal(data: Labelled, seed: int) -> tuple[Base, Trees]:
    """The two cheapest of the blend."""
    trees = fit_trees(data, n_trees=_REHEARSAL_TREES, seed=seed)
    return blend([(trees, 1.0), (fit_linear(data), 1.0)]), trees


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
    chosen, strength
        The diffusion.
    read
        How its result is read.
    before, after
        Answers at all points.
    answers
        What was answered for held-out items, (held-out items, outputs).
    at_folds
        What was answered at all points without each fold, (folds, points, outputs); None where only some were asked.
    candidates
        What a rehearsal found, no diffusion first; empty where the layers were given.
    """

    base: Base
    links: Links | None
    chosen: Candidate
    strength: float
    read: ReadOut | Affine
    before: Array
    after: Array
    answers: Array
    at_folds: Array | None
    candidates: list[Candidate]


@dataclass(frozen=True, eq=False)
class Recipe:
    """How a base is fitted, diffused and read.

    Attributes
    ----------
    fit, rehearsal
        What fits the base, and what stands for it in rehearsals.
    layers, strength
        Of the diffusion over the near graph; None lets a rehearsal choose, or takes half of the positivity limit.
    prior
        Known shares of the classes, or None.
    seed
        Of bases and rehearsals.
    """

    fit: FitBase
    rehearsal: FitBase
    layers: int | None
    strength: float | None
    prior: Array | None
    seed: int

    def finish(
        self, ground: Ground, data: Labelled, base: Array, trees: Trees | None, how: Candidate
    ) -> tuple[Array, ReadOut | Affine, Links | None, float]:
        """Diffuse a base's answers as a candidate says: the result, how it is read, its links and its strength."""
        links = ground.links(trees) if how.graph == "trees" and trees is not None else None
        graph = ground.near if links is None else links.joined.graph
        step = half_strength(graph) if self.strength is None else self.strength
        if not how.layers and self.prior is None:
            plain = ReadOut.plain(data.n_outputs) if data.classifies else Affine.plain(data.n_outputs)
            return base, plain, links, step
        start = clamped(base, data) if how.layers else base
        moved = diffused(graph, start, how.layers, step)
        read = read_out(moved, start, data, self.prior)
        return read(moved), read, links, step


def fit_then_diffuse(
    ground: Ground,
    data: Labelled,
    stage: tuple[Ground, Labelled],
    held_out: NDArray[np.bool_],
    recipe: Recipe,
) -> Diffused:
    """Fit a base, decide how far to diffuse it, do so, and answer for the items that folds hold out.

    Parameters
    ----------
    ground, data
        Points and labels.
    stage
        The same, or some of the points with all of the labels, for rehearsals and folds.
    held_out
        Which items each fold leaves out, (folds, items).
    recipe
        How to do it.
    """
    base, trees = recipe.fit(data, recipe.seed)
    before = base.outputs(ground.inputs.values)
    some, labels = stage
    on_stage = before if some is ground else base.outputs(some.inputs.values)
    folds = [(labels.without(left_out), labels.rows[left_out]) for left_out in held_out]
    fitted = [recipe.fit(fewer, recipe.seed) for fewer, _ in folds]
    at_folds = [each.outputs(some.inputs.values) for each, _ in fitted]
    candidates: list[Candidate] = []
    chosen = Candidate("near", recipe.layers or 0)
    if recipe.layers is None:
        # How far an answer is off without its label: labels that are drawn anew are as noisy.
        misses = [
            own[rows] - labels.indicators[out] for own, (_, rows), out in zip(at_folds, folds, held_out, strict=True)
        ]
        noise = 0.7 * float(np.sqrt(np.mean(np.concatenate(misses) ** 2))) if misses else 0.0
        candidates = rehearse(some, labels, on_stage, recipe, noise)
        chosen = max(candidates, key=lambda each: each.worth)
    after, read, links, step = recipe.finish(ground, data, before, trees, chosen)
    finished = [
        recipe.finish(some, fewer, own, grown, chosen)[0]
        for own, (_, grown), (fewer, _) in zip(at_folds, fitted, folds, strict=True)
    ]
    answers = [every[rows] for every, (_, rows) in zip(finished, folds, strict=True)]
    found = np.concatenate(answers) if answers else np.zeros((0, data.n_outputs))
    everywhere = np.stack(finished) if finished and some is ground else None
    return Diffused(base, links, chosen, step, read, before, after, found, everywhere, candidates)


def can_rehearse(ground: Ground, data: Labelled) -> bool:
    """Whether there are unlabelled points to judge by."""
    return len(ground.inputs) - len(np.unique(data.rows)) >= FEWEST_TESTED


def rehearse(ground: Ground, data: Labelled, base: Array, recipe: Recipe, noise: float) -> list[Candidate]:
    """Every candidate with its gain, no diffusion first.

    Parameters
    ----------
    ground, data
        Points and labels.
    base
        The base's answers at all points, taken for the truth.
    recipe
        What is fitted in a rehearsal, and how answers are read.
    noise
        For values, what to add to the truth where a label is drawn.
    """
    if not can_rehearse(ground, data):
        return [Candidate()]
    generator = np.random.default_rng(recipe.seed)
    gains: dict[tuple[Joined, int], list[float]] = {}
    for replica in range(REPLICAS):
        drawn = draw(data, base, noise, generator)
        fitted, trees = recipe.rehearsal(drawn, replica)
        answers = fitted.outputs(ground.inputs.values)
        tested = np.ones(len(base), bool)
        tested[drawn.rows] = False
        before, start = score(answers, base, data, tested), clamped(answers, drawn)
        for joined, steps in STEPS.items():
            if joined == "trees" and trees is None:
                continue
            graph, done, u = ground.graph(joined, trees), 0, start
            strength = half_strength(graph)
            for layers in steps:
                u, done = diffused(graph, u, layers - done, strength), layers
                found = score(read_out(u, start, drawn, recipe.prior)(u), base, data, tested)
                gains.setdefault((joined, layers), []).append(100 * (found - before))
    return [Candidate()] + [
        Candidate(joined, layers, float(np.mean(each)), float(np.std(each, ddof=1) / np.sqrt(len(each))))
        for (joined, layers), each in gains.items()
    ]


def draw(data: Labelled, base: Array, noise: float, generator: np.random.Generator) -> Labelled:
    """New labels from the base's answers: as many of each class as were given, or as many values."""
    if not data.classifies:
        rows = generator.choice(len(base), min(len(data.rows), len(base)), replace=False)
        targets = base[rows] + noise * generator.normal(size=(len(rows), base.shape[1]))
        return replace(data, rows=rows, targets=targets, weights=np.ones(len(rows)))
    truth = base.argmax(axis=1)
    truth[data.rows] = data.targets
    rows_of = []
    for label, count in enumerate(np.bincount(data.targets, minlength=data.n_outputs)):
        members = np.flatnonzero(truth == label)
        # A class that the base sees nowhere else keeps the labels that it has.
        own = data.rows[data.targets == label]
        rows_of.append(generator.choice(members, min(count, len(members)), replace=False) if len(members) > 1 else own)
    rows = np.concatenate(rows_of)
    return replace(data, rows=rows, targets=truth[rows], weights=np.ones(len(rows)))


def score(answers: Array, base: Array, data: Labelled, tested: NDArray[np.bool_]) -> float:
    """How much of the truth is found again: the share of the classes, or less the unexplained share of the variance."""
    if data.classifies:
        return float((answers.argmax(axis=1) == base.argmax(axis=1))[tested].mean())
    spread = float(base[tested].var()) or 1.0
    return -float(((answers - base)[tested] ** 2).mean()) / spread


def is_embedding(points: Array) -> bool:
    """Whether rows are an encoder's unit vectors, as far as some of them show."""
    some = points[:: max(1, len(points) // _CELL_POINTS)]
    lengths = np.linalg.norm(some, axis=1)
    return bool(points.shape[1] >= _EMBEDDED and np.ptp(lengths) < 1e-3 * lengths.max())


def redundancy(points: Array, seed: int) -> float:
    """How well a point's neighbours in half of the columns tell its other half: 1 entirely, 0 not at all.

    High where many columns show the same thing, as pixels do, or bands of a spectrum, or an encoder's output: there
    neighbours are alike in what no column says by itself. Low where every column of a table says something of its own.
    """
    generator = np.random.default_rng(seed)
    points = points[generator.permutation(len(points))[:_CELL_POINTS]]
    points = points[:, points.std(axis=0) > 1e-12]
    width = points.shape[1]
    if width < 2 or len(points) <= _ALIKE:
        return 0.0
    shares = []
    for _ in range(_HALVES):
        order = generator.permutation(width)
        shown, hidden = points[:, order[: (width + 1) // 2]], points[:, order[(width + 1) // 2 :]]
        near = nearest(shown, _ALIKE + 1).indices[:, 1:]
        error = ((hidden - hidden[near].mean(axis=1)) ** 2).sum() / (1 + 1 / _ALIKE)
        shares.append(1 - error / ((hidden - hidden.mean(axis=0)) ** 2).sum())
    return float(np.mean(shares))


@dataclass(frozen=True)
class Contest:
    """The residual network against another base: which finds more of what either says again, from other labels.

    Attributes
    ----------
    network, other
        Shares of the network's answers that the network itself and the other base find again.
    lead, lead_away
        How far the network is ahead in finding its own answers and the other base's: the difference of the errors
        relative to their sum, from -1 to 1.
    """

    network: float
    other: float
    lead: float
    lead_away: float

    @property
    def won(self) -> bool:
        """Whether the network should be the base."""
        return self.lead + self.lead_away > _AHEAD and self.lead_away > -_BEHIND

    def __str__(self) -> str:
        return f"from other labels it finds {self.network:.0%} of its answers again, and {BLEND} {self.other:.0%}"


def contest(
    ground: Ground,
    data: Labelled,
    answers: Array,
    chosen: Candidate,
    recipe: Recipe,
    networks: Callable[[Labelled], Array],
) -> Contest:
    """Let the residual network and another base rehearse what either says.

    Where columns are redundant, points form clusters, and a network that was trained through the diffusion finds these
    whichever points are labelled; a base that was fitted on the labels alone finds something else each time. Where
    there are no clusters, it is the other way round.

    Parameters
    ----------
    ground, data
        Points and labels.
    answers, chosen
        The other base's answers at all points, and how it was diffused.
    recipe
        How it is fitted.
    networks
        From labels to the network's answers at all points.
    """
    generator = np.random.default_rng(recipe.seed)
    shares = np.empty((2, _CONTESTS, 2))
    for of, truth in enumerate((networks(data), answers)):
        for replica in range(_CONTESTS):
            drawn = draw(data, truth, 0.0, generator)
            tested = np.ones(len(truth), bool)
            tested[drawn.rows] = False
            base, trees = recipe.rehearsal(drawn, replica)
            other = recipe.finish(ground, drawn, base.outputs(ground.inputs.values), trees, chosen)[0]
            shares[of, replica] = [score(each, truth, data, tested) for each in (networks(drawn), other)]
    errors = 1 - shares
    leads = (errors[..., 1] - errors[..., 0]) / (errors.sum(axis=-1) + 0.01)
    network, other_share = shares[0].mean(axis=0)
    return Contest(float(network), float(other_share), *leads.mean(axis=1).tolist())
