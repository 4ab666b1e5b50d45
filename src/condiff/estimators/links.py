r"""How points are joined: nearest neighbours, shared leaves of trees, alike answers, a given graph, or a mix of these.

A graph of nearest neighbours, or one that was given, knows no label. Shared leaves and alike answers do: points are
near each other where the base cannot tell them apart, so that columns which do not matter are passed over. Any of them
can be mixed with weights, :math:`W = \sum_k w_k W_k` with :math:`\sum_k w_k = 1`, every :math:`W_k` symmetric and
normalised, so that the mix keeps the step-size limits of its parts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from condiff.bases.classical import Base, Inputs, Trees
from condiff.bases.forest import Forest
from condiff.graph import Graph, PointGraph
from condiff.graph.leaves import LeafGraph

Array = NDArray[np.float64]
#: ``own`` is the graph that was there before anything was fitted: of nearest neighbours, or a given one. ``near`` are
#: nearest neighbours beside a given one.
Part = Literal["own", "near", "leaves", "answers"]
#: The parts that know labels, through what was fitted on them.
LEARNED: tuple[Literal["leaves", "answers"], ...] = ("leaves", "answers")
#: What each part of a mix counts.
Mix = Mapping[Part, float]

# Trees that make the graph, the fewest points in a leaf of the random ones, and the points that those are grown on.
_TREES, _RANDOM_LEAF, _CELL_POINTS = 50, 30, 2000


class Ground:
    """What all fits of one data set share: inputs, the graph of their neighbours, and random cells that know no label.

    Parameters
    ----------
    inputs
        Of all points, dense.
    own
        The normalised graph of nearest neighbours, or a given one.
    n_neighbors, bandwidth_rank
        How many a point keeps in a graph of shared leaves or of alike answers, and the rank that sets its bandwidth.
    seed
        Of the random cells.
    """

    def __init__(self, inputs: Inputs, own: Graph, n_neighbors: int, bandwidth_rank: int, seed: int) -> None:
        self.inputs, self.own, self.seed = inputs, own, seed
        self.n_neighbors, self.bandwidth_rank = n_neighbors, bandwidth_rank

    @cached_property
    def cells(self) -> Forest:
        """Totally random trees."""
        generator = np.random.default_rng(self.seed)
        some = generator.permutation(len(self.inputs))[:_CELL_POINTS]
        noise = generator.normal(size=(len(some), 1))
        fewest = min(_RANDOM_LEAF, max(1, len(some) // 4))
        points, weights = self.inputs.values[some], np.ones(len(some))
        return Forest.grow(points, noise, weights, n_trees=_TREES, n_tried=1, fewest=fewest, seed=self.seed)

    @cached_property
    def own_cells(self) -> NDArray[np.int32]:
        """The cell of every point in every random tree."""
        return self.cells.leaves(self.inputs.values)

    def join(self, mix: Mix, base: Base, trees: Trees, answers: Array) -> Links | None:
        """The graph of a mix; None where it is the ground's own.

        Parameters
        ----------
        mix
            What each part counts; the weights sum to one.
        base, trees
            What was fitted on the labels.
        answers
            The base's, at all points.
        """
        if set(mix) == {"own"}:
            return None
        parts: dict[Part, Leaves | Alike] = {}
        if "leaves" in mix:
            parts["leaves"] = Leaves.build(self, trees)
        if "answers" in mix:
            parts["answers"] = Alike.build(answers, base, self.n_neighbors, self.bandwidth_rank)
        return Links.of(self.own, mix, parts)


@dataclass(frozen=True, eq=False)
class Leaves:
    """Points joined by the leaves that they share: of the base's trees, cut further by random cells.

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
    def build(cls, ground: Ground, trees: Trees) -> Leaves:
        """Join the points of a ground."""
        leaves = _both(trees, ground.cells, ground.inputs.values, ground.own_cells)
        return cls(trees, ground.cells, LeafGraph.build(leaves, ground.n_neighbors))

    def rows_of(self, inputs: Array) -> sp.csr_array:
        """Normalised weights of new points towards those of the graph."""
        return self.joined.rows_of(_both(self.trees, self.cells, inputs, self.cells.leaves(inputs)))

    def to_dict(self) -> dict[str, Any]:
        """Arrays and plain values, to be saved."""
        joined = {name: getattr(self.joined, name) for name in ("leaves", "degree", "n_neighbors")}
        return {"trees": self.trees.to_dict(), "cells": self.cells.to_dict(), **joined}

    @classmethod
    def from_dict(cls, state: dict[str, Any], graph: Graph) -> Leaves:
        """The inverse of :meth:`to_dict`; new points do not need the part's own graph, and any stands in its place."""
        state = dict(state)
        trees, cells = Base.from_dict(state.pop("trees")), Forest.from_dict(state.pop("cells"))
        assert isinstance(trees, Trees)
        return cls(trees, cells, LeafGraph(graph, **state))


