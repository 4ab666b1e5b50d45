"""A3T-GCN: temporal graph convolutions under attention over the days (Bai et al., ISPRS IJGI 2021)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from condiff.reproduce.baselines.temporal.gcn import Convolution
from condiff.reproduce.baselines.temporal.method import HiddenLayerMethod, TemporalNetwork
from condiff.reproduce.baselines.temporal.problem import Part, TemporalProblem
from condiff.reproduce.baselines.temporal.recurrent import Cell, Readout, first_state


@dataclass(frozen=True)
class A3TGCN(HiddenLayerMethod):
    r"""A gated graph convolution of each day alone, summed with learned weights: :math:`\sum_t \alpha_t h_t`.

    .. math:: h_t = (1 - \sigma(z_t)) \tanh(c_t), \qquad z_t = (P x_t w_z^T + b_z) V_z + v_z

    likewise :math:`c_t`; :math:`\alpha` is the softmax of one learned number a day. The settings are the paper's: 16
    hidden units, dropout 0.5. As there, each day starts from the zero state, so that the order of the days counts in
    the attention only.

    Parameters
    ----------
    hidden
        Width of the state.
    dropout
        Probability with which inputs are dropped in training.
    """

    def network(self, problem: TemporalProblem) -> TemporalNetwork:
        return Readout(_Cell(problem.lags, self.hidden), self.hidden, self.dropout)


class _Cell(Cell):
    def __init__(self, lags: int, hidden: int) -> None:
        super().__init__()
        self.update, self.candidate = _Gate(hidden), _Gate(hidden)
        self.attention = nn.Parameter(torch.rand(lags))

    def forward(self, x: Tensor, part: Part) -> Tensor:
        # A day has one number a region, so its convolution is that number, averaged over the graph, times a vector.
        averaged = (part.propagation @ x)[..., None]
        states = first_state(self.update(averaged), self.candidate(averaged))
        return torch.softmax(self.attention, 0) @ states


class _Gate(nn.Module):
    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.convolution = Convolution(1, hidden)
        # Takes convolution and state side by side; the second half meets a zero state.
        self.linear = nn.Linear(2 * hidden, hidden)

    def forward(self, averaged: Tensor) -> Tensor:
        inputs = self.linear.weight[:, : self.linear.out_features]
        slope = self.convolution.weight @ inputs.T
        return averaged * slope + (self.convolution.bias @ inputs.T + self.linear.bias)
