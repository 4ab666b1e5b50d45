r"""FAGCN: attention that may be negative, between low and high frequencies of the graph (Bo et al., AAAI 2021)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from condiff.graph.sparse import SparseMatrix, dropout
from condiff.reproduce.baselines.method import check_counts
from condiff.reproduce.baselines.node.method import HiddenLayerMethod, NodeNetwork
from condiff.reproduce.baselines.node.problem import NodeProblem
from condiff.training.settings import NODE, Training


@dataclass(frozen=True)
class FAGCN(HiddenLayerMethod):
    r"""Layers :math:`h_i \leftarrow \epsilon h^0_i + \sum_j \frac{\alpha_{ij}}{\sqrt{d_i d_j}} h_j`.

    :math:`\alpha_{ij} = \tanh(\langle a, h_i \rangle + \langle b, h_j \rangle)` over the neighbours, without loops,
    and :math:`h^0 = \mathrm{relu}(X W_1 + b_1)`; a linear layer follows. Settings of the paper for citation graphs:
    16 hidden units, four layers, :math:`\epsilon = 0.3`, dropout 0.6, learning rate 0.01, weight decay 1e-3.

    Parameters
    ----------
    layers
        How many.
    residual
        The factor :math:`\epsilon`.
    """

    training: Training = field(default=replace(NODE, weight_decay=1e-3))
    dropout: float = 0.6
    layers: int = 4
    residual: float = 0.3

    def __post_init__(self) -> None:
        super().__post_init__()
        check_counts(layers=self.layers)

    def network(self, problem: NodeProblem) -> NodeNetwork:
        return _Network(problem, self)


class _Network(NodeNetwork):
    def __init__(self, problem: NodeProblem, settings: FAGCN) -> None:
        super().__init__()
        self.settings, self.x = settings, problem.x
        self.walk = SparseMatrix.of(problem.graph.normalised("symmetric", self_loops="remove").weights)
        self.first = nn.Linear(problem.n_features, settings.hidden)
        self.last = nn.Linear(settings.hidden, problem.n_classes)
        self.gates = nn.ModuleList(nn.Linear(settings.hidden, 2) for _ in range(settings.layers))

    def forward(self) -> Tensor:
        probability, pattern = self.settings.dropout, self.walk.pattern
        inputs = self.x.dropped(probability, self.training)
        start = dropout(torch.relu(inputs @ self.first.weight.T + self.first.bias), probability, self.training)
        state = start
        for gate in self.gates:
            own, other = gate(state).unbind(-1)
            signs = torch.tanh(own.index_select(0, pattern.rows) + other.index_select(0, pattern.columns))
            weights = dropout(signs, probability, self.training) * self.walk.values
            state = self.settings.residual * start + self.walk.with_values(weights) @ state
        return torch.log_softmax(self.last(state), dim=-1)
