r"""The multilayer perceptron: features alone, no graph."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from condiff.graph.sparse import SparseMatrix, dropout
from condiff.reproduce.baselines.node.field import PerPart
from condiff.reproduce.baselines.node.method import HiddenLayerMethod, NodeNetwork
from condiff.reproduce.baselines.node.problem import NodeProblem


@dataclass(frozen=True)
class MLP(HiddenLayerMethod):
    r"""One hidden layer: :math:`\log\mathrm{softmax}(\mathrm{relu}(X W_1 + b_1)\,W_2 + b_2)`.

    It has no paper of its own. 64 hidden units as in Shchur et al. (2018), whose protocol this is; the rest as for the
    perceptron in Kipf and Welling (2017): dropout 0.5 before both layers, learning rate 0.01, weight decay 5e-4.
    """

    hidden: int = 64

    def network(self, problem: NodeProblem) -> NodeNetwork:
        return _Network(problem, self.hidden, self.dropout)


class _Network(NodeNetwork):
    def __init__(self, problem: NodeProblem, hidden: int, dropout: float) -> None:
        super().__init__()
        self.x, self.dropout = problem.x, dropout
        # A node's scores depend on its own features alone, so training need not look at the other nodes.
        self.parts = PerPart(lambda nodes: SparseMatrix.of(problem.features[nodes.numpy()]))
        self.first = nn.Parameter(nn.init.xavier_uniform_(torch.empty(problem.n_features, hidden)))
        self.first_bias = nn.Parameter(torch.zeros(hidden))
        self.second = nn.Parameter(nn.init.xavier_uniform_(torch.empty(hidden, problem.n_classes)))
        self.second_bias = nn.Parameter(torch.zeros(problem.n_classes))

    def forward(self) -> Tensor:
        return self._scores(self.x)

    def at(self, nodes: Tensor) -> Tensor:
        return self._scores(self.parts.of(nodes))

    def _scores(self, x: SparseMatrix) -> Tensor:
        hidden = torch.relu(x.dropped(self.dropout, self.training) @ self.first + self.first_bias)
        hidden = dropout(hidden, self.dropout, self.training)
        return torch.log_softmax(hidden @ self.second + self.second_bias, dim=-1)
