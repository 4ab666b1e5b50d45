"""Networks that encode features, follow a differential equation on the graph, and decode its end."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from condiff.graph.sparse import dropout
from condiff.reproduce.baselines.method import check_counts, check_probabilities
from condiff.reproduce.baselines.node.grand import rescaled
from condiff.reproduce.baselines.node.method import NetworkMethod, NodeNetwork
from condiff.reproduce.baselines.node.ode import Solver
from condiff.reproduce.baselines.node.problem import NodeProblem


@dataclass(frozen=True)
class ContinuousMethod(NetworkMethod):
    """Settings of such a network.

    Parameters
    ----------
    hidden
        Width of the state.
    rescale
        Divide the features of each node by their largest, which turns row-normalised 0/1 features back into 0/1, as
        the settings of the authors expect them.
    input_dropout, dropout
        Probability with which features, and entries of the state, are dropped in training.
    deep_encoder
        Two residual layers after the linear encoder.
    time, solver, step
        The end of the integration, and how it is gone through.
    """

    hidden: int = 64
    rescale: bool = True
    input_dropout: float = 0.5
    dropout: float = 0.4
    deep_encoder: bool = False
    time: float = 1.0
    solver: Literal["rk4", "euler"] = "rk4"
    step: float = 0.5

    def __post_init__(self) -> None:
        check_counts(hidden=self.hidden)
        check_probabilities(input_dropout=self.input_dropout, dropout=self.dropout)


class ContinuousNetwork(NodeNetwork):
    """A subclass has the vector field, and what it keeps of the encoded start."""

    def __init__(self, problem: NodeProblem, settings: ContinuousMethod) -> None:
        super().__init__()
        self.x = rescaled(problem) if settings.rescale else problem.x
        self.input_dropout, self.dropout = settings.input_dropout, settings.dropout
        self.first = nn.Linear(problem.n_features, settings.hidden)
        self.last = nn.Linear(settings.hidden, problem.n_classes)
        layers = 2 * settings.deep_encoder
        self.deep = nn.ModuleList(nn.Linear(settings.hidden, settings.hidden) for _ in range(layers))
        self.solver = Solver(settings.solver, step=settings.step)
        self.time = settings.time

    @abstractmethod
    def begin(self, start: Tensor) -> None:
        """Work out what the vector field takes from the encoded start."""

    @abstractmethod
    def flow(self, state: Tensor) -> Tensor:
        """The vector field."""

    def decode(self, end: Tensor) -> Tensor:
        """Scores of the state at the end."""
        scores: Tensor = self.last(self._dropped(torch.relu(end)))
        return scores

    def forward(self) -> Tensor:
        start = self.x.dropped(self.input_dropout, self.training) @ self.first.weight.T + self.first.bias
        if self.deep:
            start = self._dropped(start)
        for layer in self.deep:
            start = self._dropped(start + layer(torch.relu(start)))
        self.begin(start)
        return torch.log_softmax(self.decode(self.solver(self.flow, start, self.time)), dim=-1)

    def _dropped(self, state: Tensor) -> Tensor:
        return dropout(state, self.dropout, self.training)
