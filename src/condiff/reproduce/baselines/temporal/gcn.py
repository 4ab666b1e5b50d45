"""The graph convolutional network (Kipf and Welling, ICLR 2017), on the lags."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from condiff.errors import InvalidInputError
from condiff.reproduce.baselines.temporal.method import HiddenLayerMethod, TemporalNetwork
from condiff.reproduce.baselines.temporal.problem import Part, TemporalProblem


@dataclass(frozen=True)
class GCN(HiddenLayerMethod):
    r"""Two graph convolutions: :math:`P\,\mathrm{elu}(P X W_1 + b_1)\,W_2 + b_2`, :math:`P = D^{-1/2} W^T D^{-1/2}`.

    The paper's settings: 16 hidden units, dropout 0.5 before both layers. Its authors' network keeps the first graph
    that it sees for all snapshots, the ones to be tested too; ``graph="own"`` gives each snapshot its own.

    Parameters
    ----------
    hidden
        Hidden units.
    dropout
        Probability with which inputs of a layer are dropped in training.
    graph
        ``first``: that of the first training snapshot serves all; ``own``: each snapshot has its own.
    """

    graph: Literal["first", "own"] = "first"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.graph not in ("first", "own"):
            raise InvalidInputError(f"graph must be 'first' or 'own', not {self.graph!r}")

    def network(self, problem: TemporalProblem) -> TemporalNetwork:
        return _Network(self, problem)


class Convolution(nn.Module):
    """``P X W + b``, initialised as Kipf and Welling do."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(inputs, outputs)))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x: Tensor, propagation: Tensor) -> Tensor:
        """Map (snapshots, regions, inputs) to (snapshots, regions, outputs)."""
        return propagation @ (x @ self.weight) + self.bias


class _Network(TemporalNetwork):
    def __init__(self, settings: GCN, problem: TemporalProblem) -> None:
        super().__init__()
        self.inner, self.outer = Convolution(problem.lags, settings.hidden), Convolution(settings.hidden, 1)
        self.dropout = settings.dropout
        self.first = problem.training.propagation[0] if settings.graph == "first" else None

    def forward(self, part: Part) -> Tensor:
        propagation = part.propagation if self.first is None else self.first
        x = nn.functional.dropout(part.x, self.dropout, self.training)
        hidden = nn.functional.elu(self.inner(x, propagation))
        out: Tensor = self.outer(nn.functional.dropout(hidden, self.dropout, self.training), propagation)
        return out[..., 0]
