"""COIN-resolvent under several settings, weighted by how likely each makes the validation labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from condiff.errors import InvalidInputError
from condiff.reproduce.baselines.beyond.resolvent import ResolventCOIN
from condiff.reproduce.baselines.beyond.shares import corrected
from condiff.reproduce.baselines.node.method import NodeMethod, Outcome
from condiff.reproduce.baselines.node.mixing import mixed
from condiff.reproduce.baselines.node.problem import NodeProblem


@dataclass(frozen=True)
class MixtureCOIN(NodeMethod):
    r"""Several settings of :class:`ResolventCOIN`, none of them chosen: their answers are mixed by :func:`mixed`.

    How far to diffuse and how strongly to penalise the base differ from graph to graph, and validation nodes are too
    few to pick one setting safely.

    Parameters
    ----------
    teleports
        Probabilities of stopping at each step of the diffusion.
    decays
        Weight decays of the linear base.
    shares
        Whether outputs are corrected for the classes' shares.
    """

    teleports: tuple[float, ...] = (0.1, 0.2)
    decays: tuple[float, ...] = (1e-4, 5e-4, 2e-3)
    shares: bool = True

    def __post_init__(self) -> None:
        if not self.teleports or not self.decays:
            raise InvalidInputError("teleports and decays must have a value each: there is nothing to mix without")

    def solve(self, problem: NodeProblem, seed: int) -> Outcome:
        single = ResolventCOIN(shares=False)
        outcomes = [
            replace(single, teleport=teleport, training=replace(single.training, weight_decay=decay)).solve(
                problem, seed
            )
            for teleport in self.teleports
            for decay in self.decays
        ]
        found = together(outcomes, problem)
        return replace(found, scores=corrected(found.scores, problem)) if self.shares else found


def together(outcomes: Sequence[Outcome], problem: NodeProblem) -> Outcome:
    """One outcome of several: their mixture, and what they cost in all."""
    scores = mixed([each.scores for each in outcomes], problem)
    return Outcome(scores, sum(each.epochs for each in outcomes), sum(each.seconds for each in outcomes))
