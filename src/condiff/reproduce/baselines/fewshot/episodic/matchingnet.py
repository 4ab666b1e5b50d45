"""MatchingNet with full context embeddings (Vinyals, Blundell, Lillicrap, Kavukcuoglu and Wierstra 2016)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

from condiff.reproduce.baselines.fewshot.episodic.method import (
    EpisodicMethod,
    MetaTraining,
    for_dataset,
    one_hot,
)
from condiff.reproduce.baselines.fewshot.transforms import normalised
from condiff.reproduce.baselines.method import check_counts
from condiff.reproduce.pretraining.episodic import Episode, EpisodicNetwork, ImageShape
from condiff.reproduce.runs import NO_CONDITION, Condition

if TYPE_CHECKING:
    from typing import Self

# Added to a probability before its logarithm, as in the code of Chen et al.
_FLOOR = 1e-6
_SCHEDULE = MetaTraining()


@dataclass(frozen=True)
class MatchingNet(EpisodicMethod):
    r""":math:`P(y | x) = \sum_i a(x, x_i)\, y_i` with :math:`a = \operatorname{softmax}_i(s \cos(f(x), g(x_i)))`.

    Both embeddings see the whole support. With the encoder :math:`f'`, g adds to :math:`f'(x_i)` the outputs of a
    two-way LSTM over the support in its order; f reads the support in some steps of an LSTM with attention,

    .. math:: h_k = \operatorname{LSTM}([f'(x), r_{k-1}], h_{k-1}) + f'(x), \qquad
              r_k = \sum_i \operatorname{softmax}_i(h_k \cdot g(x_i))\, g(x_i).

    Parameters
    ----------
    training
        Adam with 1e-3, as Chen et al. (2019) train all methods on episodes.
    scale
        s: 100 in the code of Chen et al. (wyharveychen/CloserLookFewShot), 1 in the article.
    steps
        Of f; None for the number of labelled points, as in that code.
    """

    training: MetaTraining = _SCHEDULE
    scale: float = 100.0
    steps: int | None = None

    def __post_init__(self) -> None:
        if self.steps is not None:
            check_counts(steps=self.steps)

    @classmethod
    def recommended(cls, dataset: str, condition: Condition = NO_CONDITION) -> Self:
        return cls(for_dataset(_SCHEDULE, dataset))

    def build(self, image_shape: ImageShape, ways: int, shots: int, base_classes: int = 0) -> EpisodicNetwork:
        return MatchingNetwork(image_shape, self.scale, self.steps)


class MatchingNetwork(EpisodicNetwork):
    """See :class:`MatchingNet`."""

    def __init__(self, image_shape: ImageShape, scale: float, steps: int | None) -> None:
        super().__init__(image_shape)
        width = self.encoder.out_features
        self.scale, self.steps = scale, steps
        self.context = nn.LSTM(width, width, bidirectional=True)
        self.reader = nn.LSTMCell(2 * width, width)

    def support_context(self, support: Tensor) -> Tensor:
        """Each labelled point's g, (labelled, features)."""
        read: Tensor = self.context(support)[0]
        there, back = read.chunk(2, dim=-1)
        return support + there + back

    def query_context(self, query: Tensor, context: Tensor) -> Tensor:
        """Each query's f, (queries, features); queries do not see each other."""
        hidden, cell = query, torch.zeros_like(query)
        for _ in range(self.steps or len(context)):
            read = (hidden @ context.mT).softmax(-1) @ context
            hidden, cell = self.reader(torch.cat([query, read], dim=-1), (hidden, cell))
            hidden = hidden + query
        return hidden

    def forward(self, support: Tensor, labels: Tensor, query: Tensor) -> Tensor:
        """The logarithms of probabilities."""
        support, query = self.embed(support, query)
        context = self.support_context(support)
        cosines = normalised(self.query_context(query, context)) @ normalised(context).mT
        return ((self.scale * cosines).softmax(-1) @ one_hot(labels) + _FLOOR).log()

    def loss(self, episode: Episode) -> Tensor:
        return functional.nll_loss(self(episode.support, episode.labels, episode.query), episode.truth)
