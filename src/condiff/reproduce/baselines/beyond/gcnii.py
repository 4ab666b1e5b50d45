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
    Settings of the paper's table: 64 layers of 64 units on Cora, 32 and 16 of 256 on Citeseer and Pubmed; the
    convolutions' weights are decayed by 0.01, the others by 5e-4.

    Parameters
    ----------
    outer_decay
        Weight decay of the first and the last layer; that of ``training`` is the convolutions'.
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
    outer_decay: float = 5e-4

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

    def penalty(self) -> Tensor:
        outer = (*self.first.parameters(), *self.last.parameters())
        return 0.5 * self.settings.outer_decay * torch.stack([each.square().sum() for each in outer]).sum()

    def forward(self) -> Tensor:
        settings = self.settings
        inputs = self.x.dropped(settings.dropout, self.training)
        state = torch.relu(inputs @ self.first.weight.T + self.first.bias)
        kept = settings.alpha * state
        # The identity is added to the weights, which are far smaller than the state.
        betas = torch.log1p(settings.lamda / torch.arange(1, settings.layers + 1))[:, None, None]
        for matrix in (1 - betas) * torch.eye(settings.hidden) + betas * self.weights:
            walked = symmetric_product(self.walk, dropout(state, settings.dropout, self.training))
            state = torch.relu(torch.add(kept, walked, alpha=1 - settings.alpha) @ matrix)
        return torch.log_softmax(self.last(dropout(state, settings.dropout, self.training)), dim=-1)
