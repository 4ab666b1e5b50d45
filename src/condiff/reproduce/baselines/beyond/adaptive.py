"""COIN that measures whether neighbours agree, and diffuses, follows them, looks who they are, or leaves them alone."""

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

# Entries that the neighbours of all neighbours may have: past these they take longer than all the rest.
_MOST_ENTRIES = 1 << 23


def homophily(problem: NodeProblem) -> Homophily:
    """Agreement along the edges between training and validation nodes."""
    return measured(problem.graph.weights, problem.labels.numpy(), problem.n_classes)


@dataclass(frozen=True)
class AdaptiveCOIN(NodeMethod):
    r"""Four answers to whether neighbours agree, weighted by how likely they make the validation labels.

    - ``diffuse``: neighbours agree, :class:`~condiff.reproduce.baselines.beyond.mixture.MixtureCOIN`;
    - ``follow``: neighbours matter, whatever they have: a perceptron on :math:`(X, \bar A X, \bar A^2 X)` with the mean
      over neighbours :math:`\bar A`, whose weights give every hop its own sign;
    - ``place``: it matters who the neighbours are: a perceptron on :math:`(\bar A, \bar A^2)`, a column for each node;
    - ``alone``: the base, a perceptron on :math:`X`.

    Where the labelled nodes' edges say clearly that neighbours agree, no more is tried. Else all four are mixed by
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
        others = {"follow": with_neighbours(problem), "place": with_places(problem), "alone": problem}
        return diffuse | {name: (MLP(), seen) for name, seen in others.items()}

    def solve(self, problem: NodeProblem, seed: int) -> Outcome:
        outcomes = [method.solve(seen, seed) for method, seen in self.candidates(problem).values()]
        return together(outcomes, problem)


def with_neighbours(problem: NodeProblem) -> NodeProblem:
    """The problem with the mean features of neighbours, and of their neighbours, beside every node's own."""
    mean = _mean_of_neighbours(problem)
    first = sp.csr_array(mean @ problem.features)
    return replace(problem, features=sp.csr_array(sp.hstack([problem.features, first, mean @ first])))


def with_places(problem: NodeProblem) -> NodeProblem:
    """The problem with who the neighbours are in the place of features, and who theirs are where those are not many."""
    mean = _mean_of_neighbours(problem)
    degree = np.diff(mean.indptr).astype(np.int64)
    columns = [mean, mean @ mean] if int(degree @ degree) <= _MOST_ENTRIES else [mean]
    return replace(problem, features=sp.csr_array(sp.hstack(columns)))


def _mean_of_neighbours(problem: NodeProblem) -> sp.csr_array:
    return problem.graph.normalised("random_walk", self_loops="remove").weights
