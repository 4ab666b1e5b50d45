r"""Approximate personalised propagation of neural predictions (Klicpera et al., ICLR 2019)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from condiff.errors import InvalidInputError
from condiff.graph.sparse import dropout
from condiff.reproduce.baselines.method import check_counts, check_probabilities
from condiff.reproduce.baselines.node.method import HiddenLayerMethod, NodeNetwork
from condiff.reproduce.baselines.node.problem import NodeProblem
from condiff.training.settings import NODE, Training


@dataclass(frozen=True)
class APPNP(HiddenLayerMethod):
    r"""A perceptron whose outputs walk over the graph and return to their node with probability :math:`\alpha`.

    :math:`Z_0 = H = \mathrm{relu}(X W_1)\,W_2`, :math:`Z_{k+1} = (1-\alpha)\,S Z_k + \alpha H`, with
    :math:`S = D^{-1/2}(A + I)D^{-1/2}`; the output is :math:`\log\mathrm{softmax}(Z_K)`. As in the paper's section 5
    and its code: 64 hidden units without biases, ten steps, teleport 0.1, dropout 0.5 before both layers and, anew in
    each step, on the entries of :math:`S`; learning rate 0.01, weight decay 5e-3 on the first layer only.

    Parameters
    ----------
    hidden
        Hidden units.
    steps
        The number of propagation steps K.
    teleport
        The probability :math:`\alpha`.
    dropout
        Probability with which inputs of a layer are dropped in training.
    edge_dropout
        The same for entries of the propagation matrix.
    """

    training: Training = field(default=replace(NODE, weight_decay=5e-3))
    hidden: int = 64
    steps: int = 10
    teleport: float = 0.1
    edge_dropout: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        check_counts(steps=self.steps)
        check_probabilities(edge_dropout=self.edge_dropout)
        if not 0 < self.teleport <= 1:
            raise InvalidInputError(f"teleport must be above 0 and at most 1, not {self.teleport!r}")

    def network(self, problem: NodeProblem) -> NodeNetwork:
        return _Network(problem, self)


class _Network(NodeNetwork):
    def __init__(self, problem: NodeProblem, settings: APPNP) -> None:
        super().__init__()
        self.settings, self.x = settings, problem.x
        self.walk = problem.propagation.with_values((1 - settings.teleport) * problem.propagation.values)
        self.first = nn.Parameter(_uniform(problem.n_features, settings.hidden))
        self.second = nn.Parameter(_uniform(settings.hidden, problem.n_classes))

    def decayed(self) -> Iterable[nn.Parameter]:
        return (self.first,)

    def forward(self) -> Tensor:
        settings = self.settings
        hidden = torch.relu(self.x.dropped(settings.dropout, self.training) @ self.first)
        start = dropout(hidden, settings.dropout, self.training) @ self.second
        scores = start
        for _ in range(settings.steps):
            walk = self.walk.dropped(settings.edge_dropout, self.training)
            scores = torch.add(walk @ scores, start, alpha=settings.teleport)
        return torch.log_softmax(scores, dim=-1)


def _uniform(fan_in: int, fan_out: int) -> Tensor:
    bound = 1 / math.sqrt(fan_in)
    return torch.empty(fan_in, fan_out).uniform_(-bound, bound)
