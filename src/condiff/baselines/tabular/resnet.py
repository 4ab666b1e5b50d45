"""The residual network above the gene-wise layer: COIN without its diffusion."""

from __future__ import annotations

from dataclasses import dataclass

from condiff.baselines.method import check_counts
from condiff.baselines.tabular.method import Outcome, TabularMethod
from condiff.baselines.tabular.networks import gene_network, solved
from condiff.baselines.tabular.problem import TabularProblem
from condiff.training import PROSTATE, Training


@dataclass(frozen=True)
class ResNet(TabularMethod):
    r"""One number a gene, then a residual block: :math:`\sigma(S h + s + W_2\,\mathrm{relu}(W_1 h + b_1) + b_2)`.

    The paper's settings; 73,840 parameters on the prostate data.

    Parameters
    ----------
    hidden
        Hidden units.
    training
        Optimiser and schedule.
    """

    hidden: int = 3
    training: Training = PROSTATE

    def __post_init__(self) -> None:
        check_counts(hidden=self.hidden)

    def solve(self, problem: TabularProblem, seed: int) -> Outcome:
        return solved(gene_network(problem, seed, hidden=self.hidden), problem, None, self.training)
