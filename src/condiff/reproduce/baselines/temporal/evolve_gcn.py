"""EvolveGCN-H: a graph convolution whose weight is a recurrent state (Pareja et al., AAAI 2020)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from condiff.errors import InvalidInputError
from condiff.reproduce.baselines.method import check_probabilities
from condiff.reproduce.baselines.temporal.method import NetworkMethod, TemporalNetwork
from condiff.reproduce.baselines.temporal.problem import Part, TemporalProblem
from condiff.reproduce.baselines.temporal.recurrent import Cell, Readout


@dataclass(frozen=True)
class EvolveGCN(NetworkMethod):
    r"""A convolution :math:`P X W` whose square weight W is the state of a gated recurrent unit.

    The unit's input are the :math:`d` regions of the highest scores :math:`s = X p / |p|`, times :math:`\tanh(s)`, with
    d the number of lags; its state before the step is the weight. The paper's settings: dropout 0.5. As its authors run
    it, every snapshot starts from the same first weight, which stays as it was drawn; ``learned_weight`` trains it.

    Parameters
    ----------
    dropout
        Probability with which inputs are dropped in training.
    learned_weight
        Whether the first weight is trained.
    """

    dropout: float = 0.5
    learned_weight: bool = False

    def __post_init__(self) -> None:
        check_probabilities(dropout=self.dropout)

    def network(self, problem: TemporalProblem) -> TemporalNetwork:
        if problem.n_regions < problem.lags:
            raise InvalidInputError(
                f"EvolveGCN needs at least as many regions as lags, {problem.lags}, but there are {problem.n_regions}"
            )
        return Readout(_Cell(problem.lags, learned=self.learned_weight), problem.lags, self.dropout)


class _Cell(Cell):
    def __init__(self, lags: int, *, learned: bool) -> None:
        super().__init__()
        bound = lags**-0.5
        self.direction = nn.Parameter(torch.empty(lags).uniform_(-bound, bound))
        self.unit = nn.GRU(lags, lags)
        self.weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(lags, lags)), requires_grad=learned)

    def forward(self, x: Tensor, part: Part) -> Tensor:
        snapshots, _, lags = x.shape
        scores = x @ (self.direction / self.direction.norm())
        highest, regions = scores.topk(lags, dim=1)
        chosen = x.gather(1, regions[..., None].expand(-1, -1, lags)) * torch.tanh(highest)[..., None]
        # A row of the weight is the state of one series of the unit.
        state = self.weight.expand(snapshots, -1, -1).reshape(1, -1, lags)
        _, weight = self.unit(chosen.view(1, -1, lags), state.contiguous())
        out: Tensor = part.propagation @ (x @ weight.view(snapshots, lags, lags))
        return out
