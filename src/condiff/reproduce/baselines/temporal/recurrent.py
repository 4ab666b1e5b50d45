"""The frame that the recurrent methods share: dropout, a cell, ELU and a linear read-out.

As the paper's authors run them, a snapshot with its eight lags is one step of the cell, and no state is carried from a
snapshot to the next: it starts from zero in each. So a gated cell comes down to :func:`first_state`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from condiff.reproduce.baselines.method import check_counts
from condiff.reproduce.baselines.temporal.method import HiddenLayerMethod, TemporalNetwork
from condiff.reproduce.baselines.temporal.problem import Part, TemporalProblem


class Cell(nn.Module, ABC):
    """One step of a recurrent cell from the zero state, for all snapshots at once."""

    @abstractmethod
    def forward(self, x: Tensor, part: Part) -> Tensor:
        """Map inputs of shape (snapshots, regions, lags) over the part's graphs to states of the cell's width."""


class GatedCell(Cell):
    """A gated unit whose products are convolutions over the graph.

    Parameters
    ----------
    convolution
        Builds one for ``lags`` inputs, ``hidden`` outputs and a sum of ``size`` terms.
    """

    def __init__(self, convolution: Callable[[int, int, int], nn.Module], lags: int, hidden: int, size: int) -> None:
        super().__init__()
        self.size = size
        self.update, self.candidate = (convolution(lags, hidden, size) for _ in range(2))

    @abstractmethod
    def terms(self, x: Tensor, part: Part) -> list[Any]:
        """What a convolution weighs and adds up: inputs that were propagated 0, 1, 2, ... times."""

    def forward(self, x: Tensor, part: Part) -> Tensor:
        terms = self.terms(x, part)
        return first_state(self.update(terms), self.candidate(terms))


class Readout(TemporalNetwork):
    r"""Forecasts :math:`w^T \mathrm{elu}(\mathrm{cell}(\mathrm{dropout}(x))) + b`.

    Parameters
    ----------
    cell
        What makes a state of a snapshot's inputs and graph.
    width
        Of the state.
    dropout
        Probability with which inputs are dropped in training.
    """

    def __init__(self, cell: Cell, width: int, dropout: float) -> None:
        super().__init__()
        self.cell = cell
        self.linear = nn.Linear(width, 1)
        self.dropout = dropout

    def forward(self, part: Part) -> Tensor:
        x = nn.functional.dropout(part.x, self.dropout, self.training)
        out: Tensor = self.linear(nn.functional.elu(self.cell(x, part)))
        return out[..., 0]


@dataclass(frozen=True)
class ConvolutionalMethod(HiddenLayerMethod):
    """A gated recurrent unit with convolutions over the graph.

    Parameters
    ----------
    filter_size
        K, the terms of a convolution.
    """

    filter_size: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_counts(filter_size=self.filter_size)

    @abstractmethod
    def cell(self, lags: int) -> Cell:
        """A freshly initialised cell."""

    def network(self, problem: TemporalProblem) -> TemporalNetwork:
        return Readout(self.cell(problem.lags), self.hidden, self.dropout)


def first_state(update: Tensor, candidate: Tensor) -> Tensor:
    r"""The state of a gated unit after its first step, :math:`(1 - \sigma(z)) \tanh(c)`.

    In general it is :math:`\sigma(z) h + (1 - \sigma(z)) \tanh(c)`, but the state h before the first step is zero; the
    reset gate only scales that state, so there is none.
    """
    return torch.sigmoid(-update) * torch.tanh(candidate)
