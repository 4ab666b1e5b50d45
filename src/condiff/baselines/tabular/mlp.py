"""The multilayer perceptron above the gene-wise layer."""

from __future__ import annotations

from dataclasses import dataclass

from condiff.baselines.method import check_counts
from condiff.baselines.tabular.method import Outcome, TabularMethod
from condiff.baselines.tabular.networks import gene_network, solved
from condiff.baselines.tabular.problem import TabularProblem
from condiff.training import PROSTATE, Training


@dataclass(frozen=True)
class MLP(TabularMethod):
    r"""One number a gene, then a hidden layer: :math:`\sigma(W_2\,\mathrm{relu}(W_1 h + b_1) + b_2)`.

    The paper's settings; 64,610 parameters on the prostate data.

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
        network = gene_network(problem, seed, hidden=self.hidden, shortcut=False)
        return solved(network, problem, None, self.training)
