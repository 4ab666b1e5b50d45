r"""What to label next: strategies as plain functions, from a situation to nodes, the most useful first.

Answers are thought of as a Gaussian field on the graph whose covariance is the diffusion summed over all times,
:math:`C_0 = \int_0^\infty e^{-t (L + \tau)} dt = (L + \tau)^{-1}`. A label at node k, known up to a variance
:math:`\sigma^2`, moves the answer at node i by :math:`C_{ik} / (C_{kk} + \sigma^2)` times what was not expected of it,
and leaves

.. math:: C \leftarrow C - \frac{C_{\cdot k} C_{k \cdot}}{C_{kk} + \sigma^2}.

So the influence of a label on every answer is known before the label is, labels that would say the same are not asked
for twice, and a batch is diverse by itself. Only the smooth part of the field is kept, in the span of the diffusion's
leading eigenvectors: C is a small matrix there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray

from condiff.diffusion import Euler
from condiff.diffusion.stability import max_diagonal
from condiff.errors import InvalidInputError
from condiff.graph import Graph

Array = NDArray[np.float64]
Nodes = NDArray[np.int64]

# Eigenvectors that are kept, further ones that help to find them, layers and rounds of that.
_SMOOTH, _HELPERS, _LAYERS, _ROUNDS = 100, 20, 40, 3
# Up to so many nodes, all eigenvectors are found exactly.
_SMALL = 400
# How fast the field forgets, in units of the smallest rates of the graph, and how far a label may be off.
_FORGET, _NOISE = 0.01, 0.01
#: A part of the graph without a label is asked for one first if it has this share of the nodes.
SHARE = 0.01


@dataclass(frozen=True, eq=False)
class Field:
    """The smooth functions on a graph: eigenvectors of its Laplacian, (nodes, kept), and their rates."""

    vectors: Array
    rates: Array

    @classmethod
    def of(cls, graph: Graph) -> Field:
        """Of a symmetric graph; found once, and kept as long as the graph is."""
        if graph not in _FIELDS:
            _FIELDS[graph] = cls._found(graph)
        return _FIELDS[graph]

    @classmethod
    def _found(cls, graph: Graph) -> Field:
        n, operator = graph.n_nodes, graph.laplacian(torch.float64)
        if n <= _SMALL:
            rates, vectors = np.linalg.eigh(np.diag(graph.degree) - graph.weights.toarray())
            return cls(vectors[:, :_SMOOTH], np.maximum(rates[:_SMOOTH], 0.0))
        # Diffusing random functions leaves the smooth ones: subspace iteration, then Rayleigh and Ritz.
        generator = np.random.default_rng(0)
        found = generator.normal(size=(n, _SMOOTH + _HELPERS))
        found[:, 0] = 1.0
        step = 1 / (max_diagonal(operator) or 1.0)
        with torch.no_grad():
            for _ in range(_ROUNDS):
                basis = np.linalg.qr(found)[0]
                found = Euler()(operator, torch.as_tensor(basis), step, _LAYERS).numpy()
            basis = np.linalg.qr(found)[0]
            small = basis.T @ operator(torch.as_tensor(basis)).numpy()
        rates, turn = np.linalg.eigh((small + small.T) / 2)
        return cls(basis @ turn[:, :_SMOOTH], np.maximum(rates[:_SMOOTH], 0.0))


_FIELDS: WeakKeyDictionary[Graph, Field] = WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class Situation:
    """What is known when the next labels are chosen.

    Attributes
    ----------
    graph
        Symmetric and normalised.
    labelled
        Which nodes have a label.
    chances
        Probabilities of the classes at every node, (nodes, classes); None where nothing is known of them yet, or
        answers are values.
    closed
        Nodes that must not be asked for, beside the labelled ones.
    seed
        Of what is drawn at random.
    """

    graph: Graph
    labelled: NDArray[np.bool_]
    chances: Array | None = None
    closed: NDArray[np.bool_] | None = None
    seed: int = 0

    @property
    def open(self) -> NDArray[np.bool_]:
        """Nodes that may be asked for."""
        return ~self.labelled if self.closed is None else ~(self.labelled | self.closed)

    @cached_property
    def unreached(self) -> Nodes:
        """For every node, the size of its component if that has no label, else 0."""
        parts = self.graph.components
        reached = np.isin(parts, parts[self.labelled])
        return np.where(reached, 0, np.bincount(parts)[parts])


Strategy = Callable[[Situation, int], Nodes]


# ---- the strategies -----------------------------------------------------------------------------------------------


def random(situation: Situation, n: int) -> Nodes:
    """Any nodes: what every other strategy must beat."""
    return np.random.default_rng(situation.seed).permutation(np.flatnonzero(situation.open))[:n]


def margin(situation: Situation, n: int) -> Nodes:
    """Nodes whose two most probable classes are closest, none joined to another."""
    if situation.chances is None:
        return random(situation, n)
    return _apart(situation, -_gap(situation.chances), n)


def entropy(situation: Situation, n: int) -> Nodes:
    """Nodes whose probabilities are most evenly spread, none joined to another."""
    if situation.chances is None:
        return random(situation, n)
    chances = np.maximum(situation.chances, 1e-300)
    return _apart(situation, -(chances * np.log(chances)).sum(axis=1), n)


def coverage(situation: Situation, n: int) -> Nodes:
    """Nodes whose neighbours' neighbours are most, leaving out those of labelled nodes: dense regions first.

    Where every node is a neighbour's neighbour of a labelled one, only neighbours are left out, then none: the densest
    region must not be asked for again and again.
    """
    near, free, found = situation.graph.weights, situation.open.copy(), list[int]()
    known = np.flatnonzero(situation.labelled).tolist()
    steps = 2
    uncovered = ~_within(near, known, steps)
    for _ in range(min(n, int(free.sum()))):
        while not uncovered.any() and steps:
            steps -= 1
            uncovered = ~_within(near, known + found, steps)
        wanted = uncovered.astype(np.float64) if uncovered.any() else np.ones(len(free))
        best = int(np.argmax(np.where(free, near @ (near @ wanted), -1.0)))
        found.append(best)
        free[best] = False
        uncovered &= ~_within(near, [best], steps)
    return np.array(found, dtype=np.int64)


def variance(situation: Situation, n: int) -> Nodes:
    r"""VarOpt: nodes whose labels leave the least variance, by :math:`\sum_i C_{ik}^2 / (C_{kk} + \sigma^2)`."""
    return _by_field(situation, n, lambda field: field.squares / field.own)


def sigma(situation: Situation, n: int) -> Nodes:
    r"""SigmaOpt: nodes whose labels tell most of the mean, by :math:`(\sum_i C_{ik})^2 / (C_{kk} + \sigma^2)`."""
    return _by_field(situation, n, lambda field: field.sums**2 / field.own)


def change(situation: Situation, n: int) -> Nodes:
    r"""Nodes whose labels are expected to change the answers most; dense regions while there are no answers.

    By :math:`d_k^2 \sum_i C_{ik}^2 / (C_{kk} + \sigma^2)`: the influence on all answers, and how far the own answer
    may be off, with :math:`d_k` one less the gap between the two most probable classes.
    """
    if situation.chances is None:
        return coverage(situation, n)
    doubt = 1 - _gap(situation.chances)
    return _by_field(situation, n, lambda field: doubt**2 * field.squares / field.own)


STRATEGIES: dict[str, Strategy] = {
    "random": random,
    "margin": margin,
    "entropy": entropy,
    "coverage": coverage,
    "variance": variance,
    "sigma": sigma,
    "change": change,
}


#: On average over the benchmark the labels that it asks for bring most.
DEFAULT = "change"


def suggest(situation: Situation, n: int, strategy: str = DEFAULT) -> Nodes:
    """Nodes to label next by a strategy's name; a large part of the graph without any label comes first.

    Parameters
    ----------
    situation
        What is known.
    n
        How many nodes; fewer where fewer are open.
    strategy
        One of ``STRATEGIES``.
    """
    if strategy not in STRATEGIES:
        raise InvalidInputError(f"strategy must be one of {', '.join(STRATEGIES)}, not {strategy!r}")
    if n < 1:
        raise InvalidInputError(f"at least one label must be asked for, not {n}")
    parts, sizes = situation.graph.components, situation.unreached
    found: list[int] = []
    if strategy != "random" and situation.labelled.any():
        # The best joined node stands for its component.
        for node in np.lexsort((-situation.graph.degree, -sizes))[: int((sizes > 0).sum())].tolist():
            if len(found) == n or sizes[node] < SHARE * len(sizes):
                break
            if situation.open[node] and parts[node] not in parts[found]:
                found.append(node)
    if len(found) == n:
        return np.array(found, dtype=np.int64)
    labelled = situation.labelled.copy()
    labelled[found] = True
    rest = STRATEGIES[strategy](replace(situation, labelled=labelled), n - len(found))
    return np.concatenate([np.array(found, dtype=np.int64), rest])


def _gap(chances: Array) -> Array:
    """Between the two most probable classes, from 0 to 1."""
    ordered = np.partition(chances, -2, axis=1)
    return np.asarray(ordered[:, -1] - ordered[:, -2])


def _apart(situation: Situation, worth: Array, n: int) -> Nodes:
    """The worthiest open nodes of which no two are joined: neighbours share what a label would tell."""
    near, free = situation.graph.weights, situation.open.copy()
    found: list[int] = []
    for node in np.argsort(-worth, kind="stable").tolist():
        if len(found) == n:
            break
        if free[node]:
            found.append(node)
            free[near.indices[near.indptr[node] : near.indptr[node + 1]]] = False
    return np.array(found, dtype=np.int64)


def _within(near: Any, nodes: Sequence[int], steps: int) -> NDArray[np.bool_]:
    """Which nodes are at most so many edges from some."""
    marked = np.zeros(near.shape[0])
    marked[list(nodes)] = 1.0
    for _ in range(steps):
        marked = near @ marked + marked
    return np.asarray(marked > 0)


class _Covariance:
    """The field's covariance, as labels come in: ``vectors @ small @ vectors.T``."""

    def __init__(self, field: Field) -> None:
        self.vectors = field.vectors
        forget = _FORGET * float(np.median(field.rates)) + 1e-6
        self.small: Array = np.diag(1 / (field.rates + forget))
        self.noise = _NOISE * float(np.median(self.own))
        self.total: Array = self.vectors.sum(axis=0)

    noise = 0.0

    @property
    def own(self) -> Array:
        return np.asarray(((self.vectors @ self.small) * self.vectors).sum(axis=1) + self.noise)

    @property
    def squares(self) -> Array:
        return np.asarray(((self.vectors @ self.small) ** 2).sum(axis=1))

    @property
    def sums(self) -> Array:
        return np.asarray(self.vectors @ (self.small @ self.total))

    def add(self, nodes: Nodes) -> None:
        """Labels at nodes."""
        rows = self.vectors[nodes]
        across = rows @ self.small
        joint = across @ rows.T + self.noise * np.eye(len(nodes))
        self.small = self.small - across.T @ np.linalg.solve(joint, across)


def _by_field(situation: Situation, n: int, worth: Callable[[_Covariance], Array]) -> Nodes:
    """Greedily the worthiest node, as if the label of each were known when the next is chosen."""
    covariance = _Covariance(Field.of(situation.graph))
    covariance.add(np.flatnonzero(situation.labelled))
    free, found = situation.open.copy(), []
    for _ in range(min(n, int(free.sum()))):
        best = int(np.argmax(np.where(free, worth(covariance), -np.inf)))
        found.append(best)
        free[best] = False
        covariance.add(np.array([best]))
    return np.array(found, dtype=np.int64)
