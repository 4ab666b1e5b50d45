"""Our own strategies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from condiff.reproduce.baselines.labelling.method import Asking, AskingProblem, Codes
from condiff.uncertainty.suggestions import Situation, suggest


@dataclass(frozen=True)
class _Own(Asking):
    strategy: ClassVar[str]

    def choose(self, problem: AskingProblem, situation: Situation, n: int) -> Codes:
        return suggest(situation, n, self.strategy)


@dataclass(frozen=True)
class Change(_Own):
    """Where a label is expected to change the answers most."""

    strategy = "change"


@dataclass(frozen=True)
class Margin(_Own):
    """Where the two most probable classes are closest."""

    strategy = "margin"


@dataclass(frozen=True)
class Entropy(_Own):
    """Where probabilities are spread most."""

    strategy = "entropy"


@dataclass(frozen=True)
class Coverage(_Own):
    """Dense regions without a label."""

    strategy = "coverage"


@dataclass(frozen=True)
class Variance(_Own):
    """VarOpt."""

    strategy = "variance"


@dataclass(frozen=True)
class Sigma(_Own):
    """SigmaOpt."""

    strategy = "sigma"


@dataclass(frozen=True)
class Random(_Own):
    """Any nodes."""

    strategy = "random"
