"""The Chebyshev graph convolutional recurrent unit (Seo, Defferrard, Vandergheynst and Bresson, ICONIP 2018)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from condiff.reproduce.baselines.method import check_counts
from condiff.reproduce.baselines.temporal.method import HiddenLayerMethod, TemporalNetwork
from condiff.reproduce.baselines.temporal.problem import Part, TemporalProblem
from condiff.reproduce.baselines.temporal.recurrent import Cell, Readout, first_state


@dataclass(frozen=True)
class GConvGRU(HiddenLayerMethod):
    r"""A gated recurrent unit whose products are Chebyshev convolutions of its input and of its state.

    .. math:: X \star \Theta = \sum_{k=0}^{K-1} T_k(-D^{-1/2} W^T D^{-1/2})\, X \Theta_k + b

    with the diagonal of W set to zero and D its row sums. The paper's settings: 16 hidden units, dropout 0.5, and
    K = 1, with which nothing is ever propagated: the method then sees no graph. ``filter_size`` 3 gives it one.

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
        terms = [x]
        for k in range(1, len(self.update.weights)):
            shifted = -(part.laplacian.weights.mT @ terms[-1])
            terms.append(shifted if k == 1 else 2 * shifted - terms[-2])
        return first_state(self.update(terms), self.candidate(terms))


class _Convolution(nn.Module):
    def __init__(self, lags: int, hidden: int, size: int) -> None:
        super().__init__()
        self.weights = nn.ParameterList(nn.init.xavier_uniform_(torch.empty(lags, hidden)) for _ in range(size))
        self.bias = nn.Parameter(torch.zeros(hidden))
        # Of the zero state's convolution nothing is left but its own bias, which doubles the steps of the sum.
        self.state_bias = nn.Parameter(torch.zeros(hidden))

    def forward(self, terms: list[Tensor]) -> Tensor:
        out = self.bias + self.state_bias
        for term, weight in zip(terms, self.weights, strict=True):
            out = out + term @ weight
        return out
