"""COIN that measures whether neighbours agree, and diffuses, follows features or links, or leaves the base alone."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from condiff.graph.homophily import Homophily
from condiff.graph.homophily import homophily as measured
from condiff.reproduce.baselines.beyond.mixture import MixtureCOIN, together
from condiff.reproduce.baselines.node.method import NodeMethod, Outcome
from condiff.reproduce.baselines.node.mlp import MLP
from condiff.reproduce.baselines.node.problem import NodeProblem

# Ways of two steps through a graph up to which they are followed; Squirrel has 16 million, Tolokers 400.
_MOST_WAYS = 1 << 26


def homophily(problem: NodeProblem) -> Homophily:
    """Agreement along the edges between training and validation nodes."""
    return measured(problem.graph.weights, problem.labels.numpy(), problem.n_classes)


@dataclass(frozen=True)
class AdaptiveCOIN(NodeMethod):
    r"""Four answers to whether neighbours agree, weighted by how likely they make the validation labels.

    - ``diffuse``: neighbours agree, :class:`~condiff.reproduce.baselines.beyond.mixture.MixtureCOIN`;
    - ``follow``: neighbours matter, whatever they have: a perceptron on :math:`(X, \bar A X, \bar A^2 X)` with the mean
      over neighbours :math:`\bar A`, whose weights give every hop its own sign;
    - ``linked``: it matters who the neighbours are: a perceptron on :math:`\bar A^2`, a column for every node, left out
      where two hops reach so far that they tell little;
    - ``alone``: the base, a perceptron on :math:`X`.

    Where the labelled nodes' edges say clearly that neighbours agree, no more is tried. Else all are mixed by
    :func:`~condiff.reproduce.baselines.beyond.mixture.mixed`: a diffusion that hurts makes the labels unlikely.

    Parameters
    ----------
    certain
        Adjusted homophily above which only the diffusion is tried.
    edges
        How many labelled edges must say so.
    """

    certain: float = 0.5
    edges: int = 20

    def candidates(self, problem: NodeProblem) -> dict[str, tuple[NodeMethod, NodeProblem]]:
        """What is tried on a graph, each with the features it reads."""
        measured = homophily(problem)
        diffuse: dict[str, tuple[NodeMethod, NodeProblem]] = {"diffuse": (MixtureCOIN(), problem)}
        if measured.edges >= self.edges and measured.adjusted > self.certain:
            return diffuse
        others: dict[str, tuple[NodeMethod, NodeProblem]] = {"follow": (MLP(), with_neighbours(problem))}
        if (links := two_hops(problem)) is not None:
            others["linked"] = MLP(), replace(problem, features=links)
        return {**diffuse, **others, "alone": (MLP(), problem)}

    def solve(self, problem: NodeProblem, seed: int) -> Outcome:
        outcomes = [method.solve(seen, seed) for method, seen in self.candidates(problem).values()]
        return together(outcomes, problem)


def two_hops(problem: NodeProblem) -> sp.csr_array | None:
    """Where two random steps from each node lead, a column for every node; None where there are too many ways."""
    step = problem.graph.normalised("random_walk", self_loops="remove").weights
    ways = int((np.diff(step.indptr).astype(np.int64) ** 2).sum())
    return sp.csr_array(step @ step) if ways <= _MOST_WAYS else None


def with_neighbours(problem: NodeProblem) -> NodeProblem:
    """The problem with the mean features of neighbours, and of their neighbours, beside every node's own."""
    mean = problem.graph.normalised("random_walk", self_loops="remove").weights
    first = sp.csr_array(mean @ problem.features)
    return replace(problem, features=sp.csr_array(sp.hstack([problem.features, first, mean @ first])))
