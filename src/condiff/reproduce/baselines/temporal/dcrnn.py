"""The diffusion convolutional recurrent network (Li, Yu, Shahabi and Liu, ICLR 2018)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from condiff.reproduce.baselines.method import check_counts
from condiff.reproduce.baselines.temporal.method import HiddenLayerMethod, TemporalNetwork
from condiff.reproduce.baselines.temporal.problem import Part, TemporalProblem
from condiff.reproduce.baselines.temporal.recurrent import Cell, Readout, first_state


@dataclass(frozen=True)
class DCRNN(HiddenLayerMethod):
    r"""A gated recurrent unit whose products are diffusion convolutions along and against the edges.

    .. math:: X \star \Theta = \sum_{k=0}^{K-1} (D_O^{-1} W)^k X \Theta_{1k} + (D_I^{-1} W^T)^k X \Theta_{2k} + b

    The paper's settings: 16 hidden units, dropout 0.5, and K = 1, with which nothing is ever propagated: the method
    then sees no graph. ``filter_size`` 2 or 3, as in its own paper, gives it one.

    Parameters
    ----------
    hidden
        Width of the state.
    dropout
        Probability with which inputs are dropped in training.
    filter_size
        K, the terms of a convolution.
    """

    filter_size: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_counts(filter_size=self.filter_size)

    def network(self, problem: TemporalProblem) -> TemporalNetwork:
        return Readout(_Cell(problem.lags, self.hidden, self.filter_size), self.hidden, self.dropout)


class _Cell(Cell):
    def __init__(self, lags: int, hidden: int, size: int) -> None:
        super().__init__()
        self.update, self.candidate = (_Convolution(lags, hidden, size) for _ in range(2))

    def forward(self, x: Tensor, part: Part) -> Tensor:
        forwards = backwards = x
        terms = [(x, x)]
        for _ in range(1, len(self.update.weight[0])):
            forwards, backwards = part.walks[0] @ forwards, part.walks[1] @ backwards
            terms.append((forwards, backwards))
        return first_state(self.update(terms), self.candidate(terms))


class _Convolution(nn.Module):
    def __init__(self, lags: int, hidden: int, size: int) -> None:
        super().__init__()
        # The bounds are those of weights for inputs and state together. The state is zero: its weights are left out.
        weight = nn.init.xavier_uniform_(torch.empty(2, size, lags + hidden, hidden))
        self.weight = nn.Parameter(weight[:, :, :lags].clone())
        self.bias = nn.Parameter(torch.zeros(hidden))

    def forward(self, terms: list[tuple[Tensor, Tensor]]) -> Tensor:
        out = self.bias
        for (forwards, backwards), along, against in zip(terms, *self.weight, strict=True):
            out = out + forwards @ along + backwards @ against
        return out