def _both(trees: Trees, cells: Forest, inputs: Array, own_cells: NDArray[np.int32]) -> NDArray[np.int64]:
    """Which leaf of the base's trees and which random cell a point lies in, as one number for each pair of trees."""
    grown = first_trees(trees.forest, own_cells.shape[1]).leaves(trees.seen(inputs))
    return np.asarray(grown.astype(np.int64) * (cells.feature.size + 1) + own_cells)


def first_trees(forest: Forest, number: int) -> Forest:
    """The first trees of a forest; the others' nodes stay in its arrays."""
    return Forest(forest.roots[:number], forest.feature, forest.threshold, forest.left, forest.right, forest.value)


@dataclass(frozen=True, eq=False)
class Alike:
    """Points joined to those that a function of their inputs sees nearest: the base's answers, or the inputs as such.

    Attributes
    ----------
    base
        The base; None for the inputs.
    points
        What it says of the points that were there.
    joined
        Their graph.
    """

    base: Base | None
    points: Array
    joined: PointGraph

    @classmethod
    def build(cls, points: Array, base: Base | None, n_neighbors: int, bandwidth_rank: int) -> Alike:
        """Join points by what is said of them."""
        cut = min(n_neighbors, len(points))
        return cls(base, points, PointGraph.build(points, cut, min(bandwidth_rank, cut), tuning="pair"))

    def rows_of(self, inputs: Array) -> sp.csr_array:
        """Normalised weights of new points towards those of the graph."""
        return self.joined.rows_of(self.points, inputs if self.base is None else self.base.outputs(inputs))

    def to_dict(self) -> dict[str, Any]:
        """Arrays and plain values, to be saved."""
        names = ("bandwidth", "degree", "n_neighbors", "bandwidth_rank")
        base = None if self.base is None else self.base.to_dict()
        return {"base": base, "points": self.points, **{name: getattr(self.joined, name) for name in names}}

    @classmethod
    def from_dict(cls, state: dict[str, Any], graph: Graph) -> Alike:
        """The inverse of :meth:`to_dict`; new points do not need the part's own graph, and any stands in its place."""
        state = dict(state)
        base, points = state.pop("base"), state.pop("points")
        joined = PointGraph(graph, **state, tuning="pair", metric="euclidean")
        return cls(None if base is None else Base.from_dict(base), points, joined)


@dataclass(frozen=True, eq=False)
class Links:
    """A mix of graphs, and how new points hang on it.

    Attributes
    ----------
    graph
        The mix.
    mix
        What each part counts.
    parts
        All but the graph that was there before.
    """

    graph: Graph
    mix: Mix
    parts: Mapping[Part, Leaves | Alike]

    @classmethod
    def of(cls, own: Graph, mix: Mix, parts: Mapping[Part, Leaves | Alike]) -> Links:
        """Add up the graphs."""
        graphs = {part: parts[part].joined.graph if part in parts else own for part in mix}
        return cls(Graph.of(_weighted(mix, {part: graph.weights for part, graph in graphs.items()})), mix, parts)

    @classmethod
    def with_neighbours(cls, own: Graph, inputs: Array, mix: Mix, n_neighbors: int, bandwidth_rank: int) -> Links:
        """A given graph and nearest neighbours beside it, before anything was fitted."""
        return cls.of(own, mix, {"near": Alike.build(inputs, None, n_neighbors, bandwidth_rank)})

    def rows_of(self, inputs: Array, own: Callable[[], sp.csr_array]) -> sp.csr_array:
        """Normalised weights of new points towards those of the graph; ``own`` gives those of the graph before."""
        rows = {part: self.parts[part].rows_of(inputs) if part in self.parts else own() for part in self.mix}
        return _weighted(self.mix, rows)

    def to_dict(self) -> dict[str, Any]:
        """Arrays and plain values, to be saved; the graph is saved beside them."""
        return {"mix": dict(self.mix), "parts": {part: each.to_dict() for part, each in self.parts.items()}}

    @classmethod
    def from_dict(cls, state: dict[str, Any], graph: Graph) -> Links:
        """The inverse of :meth:`to_dict`."""
        parts: dict[Part, Leaves | Alike] = {
            part: (Leaves if part == "leaves" else Alike).from_dict(each, graph)
            for part, each in state["parts"].items()
        }
        return cls(graph, state["mix"], parts)


def _weighted(mix: Mix, matrices: Mapping[Part, sp.csr_array]) -> sp.csr_array:
    return sp.csr_array(
        sum((weight * matrices[part] for part, weight in mix.items()), start=0.0 * next(iter(matrices.values())))
    )
