"""COIN that measures whether neighbours agree, and diffuses, reacts against neighbours, or leaves the base alone."""

from __future__ import annotations

from dataclasses import dataclass, replace

from condiff.graph.homophily import Homophily
from condiff.graph.homophily import homophily as measured
from condiff.reproduce.baselines.beyond.mixture import MixtureCOIN, together
from condiff.reproduce.baselines.beyond.reaction import ReactionCOIN
from condiff.reproduce.baselines.beyond.resolvent import of_length_one
from condiff.reproduce.baselines.node.method import NodeMethod, Outcome
from condiff.reproduce.baselines.node.mlp import MLP
from condiff.reproduce.baselines.node.problem import NodeProblem


def homophily(problem: NodeProblem) -> Homophily:
    """Agreement along the edges between training and validation nodes."""
    return measured(problem.graph.weights, problem.labels.numpy(), problem.n_classes)


@dataclass(frozen=True)
class AdaptiveCOIN(NodeMethod):
    """Three answers to whether neighbours agree, weighted by how likely they make the validation labels.

    - ``diffuse``: neighbours agree, :class:`~condiff.reproduce.baselines.beyond.mixture.MixtureCOIN`;
    - ``react``: neighbours matter, whatever they have: hidden features, each diffused or sharpened along the edges,
      :class:`~condiff.reproduce.baselines.beyond.reaction.ReactionCOIN`;
    - ``alone``: the base, a perceptron on features of length one.

    Where the labelled nodes' edges say clearly that neighbours agree, no more is tried. Else all three are mixed by
    :func:`~condiff.reproduce.baselines.node.mixing.mixed`: a diffusion that hurts makes the labels unlikely.

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
        scaled = replace(problem, features=of_length_one(problem.features))
        return {**diffuse, "react": (ReactionCOIN(), problem), "alone": (MLP(), scaled)}

    def solve(self, problem: NodeProblem, seed: int) -> Outcome:
        outcomes = [method.solve(seen, seed) for method, seen in self.candidates(problem).values()]
        return together(outcomes, problem)
