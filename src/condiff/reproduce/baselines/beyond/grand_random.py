r"""GRAND, the graph random neural network: random propagation and consistency (Feng et al., NeurIPS 2020)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from condiff import kernels
from condiff.graph.sparse import dropout
from condiff.reproduce.baselines.method import check_counts, check_probabilities
from condiff.reproduce.baselines.node.method import HiddenLayerMethod, NodeNetwork
from condiff.reproduce.baselines.node.problem import NodeProblem
from condiff.reproduce.baselines.node.products import WIDTH, symmetric_product
from condiff.reproduce.runs import NO_CONDITION, Condition

# Of batch normalisation: what is added to variances, and the share of the latest batch in the running moments.
_TINY, _MOMENTUM = 1e-5, 0.1


@dataclass(frozen=True)
class GRANDRandom(HiddenLayerMethod):
    r"""A perceptron on features that were propagated from a random half of the nodes, several times over.

    :math:`\bar X = \frac{1}{K+1} \sum_{k \le K} S^k (\delta X)`, where :math:`\delta` drops nodes. The loss adds to
    that of labels how far the answers to ``samples`` draws are from their sharpened mean. Without normalisation, the
    first layer is applied before the propagation, with which it commutes: few columns are propagated in place of
    thousands. For that, entries of the features are dropped before the propagation too, and not after it. Settings of
    the authors' repository for each graph; the stopping rule is this protocol's.

    Parameters
    ----------
    steps
        The order K.
    node_dropout, input_dropout
        Probabilities of dropping a node, and an entry of the features.
    samples, temperature, consistency
        Draws in an epoch, the power of the sharpening is the temperature's inverse, and the weight of the term.
    normalise
        Batch normalisation of each draw's propagated features, and of its hidden units.
    """

    hidden: int = 32
    steps: int = 8
    node_dropout: float = 0.5
    input_dropout: float = 0.5
    samples: int = 4
    temperature: float = 0.5
    consistency: float = 1.0
    normalise: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_counts(steps=self.steps, samples=self.samples)
        check_probabilities(node_dropout=self.node_dropout, input_dropout=self.input_dropout)

    @classmethod
    def recommended(cls, dataset: str, condition: Condition = NO_CONDITION) -> GRANDRandom:
        if dataset == "citeseer":
            return cls(dropout=0.2, steps=2, input_dropout=0.0, samples=2, temperature=0.3, consistency=0.7)
        if dataset == "pubmed":
            made = cls(dropout=0.8, steps=5, input_dropout=0.6, temperature=0.2, normalise=True)
            return replace(made, training=replace(made.training, learning_rate=0.2))
        return cls()

    def network(self, problem: NodeProblem) -> NodeNetwork:
        if not self.normalise:
            return _Network(problem, self)
        kernels.warm_up(["product"])
        return _NormalisedNetwork(problem, self)


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


class _NormalisedNetwork(_Network):
    """What comes before the first layer is not linear: whole features are propagated, some columns at a time.

    They need no gradient, and neither do their means and variances: of the batch normalisation, gain and shift go into
    the first layer's weights.
    """

    mean: Tensor
    variance: Tensor

    def __init__(self, problem: NodeProblem, settings: GRANDRandom) -> None:
        super().__init__(problem, settings)
        self.blocks = [block.contiguous() for block in problem.x_dense.split(WIDTH, dim=1)]
        everything = torch.ones(problem.n_nodes)
        self.undropped = torch.cat([self._walked(block, everything) for block in self.blocks], dim=1)
        self.gain = nn.Parameter(torch.ones(problem.n_features))
        self.shift = nn.Parameter(torch.zeros(problem.n_features))
        self.register_buffer("mean", torch.zeros(problem.n_features))
        self.register_buffer("variance", torch.ones(problem.n_features))
        self.hidden = nn.BatchNorm1d(settings.hidden, _TINY, _MOMENTUM)

    def _scores(self, samples: int) -> Tensor:
        if not self.training:
            factors = self.gain / (self.variance + _TINY).sqrt()
            shift = (self.shift - factors * self.mean) @ self.first
            return self._answers(self.undropped @ (factors[:, None] * self.first) + shift)[:, None]
        gained, shifted = self.gain[:, None] * self.first, self.shift[:, None] * self.first
        draws = dropout(torch.ones(samples, self.x.shape[0]), self.settings.node_dropout)
        inputs = [self._drawn(kept) for kept in draws]
        return torch.stack([self._answers(normal @ gained + mask @ shifted) for normal, mask in inputs], dim=1)

    def _drawn(self, kept: Tensor) -> tuple[Tensor, Tensor]:
        """The normalised features of a draw of the nodes, and the factors of dropout; both after dropout."""
        normals, masks, moments = [], [], []
        for block in self.blocks:
            walked = self._walked(block, kept)
            variance, mean = torch.var_mean(walked, dim=0, correction=0)
            mask = dropout(torch.ones_like(walked), self.settings.input_dropout)
            normals.append(walked.sub_(mean).div_((variance + _TINY).sqrt()).mul_(mask))
            masks.append(mask)
            moments.append(torch.stack([mean, variance * len(kept) / (len(kept) - 1)]))
        for latest, now in zip((self.mean, self.variance), torch.cat(moments, dim=1), strict=True):
            latest.lerp_(now, _MOMENTUM)
        return torch.cat(normals, dim=1), torch.cat(masks, dim=1)

    def _walked(self, block: Tensor, kept: Tensor) -> Tensor:
        """The mean over walks of some features, of the nodes that were kept."""
        walked = block * kept[:, None]
        total = walked.clone()
        for _ in range(self.settings.steps):
            walked = symmetric_product(self.walk, walked)
            total += walked
        return total.div_(self.settings.steps + 1)

    def _answers(self, hidden: Tensor) -> Tensor:
        active = self.hidden(torch.relu(hidden + self.bias))
        return torch.log_softmax(self.second(dropout(active, self.settings.dropout, self.training)), dim=-1)
