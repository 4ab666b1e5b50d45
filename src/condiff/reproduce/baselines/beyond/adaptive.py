"""COIN that measures whether neighbours agree, and diffuses, follows their features, or leaves the base alone."""

from __future__ import annotations

from dataclasses import dataclass, replace

import scipy.sparse as sp

from condiff.graph.homophily import Homophily
from condiff.graph.homophily import homophily as measured
from condiff.reproduce.baselines.beyond.mixture import MixtureCOIN, together
from condiff.reproduce.baselines.node.method import NodeMethod, Outcome
from condiff.reproduce.baselines.node.mlp import MLP
from condiff.reproduce.baselines.node.problem import NodeProblem


def homophily(problem: NodeProblem) -> Homophily:
    """Agreement along the edges between training and validation nodes."""
    return measured(problem.graph.weights, problem.labels.numpy(), problem.n_classes)


@dataclass(frozen=True)
class AdaptiveCOIN(NodeMethod):
    r"""Three answers to whether neighbours agree, weighted by how likely they make the validation labels.

    - ``diffuse``: neighbours agree, :class:`~condiff.reproduce.baselines.beyond.mixture.MixtureCOIN`;
    - ``follow``: neighbours matter, whatever they have: a perceptron on :math:`(X, \bar A X, \bar A^2 X)` with the mean
      over neighbours :math:`\bar A`, whose weights give every hop its own sign;
    - ``alone``: the base, a perceptron on :math:`X`.

    Where the labelled nodes' edges say clearly that neighbours agree, no more is tried. Else all three are mixed by
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
        return {**diffuse, "follow": (MLP(), with_neighbours(problem)), "alone": (MLP(), problem)}

    def solve(self, problem: NodeProblem, seed: int) -> Outcome:
        outcomes = [method.solve(seen, seed) for method, seen in self.candidates(problem).values()]
        return together(outcomes, problem)


def with_neighbours(problem: NodeProblem) -> NodeProblem:
    """The problem with the mean features of neighbours, and of their neighbours, beside every node's own."""
    mean = problem.graph.normalised("random_walk", self_loops="remove").weights
    first = sp.csr_array(mean @ problem.features)
    return replace(problem, features=sp.csr_array(sp.hstack([problem.features, first, mean @ first])))
