"""The multilayer perceptron: a region's own lags, no graph."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from condiff.reproduce.baselines.temporal.method import HiddenLayerMethod, TemporalNetwork
from condiff.reproduce.baselines.temporal.problem import Part, TemporalProblem


@dataclass(frozen=True)
class MLP(HiddenLayerMethod):
    r"""One hidden layer: :math:`\mathrm{elu}(x W_1 + b_1)\,W_2 + b_2`.

    The paper's settings: 16 hidden units, dropout 0.5 before both layers.

    Parameters
    ----------
    hidden
        Hidden units.
    dropout
        Probability with which inputs of a layer are dropped in training.
    """

    def network(self, problem: TemporalProblem) -> TemporalNetwork:
        return _Network(problem.lags, self.hidden, self.dropout)


class _Network(TemporalNetwork):
    def __init__(self, lags: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(lags, hidden), nn.Linear(hidden, 1)
        self.dropout = dropout

    def forward(self, part: Part) -> Tensor:
        x = nn.functional.dropout(part.x, self.dropout, self.training)
        hidden = nn.functional.elu(self.inner(x))
        out: Tensor = self.outer(nn.functional.dropout(hidden, self.dropout, self.training))
        return out[..., 0]
