"""The diffusion convolutional recurrent network (Li, Yu, Shahabi and Liu, ICLR 2018)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from condiff.reproduce.baselines.temporal.problem import Part
from condiff.reproduce.baselines.temporal.recurrent import Cell, ConvolutionalMethod, GatedCell


@dataclass(frozen=True)
class DCRNN(ConvolutionalMethod):
    r"""A gated recurrent unit whose products are diffusion convolutions along and against the edges.

    .. math:: X \star \Theta = \sum_{k=0}^{K-1} (D_O^{-1} W)^k X \Theta_{1k} + (D_I^{-1} W^T)^k X \Theta_{2k} + b

    The paper's settings: 16 hidden units, dropout 0.5, and K = 1, with which nothing is ever propagated: the method
    then sees no graph. ``filter_size`` 2 or 3, as in its own paper, gives it one.
    """

    def cell(self, lags: int) -> Cell:
        return _Cell(_Convolution, lags, self.hidden, self.filter_size)


class _Cell(GatedCell):
    def terms(self, x: Tensor, part: Part) -> list[tuple[Tensor, Tensor]]:
        forwards = backwards = x
        terms = [(x, x)]
        for _ in range(1, self.size):
            forwards, backwards = part.walks[0] @ forwards, part.walks[1] @ backwards
            terms.append((forwards, backwards))
        return terms


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
