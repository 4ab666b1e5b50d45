"""The Chebyshev graph convolutional recurrent unit (Seo, Defferrard, Vandergheynst and Bresson, ICONIP 2018)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from condiff.reproduce.baselines.temporal.problem import Part
from condiff.reproduce.baselines.temporal.recurrent import Cell, ConvolutionalMethod, GatedCell


@dataclass(frozen=True)
class GConvGRU(ConvolutionalMethod):
    r"""A gated recurrent unit whose products are Chebyshev convolutions of its input and of its state.

    .. math:: X \star \Theta = \sum_{k=0}^{K-1} T_k(-D^{-1/2} W^T D^{-1/2})\, X \Theta_k + b

    with the diagonal of W set to zero and D its row sums. The paper's settings: 16 hidden units, dropout 0.5, and
    K = 1, with which nothing is ever propagated: the method then sees no graph. ``filter_size`` 3 gives it one.
    """

    def cell(self, lags: int) -> Cell:
        return _Cell(_Convolution, lags, self.hidden, self.filter_size)


class _Cell(GatedCell):
    def terms(self, x: Tensor, part: Part) -> list[Tensor]:
        terms = [x]
        for k in range(1, self.size):
            shifted = -(part.laplacian.weights.mT @ terms[-1])
            terms.append(shifted if k == 1 else 2 * shifted - terms[-2])
        return terms


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
