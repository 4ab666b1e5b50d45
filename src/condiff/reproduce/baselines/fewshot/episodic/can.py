"""CAN+T: maps of classes and queries that attend to each other (Hou, Chang, Ma, Shan and Chen 2019)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

from condiff.errors import InvalidInputError
from condiff.reproduce.baselines.fewshot.episodic.method import (
    EpisodicMethod,
    MetaTraining,
    class_means,
    for_dataset,
)
from condiff.reproduce.baselines.method import check_counts
from condiff.reproduce.pretraining.episodic import Episode, EpisodicNetwork, ImageShape
from condiff.reproduce.runs import NO_CONDITION, Condition

if TYPE_CHECKING:
    from typing import Self

_SCHEDULE = MetaTraining(
    optimiser="sgd",
    learning_rate=0.1,
    momentum=0.9,
    weight_decay=5e-4,
    drop_at=(2 / 3, 7 / 9, 8 / 9),
    decay=0.1,
    per_step=4,
    queries=6,
)


@dataclass(frozen=True)
class CAN(EpisodicMethod):
    r"""Logits :math:`s \cos(\operatorname{mean}_i \bar P_i, \operatorname{mean}_j \bar Q_j)` of attended maps.

    The map P of a class, the mean over its support, and the map Q of a query are weighed position by position,

    .. math:: \bar P_i = P_i \Big(1 + \operatorname{softmax}_i\big(\operatorname{mean}_j w_j R_{ij} / t\big)\Big),
              \quad R_{ij} = \cos(P_i, Q_j), \quad
              w = W_2 \operatorname{relu}\big(\operatorname{norm}(W_1 \operatorname{mean}_i R_i)\big),

    and Q likewise by the transpose of R with the same W. Training descends on two losses at every position of the
    queries' maps: the base class, by a linear head, and the class of the task, by the cosine to the mean of
    :math:`\bar P`. Tests are transductive: the queries predicted most confidently join the support under their
    predicted class, a share more in each round, and all are predicted again.

    Settings are those of the authors' code (blue-blue272/fewshot-CAN): SGD from 0.1, four episodes per step, six
    queries per class. Its rates for miniImageNet are 0.1, 0.006, 0.0012 and 0.00024; here each fall is tenfold, as it
    is there for tieredImageNet at each quarter. Its momentum is Nesterov's, which here it is not; it normalises over
    the four episodes together, here over each; and its images are erased in part at random, here they are not. Conv-4
    stands for its ResNet-12, whose maps have 6 x 6 positions: blocks that would leave fewer than ``side`` do not pool,
    so that there are 7 x 7 for Omniglot's 28 x 28 pixels and 5 x 5 for 84 x 84.

    Parameters
    ----------
    training
        As above.
    scale, temperature
        s and t.
    reduction
        How many positions share one of the values between :math:`W_1` and :math:`W_2`.
    balance
        Weight of the loss of the task's classes; that of the base classes has 1.
    share
        Of the queries, how many more join the support in each round; 0 leaves out the rounds, which is CAN without T.
    side
        The smallest side of the maps.
    """

    training: MetaTraining = _SCHEDULE
    scale: float = 7.0
    temperature: float = 0.025
    reduction: int = 6
    balance: float = 0.5
    share: float = 35 / 75
    side: int = 5

    def __post_init__(self) -> None:
        check_counts(reduction=self.reduction, side=self.side)
        for name in ("scale", "temperature"):
            if not 0 < getattr(self, name) < float("inf"):
                raise InvalidInputError(f"{name} must be positive and finite, not {getattr(self, name)!r}")
        if not 0 <= self.balance < float("inf"):
            raise InvalidInputError(f"balance must be finite and not negative, not {self.balance!r}")
        if not 0 <= self.share <= 1:
            raise InvalidInputError(f"share must be from 0 to 1, not {self.share!r}")

    @classmethod
    def recommended(cls, dataset: str, condition: Condition = NO_CONDITION) -> Self:
        if dataset.split("-")[0] == "tiered":
            return cls(replace(_SCHEDULE, drop_at=(1 / 4, 1 / 2, 3 / 4)))
        return cls(for_dataset(_SCHEDULE, dataset))

    def build(self, image_shape: ImageShape, ways: int, shots: int, base_classes: int = 0) -> EpisodicNetwork:
        return CrossAttentionNetwork(image_shape, base_classes, self)


class CrossAttentionNetwork(EpisodicNetwork):
    """See :class:`CAN`."""

    def __init__(self, image_shape: ImageShape, base_classes: int, settings: CAN) -> None:
        super().__init__(image_shape)
        self.settings = settings
        side = image_shape[1]
        for block in self.encoder.blocks:
            assert isinstance(block, nn.Sequential)
            if side // 2 < settings.side:
                block[3] = nn.Identity()
            else:
                side //= 2
        self.attend = CrossAttention(side**2, settings.reduction, settings.temperature)
        self.base = nn.Linear(64, base_classes)

    def positions(self, support: Tensor, query: Tensor) -> tuple[Tensor, Tensor]:
        """Maps of both, (images, channels, positions)."""
        maps = self.maps(torch.cat([support, query])).flatten(2)
        return maps[: len(support)], maps[len(support) :]

    def forward(self, support: Tensor, labels: Tensor, query: Tensor) -> Tensor:
        support, query = self.positions(support, query)
        scores = self.scores(support, labels, query)
        if not self.settings.share:
            return scores
        more = max(1, int(len(query) * self.settings.share))
        for joined in range(more, len(query) + 1, more):
            confidence, predicted = scores.max(-1)
            sure = confidence.topk(joined).indices
            scores = self.scores(torch.cat([support, query[sure]]), torch.cat([labels, predicted[sure]]), query)
        return scores

    def scores(self, support: Tensor, labels: Tensor, query: Tensor) -> Tensor:
        """Scores of the queries by their maps, without rounds."""
        classes, queries = self.attend(class_maps(support, labels), query)
        return self.settings.scale * functional.cosine_similarity(classes.mean(-1), queries.mean(-1), dim=-1)

    def loss(self, episode: Episode) -> Tensor:
        support, query = self.positions(episode.support, episode.query)
        classes, queries = self.attend(class_maps(support, episode.labels), query)
        cosines = functional.cosine_similarity(classes.mean(-1, keepdim=True), queries, dim=2)
        of_task = at_positions(self.settings.scale * cosines, episode.truth)
        own = queries[torch.arange(len(queries)), episode.truth]
        of_base = at_positions(self.base(own.mT).mT, episode.classes[episode.truth])
        return of_base + self.settings.balance * of_task


class CrossAttention(nn.Module):
    """Weighs the positions of classes and queries by each other; see :class:`CAN`."""

    def __init__(self, positions: int, reduction: int, temperature: float) -> None:
        super().__init__()
        self.temperature = temperature
        hidden = max(1, positions // reduction)
        self.narrow, self.norm = nn.Linear(positions, hidden), nn.BatchNorm1d(hidden)
        self.widen = nn.Linear(hidden, positions)
        for part in (self.narrow, self.widen):
            nn.init.normal_(part.weight, std=math.sqrt(2 / part.out_features))

    def forward(self, classes: Tensor, queries: Tensor) -> tuple[Tensor, Tensor]:
        """Map (ways, channels, positions) and (queries, channels, positions) to two of all pairs.

        Both are (queries, ways, channels, positions): the classes' maps and the queries'.
        """
        units = (functional.normalize(each, dim=1) for each in (classes, queries))
        correlation = torch.einsum("wci,qcj->qwij", *units)
        for_classes, for_queries = self.weights(correlation), self.weights(correlation.mT)
        return classes * for_classes[:, :, None], queries[:, None] * for_queries[:, :, None]

    def weights(self, correlation: Tensor) -> Tensor:
        """(queries, ways, i) of correlations (queries, ways, i, j)."""
        summary = correlation.mean(-2)
        hidden = self.norm(self.narrow(summary).flatten(0, 1)).relu()
        kernel: Tensor = self.widen(hidden).view_as(summary)
        fused = (correlation * kernel[:, :, None]).mean(-1)
        return 1 + (fused / self.temperature).softmax(-1)


def class_maps(support: Tensor, labels: Tensor) -> Tensor:
    """The mean map of each class, (ways, channels, positions)."""
    return class_means(support.flatten(1), labels).view(-1, *support.shape[1:])


def at_positions(scores: Tensor, truth: Tensor) -> Tensor:
    """Mean cross-entropy of (images, classes, positions), where an image's class is that of all its positions."""
    return functional.cross_entropy(scores, truth[:, None].expand(-1, scores.shape[-1]))
