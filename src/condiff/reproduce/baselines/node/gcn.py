r"""The graph convolutional network (Kipf and Welling, ICLR 2017)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from condiff.graph.sparse import dropout
from condiff.reproduce.baselines.node.field import Field, FieldNetwork
from condiff.reproduce.baselines.node.method import HiddenLayerMethod, NodeNetwork
from condiff.reproduce.baselines.node.problem import NodeProblem


@dataclass(frozen=True)
class GCN(HiddenLayerMethod):
    r"""Two graph convolutions: :math:`\log\mathrm{softmax}(S\,\mathrm{relu}(S X W_1)\,W_2)`.

    :math:`S = D^{-1/2}(A + I)D^{-1/2}`. The paper's section 5.2 and its code: 16 hidden units, dropout 0.5 before both
    layers, no biases, learning rate 0.01, weight decay 5e-4 on the first layer only.
    """

    def network(self, problem: NodeProblem) -> NodeNetwork:
        return _Network(problem, self)


class _Network(FieldNetwork):
    def __init__(self, problem: NodeProblem, settings: GCN) -> None:
        super().__init__(problem, problem.graph.normalised("symmetric", self_loops="add").weights)
        self.settings = settings
        self.first = nn.Parameter(nn.init.xavier_uniform_(torch.empty(problem.n_features, settings.hidden)))
        self.second = nn.Parameter(nn.init.xavier_uniform_(torch.empty(settings.hidden, problem.n_classes)))

    def decayed(self) -> Iterable[nn.Parameter]:
        return (self.first,)

    def scores(self, field: Field) -> Tensor:
        probability, (inner, outer) = self.settings.dropout, field.steps
        inputs = field.x.dropped(probability, self.training)
        hidden = torch.relu(inner.matrix @ (inputs @ self.first))
        hidden = dropout(hidden, probability, self.training)
        return torch.log_softmax(outer.matrix @ (hidden @ self.second), dim=-1)
