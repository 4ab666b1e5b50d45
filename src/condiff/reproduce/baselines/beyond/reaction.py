"""COIN on hidden features: each is diffused or sharpened along the edges, whichever was learned."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from condiff.diffusion import SignedHops
from condiff.graph.sparse import dropout
from condiff.reproduce.baselines.method import check_counts
from condiff.reproduce.baselines.node.grand import rescaled
from condiff.reproduce.baselines.node.method import HiddenLayerMethod, NodeNetwork
from condiff.reproduce.baselines.node.problem import NodeProblem
from condiff.reproduce.baselines.node.products import symmetric_product


@dataclass(frozen=True)
class ReactionCOIN(HiddenLayerMethod):
    r"""Hidden features, each spread over hops with signs of its own, then the paper's residual block.

    :math:`h^0 = X W_1 + b_1`; :math:`h_c = \mathrm{relu}(\sum_k \theta_{kc} S^k h^0_c)` by
    :class:`~condiff.diffusion.SignedHops`, under its certificate; :math:`h + \mathrm{relu}(W_2 h + b_2)`, and a linear
    map to the classes. Hops that all count as positive are a diffusion; signs that alternate are a reaction against it,
    which tells a node from its neighbours. Features of a node are divided by their largest, as in GREAD. Width, dropout
    and training are those of the perceptron; hops and scaling were chosen on splits from 100 on of Chameleon, Cornell,
    Texas and Wisconsin, with a tenth of the labels.

    Parameters
    ----------
    hops
        How far along the edges.
    """

    hidden: int = 64
    hops: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        check_counts(hops=self.hops)

    def network(self, problem: NodeProblem) -> NodeNetwork:
        return _Network(problem, self)


class _Network(NodeNetwork):
    def __init__(self, problem: NodeProblem, settings: ReactionCOIN) -> None:
        super().__init__()
        self.x, self.walk, self.probability = rescaled(problem), problem.propagation, settings.dropout
        self.first = nn.Parameter(nn.init.xavier_uniform_(torch.empty(problem.n_features, settings.hidden)))
        self.first_bias = nn.Parameter(torch.zeros(settings.hidden))
        self.spread = SignedHops(settings.hidden, settings.hops)
        self.block = nn.Linear(settings.hidden, settings.hidden)
        self.last = nn.Linear(settings.hidden, problem.n_classes)

    def forward(self) -> Tensor:
        start = self.x.dropped(self.probability, self.training) @ self.first + self.first_bias
        hidden = self._dropped(torch.relu(self.spread(start, lambda u: symmetric_product(self.walk, u))))
        hidden = self._dropped(hidden + torch.relu(self.block(hidden)))
        return torch.log_softmax(self.last(hidden), dim=-1)

    def _dropped(self, hidden: Tensor) -> Tensor:
        return dropout(hidden, self.probability, self.training)
