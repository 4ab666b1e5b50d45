r"""Label spreading (Zhou, Bousquet, Lal, Weston and Schölkopf, NIPS 2003): edges and training labels alone."""

from __future__ import annotations

import time
from dataclasses import dataclass

import scipy.sparse as sp

from condiff.errors import InvalidInputError
from condiff.reproduce.baselines.node.label_propagation import one_hot, solved, with_prior
from condiff.reproduce.baselines.node.method import NodeMethod, Outcome
from condiff.reproduce.baselines.node.problem import NodeProblem


@dataclass(frozen=True)
class LabelSpreading(NodeMethod):
    r"""The limit of :math:`F \leftarrow \alpha S F + (1 - \alpha) Y` with :math:`S = D^{-1/2} W D^{-1/2}`.

    That limit, :math:`(1 - \alpha)(I - \alpha S)^{-1} Y`, is solved for. Nodes that no training node reaches get the
    classes' shares of the training nodes.

    Parameters
    ----------
    alpha
        How much a node takes from its neighbours; the authors use 0.99 throughout.
    """

    alpha: float = 0.99

    def __post_init__(self) -> None:
        if not 0 <= self.alpha < 1:
            raise InvalidInputError(f"alpha must be at least 0 and below 1, not {self.alpha!r}")

    def solve(self, problem: NodeProblem, seed: int) -> Outcome:
        started = time.perf_counter()
        spread = problem.graph.normalised("symmetric").weights
        system = sp.eye_array(problem.n_nodes) - self.alpha * spread
        scores = solved(system, (1 - self.alpha) * one_hot(problem))
        return Outcome(with_prior(scores, problem), 0, time.perf_counter() - started)
