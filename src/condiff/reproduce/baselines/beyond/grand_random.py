r"""GRAND, the graph random neural network: random propagation and consistency (Feng et al., NeurIPS 2020)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from condiff.graph.sparse import dropout
from condiff.reproduce.baselines.method import check_counts, check_probabilities
from condiff.reproduce.baselines.node.method import HiddenLayerMethod, NodeNetwork
from condiff.reproduce.baselines.node.problem import NodeProblem
from condiff.reproduce.baselines.node.products import symmetric_product
from condiff.reproduce.runs import NO_CONDITION, Condition


@dataclass(frozen=True)
class GRANDRandom(HiddenLayerMethod):
    r"""A perceptron on features that were propagated from a random half of the nodes, several times over.

    :math:`\bar X = \frac{1}{K+1} \sum_{k \le K} S^k (\delta X)`, where :math:`\delta` drops nodes. The loss adds to
    that of labels how far the answers to ``samples`` draws are from their sharpened mean. The first layer is applied
    before the propagation, with which it commutes: few columns are propagated in place of thousands. For that, entries
    of the features are dropped before the propagation too, and not after it. Settings of the authors' repository for
    each graph; the stopping rule is this protocol's. On Pubmed the authors normalise batches, which is not done here,
    and without it the method fails there.

    Parameters
    ----------
    steps
        The order K.
    node_dropout, input_dropout
        Probabilities of dropping a node, and an entry of the features.
    samples, temperature, consistency
        Draws in an epoch, the power of the sharpening is the temperature's inverse, and the weight of the term.
    """

    hidden: int = 32
    steps: int = 8
    node_dropout: float = 0.5
    input_dropout: float = 0.5
    samples: int = 4
    temperature: float = 0.5
    consistency: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_counts(steps=self.steps, samples=self.samples)
        check_probabilities(node_dropout=self.node_dropout, input_dropout=self.input_dropout)

    @classmethod
    def recommended(cls, dataset: str, condition: Condition = NO_CONDITION) -> GRANDRandom:
        if dataset == "citeseer":
            return cls(dropout=0.2, steps=2, input_dropout=0.0, samples=2, temperature=0.3, consistency=0.7)
        if dataset == "pubmed":
            made = cls(dropout=0.8, steps=5, input_dropout=0.6, temperature=0.2)
            # The authors' 0.2 goes with batch normalisation, without which it diverges.
            return replace(made, training=replace(made.training, learning_rate=0.05))
        return cls()

    def network(self, problem: NodeProblem) -> NodeNetwork:
        return _Network(problem, self)


class _Network(NodeNetwork):
    def __init__(self, problem: NodeProblem, settings: GRANDRandom) -> None:
        super().__init__()
        self.settings, self.x, self.walk = settings, problem.x, problem.propagation
        self.first = nn.Parameter(nn.init.xavier_uniform_(torch.empty(problem.n_features, settings.hidden)))
        self.bias = nn.Parameter(torch.zeros(settings.hidden))
        self.second = nn.Linear(settings.hidden, problem.n_classes)
        self.drawn: Tensor | None = None

    def forward(self) -> Tensor:
        return self._scores(1)[:, 0]

    def at(self, nodes: Tensor) -> Tensor:
        if not self.training:
            return self()[nodes]  # type: ignore[no-any-return]
        self.drawn = self._scores(self.settings.samples)
        return self.drawn[nodes].mean(1)  # the mean over draws of each one's loss

    def penalty(self) -> Tensor | float:
        if self.drawn is None:
            return 0.0
        u = self.drawn.exp()
        sharp = u.detach().mean(1, keepdim=True) ** (1 / self.settings.temperature)
        sharp = sharp / sharp.sum(-1, keepdim=True)
        return self.settings.consistency * (u - sharp).square().sum(-1).mean()

    def _scores(self, samples: int) -> Tensor:
        settings, n = self.settings, self.x.shape[0]
        hidden = self.x.dropped(settings.input_dropout, self.training) @ self.first
        kept = dropout(torch.ones(n, samples), settings.node_dropout, self.training)
        walked = (hidden[:, None] * kept[..., None]).flatten(1)
        total = walked
        for _ in range(settings.steps):
            walked = symmetric_product(self.walk, walked)
            total = total + walked
        mean = (total / (settings.steps + 1)).unflatten(1, (samples, -1))
        active = dropout(torch.relu(mean + self.bias), settings.dropout, self.training)
        return torch.log_softmax(self.second(active), dim=-1)
