r"""GPR-GNN: generalised PageRank with learned weights of the hops (Chien et al., ICLR 2021)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from condiff.graph.sparse import dropout
from condiff.reproduce.baselines.method import check_counts
from condiff.reproduce.baselines.node.method import HiddenLayerMethod, NodeNetwork
from condiff.reproduce.baselines.node.problem import NodeProblem
from condiff.reproduce.baselines.node.products import symmetric_product


@dataclass(frozen=True)
class GPRGNN(HiddenLayerMethod):
    r"""A perceptron whose outputs are summed over hops: :math:`\sum_k \gamma_k S^k H` with learned :math:`\gamma`.

    :math:`H = \mathrm{relu}(X W_1 + b_1) W_2 + b_2`, :math:`S = D^{-1/2}(A + I)D^{-1/2}`. The weights may become
    negative, which suits graphs whose neighbours disagree, and start from PageRank. Settings of the paper for
    citation graphs: 64 hidden units, dropout 0.5, ten hops, learning rate 0.01, weight decay 5e-4 on the perceptron.

    Parameters
    ----------
    steps
        The number of hops.
    teleport
        Of the PageRank that the weights start from.
    """

    hidden: int = 64
    steps: int = 10
    teleport: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_counts(steps=self.steps)

    def network(self, problem: NodeProblem) -> NodeNetwork:
        return _Network(problem, self)


class _Network(NodeNetwork):
    def __init__(self, problem: NodeProblem, settings: GPRGNN) -> None:
        super().__init__()
        self.settings, self.x, self.walk = settings, problem.x, problem.propagation
        self.first = nn.Linear(problem.n_features, settings.hidden)
        self.second = nn.Linear(settings.hidden, problem.n_classes)
        start = settings.teleport * (1 - settings.teleport) ** torch.arange(settings.steps + 1.0)
        start[-1] /= settings.teleport
        self.hops = nn.Parameter(start)

    def decayed(self) -> list[nn.Parameter]:
        return [*self.first.parameters(), *self.second.parameters()]

    def forward(self) -> Tensor:
        probability = self.settings.dropout
        inputs = self.x.dropped(probability, self.training)
        hidden = dropout(torch.relu(inputs @ self.first.weight.T + self.first.bias), probability, self.training)
        walked = dropout(self.second(hidden), probability, self.training)
        scores = self.hops[0] * walked
        for weight in self.hops[1:]:
            walked = symmetric_product(self.walk, walked)
            scores = scores + weight * walked
        return torch.log_softmax(scores, dim=-1)
