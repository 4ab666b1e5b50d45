r"""DIFFormer: a graph transformer from energy-constrained diffusion (Wu, Yang, Zhao, He, Wipf and Yan, ICLR 2023)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Self

import torch
from torch import Tensor, nn

from condiff import kernels
from condiff.errors import InvalidInputError
from condiff.graph.sparse import dropout
from condiff.reproduce.baselines.method import check_counts, check_probabilities
from condiff.reproduce.baselines.node.method import NetworkMethod, NodeNetwork
from condiff.reproduce.baselines.node.problem import NodeProblem
from condiff.reproduce.baselines.node.products import symmetric_product
from condiff.reproduce.runs import NO_CONDITION, Condition
from condiff.training.settings import NODE, Training

#: Layers and weight decay of the authors' script, except for Citeseer's decay. Theirs is 1, for a fixed number of
#: epochs; with early stopping half of the runs end before they have learned anything (validation accuracy 18 to 48).
_AUTHORS = {"cora": (8, 0.01), "citeseer": (4, 0.1), "pubmed": (8, 1e-4)}


@dataclass(frozen=True)
class Difformer(NetworkMethod):
    r"""Layers :math:`x \leftarrow \mathrm{norm}((1 - \alpha) x + \alpha (A(x) x + S x))` between two linear maps.

    The attention :math:`A_{ij}` between all nodes is proportional to :math:`1 + q_i^\top k_j`, its rows sum to one, and
    its cost is linear in the nodes. Queries and keys are linear in :math:`x` and divided by the norm of their whole
    matrix, which keeps the weights positive; the values are :math:`x` itself. :math:`S = D^{-1/2}(A + I)D^{-1/2}`.
    Settings of the authors' script for this attention, DIFFormer-s: 64 hidden units, one head, layer normalisation,
    :math:`\alpha` 0.5, dropout 0.2 after every layer, learning rate 0.001.

    Parameters
    ----------
    layers
        The number of layers of attention.
    hidden
        Hidden units.
    alpha
        The weight of a layer's update against what came in.
    dropout
        Probability with which outputs of a layer are dropped in training.
    """

    layers: int = 8
    hidden: int = 64
    alpha: float = 0.5
    dropout: float = 0.2
    training: Training = field(default=replace(NODE, learning_rate=0.001, weight_decay=0.01))

    def __post_init__(self) -> None:
        if not 0 <= self.alpha <= 1:
            raise InvalidInputError(f"Difformer's alpha must be from 0 to 1, not {self.alpha}")
        check_counts(layers=self.layers, hidden=self.hidden)
        check_probabilities(dropout=self.dropout)

    @classmethod
    def recommended(cls, dataset: str, condition: Condition = NO_CONDITION) -> Self:
        if dataset not in _AUTHORS:
            return cls()
        layers, decay = _AUTHORS[dataset]
        return cls(layers=layers, training=replace(NODE, learning_rate=0.001, weight_decay=decay))

    def network(self, problem: NodeProblem) -> NodeNetwork:
        kernels.warm_up(["product"])
        return _Network(problem, self)


class _Layer(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.key = nn.Linear(width, width)
        self.query = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        """The attention times the values."""
        # Every pair's weight is 1 + q.k, so that sums over all nodes can be taken before the queries are seen.
        query: Tensor = self.query(x)
        key: Tensor = self.key(x)
        query, key = query / query.norm(), key / key.norm()
        return (query @ (key.T @ x) + x.sum(0)) / ((query @ key.sum(0)).unsqueeze(1) + x.shape[0])


class _Network(NodeNetwork):
    def __init__(self, problem: NodeProblem, settings: Difformer) -> None:
        super().__init__()
        self.x, self.propagation, self.settings = problem.x, problem.propagation, settings
        self.first = nn.Linear(problem.n_features, settings.hidden)
        self.norm = nn.LayerNorm(settings.hidden)
        self.layers = nn.ModuleList(_Layer(settings.hidden) for _ in range(settings.layers))
        self.last = nn.Linear(settings.hidden, problem.n_classes)

    def forward(self) -> Tensor:
        alpha = self.settings.alpha
        x = torch.relu(self.norm(self.x @ self.first.weight.T + self.first.bias))
        x = dropout(x, self.settings.dropout, self.training)
        for layer in self.layers:
            assert isinstance(layer, _Layer)
            x = layer.norm(alpha * (layer(x) + symmetric_product(self.propagation, x)) + (1 - alpha) * x)
            x = dropout(x, self.settings.dropout, self.training)
        return torch.log_softmax(self.last(x), dim=-1)
