r"""GCNII: deep graph convolutions with an initial residual and identity mapping (Chen et al., ICML 2020)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from condiff import kernels
from condiff.graph.sparse import dropout
from condiff.reproduce.baselines.method import check_counts
from condiff.reproduce.baselines.node.method import HiddenLayerMethod, NodeNetwork
from condiff.reproduce.baselines.node.problem import NodeProblem
from condiff.reproduce.baselines.node.products import symmetric_product
from condiff.reproduce.runs import NO_CONDITION, Condition
from condiff.training.settings import NODE, Training


@dataclass(frozen=True)
class GCNII(HiddenLayerMethod):
    r"""Layers :math:`h \leftarrow \mathrm{relu}(((1-\alpha) S h + \alpha h^0)((1-\beta_l) I + \beta_l W_l))`.

    :math:`\beta_l = \log(\lambda / l + 1)`, :math:`h^0 = \mathrm{relu}(X W + b)`, dropout before every layer.
    Settings of the paper's table: 64 layers of 64 units on Cora, 32 and 16 of 256 on Citeseer and Pubmed. It decays
    the weights of the convolutions by 0.01 and the others by 5e-4; here only the convolutions are decayed.

    Parameters
    ----------
    layers
        How many convolutions.
    alpha
        The weight of the initial residual.
    lamda
        The strength :math:`\lambda` of the layers' own weights.
    """

    training: Training = field(default=replace(NODE, weight_decay=0.01))
    hidden: int = 64
    dropout: float = 0.6
    layers: int = 64
    alpha: float = 0.1
    lamda: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        check_counts(layers=self.layers)

    @classmethod
    def recommended(cls, dataset: str, condition: Condition = NO_CONDITION) -> GCNII:
        if dataset == "citeseer":
            return cls(hidden=256, dropout=0.7, layers=32, lamda=0.6)
        if dataset == "pubmed":
            return cls(replace(NODE, weight_decay=5e-4), hidden=256, dropout=0.5, layers=16, lamda=0.4)
        return cls()

    def network(self, problem: NodeProblem) -> NodeNetwork:
        kernels.warm_up(["product"])
        return _Network(problem, self)


class _Network(NodeNetwork):
    def __init__(self, problem: NodeProblem, settings: GCNII) -> None:
        super().__init__()
        self.settings, self.x, self.walk = settings, problem.x, problem.propagation
        self.first = nn.Linear(problem.n_features, settings.hidden)
        self.last = nn.Linear(settings.hidden, problem.n_classes)
        bound, shape = 1 / math.sqrt(settings.hidden), (settings.layers, settings.hidden, settings.hidden)
        self.weights = nn.Parameter(torch.empty(shape).uniform_(-bound, bound))

    def decayed(self) -> list[nn.Parameter]:
        return [self.weights]

    def forward(self) -> Tensor:
        settings = self.settings
        inputs = self.x.dropped(settings.dropout, self.training)
        start = torch.relu(inputs @ self.first.weight.T + self.first.bias)
        state = start
        for layer, weight in enumerate(self.weights, 1):
            state = symmetric_product(self.walk, dropout(state, settings.dropout, self.training))
            state = (1 - settings.alpha) * state + settings.alpha * start
            beta = math.log(settings.lamda / layer + 1)
            state = torch.relu((1 - beta) * state + beta * (state @ weight))
        return torch.log_softmax(self.last(dropout(state, settings.dropout, self.training)), dim=-1)
