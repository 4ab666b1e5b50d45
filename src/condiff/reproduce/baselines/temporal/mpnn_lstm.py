"""MPNN-LSTM: graph convolutions, then two LSTMs (Panagopoulos, Nikolentzos and Vazirgiannis, AAAI 2021)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from condiff.reproduce.baselines.temporal.gcn import Convolution
from condiff.reproduce.baselines.temporal.method import HiddenLayerMethod, TemporalNetwork
from condiff.reproduce.baselines.temporal.problem import Part, TemporalProblem
from condiff.reproduce.baselines.temporal.recurrent import Cell, Readout

_MOMENTUM, _EPSILON = 0.1, 1e-5


@dataclass(frozen=True)
class MPNNLSTM(HiddenLayerMethod):
    r"""Two graph convolutions, each with ReLU, batch normalisation and dropout, side by side into two LSTMs.

    The read-out sees both LSTMs' states and the inputs. The paper's settings: 16 hidden units, dropout 0.5, and LSTMs
    of one step, since the eight lags are the features of one.

    Parameters
    ----------
    hidden
        Width of a convolution and of a state.
    dropout
        Probability with which a convolution's outputs are dropped in training.
    """

    def network(self, problem: TemporalProblem) -> TemporalNetwork:
        return Readout(_Cell(problem.lags, self.hidden, self.dropout), 2 * self.hidden + problem.lags, 0.0)


class _Cell(Cell):
    def __init__(self, lags: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList([Convolution(lags, hidden), Convolution(hidden, hidden)])
        self.normalisations = nn.ModuleList(_Normalisation(hidden) for _ in range(2))
        self.recurrent = nn.ModuleList([nn.LSTM(2 * hidden, hidden), nn.LSTM(hidden, hidden)])
        self.dropout = dropout

    def forward(self, x: Tensor, part: Part) -> Tensor:
        found, out = [], x
        for convolution, normalise in zip(self.convolutions, self.normalisations, strict=True):
            out = normalise(torch.relu(convolution(out, part.propagation)))
            out = nn.functional.dropout(out, self.dropout, self.training)
            found.append(out)
        sequence = torch.cat(found, dim=-1).flatten(0, 1)[None]  # one step of many series
        states = []
        for lstm in self.recurrent:
            sequence, _ = lstm(sequence)
            states.append(sequence[0].view(*x.shape[:2], -1))
        return torch.cat([*states, x], dim=-1)


class _Normalisation(nn.Module):
    """Batch normalisation over the regions of each snapshot, as if the snapshots came one after another."""

    mean: Tensor
    variance: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("variance", torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return self.scale * (x - self.mean) * (self.variance + _EPSILON).rsqrt() + self.shift
        variance, mean = torch.var_mean(x, dim=1, correction=0, keepdim=True)
        with torch.no_grad():
            unbiased = variance * (x.shape[1] / max(x.shape[1] - 1, 1))
            # What the running averages are after all snapshots, the first one's share having shrunk the most.
            shares = _MOMENTUM * (1 - _MOMENTUM) ** torch.arange(len(x) - 1, -1, -1)
            for running, seen in ((self.mean, mean), (self.variance, unbiased)):
                running.mul_((1 - _MOMENTUM) ** len(x)).add_(shares @ seen[:, 0])
        return self.scale * (x - mean) * (variance + _EPSILON).rsqrt() + self.shift
