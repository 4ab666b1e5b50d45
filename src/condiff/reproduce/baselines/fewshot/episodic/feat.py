"""FEAT: prototypes adapted to the task by a transformer (Ye, Hu, Zhan and Sha 2020)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from condiff.errors import InvalidInputError
from condiff.reproduce.baselines.fewshot.episodic.method import (
    MetaTraining,
    PretrainedMethod,
    class_means,
    for_dataset,
)
from condiff.reproduce.baselines.fewshot.method import shots_of
from condiff.reproduce.baselines.fewshot.problem import squared_distances
from condiff.reproduce.baselines.method import check_probabilities
from condiff.reproduce.pretraining.base_classes import PretrainedNetwork
from condiff.reproduce.pretraining.episodic import Episode, ImageShape
from condiff.reproduce.runs import NO_CONDITION, Condition

if TYPE_CHECKING:
    from typing import Self

_SCHEDULE = MetaTraining(learning_rate=1e-4, drop_every=2000)


@dataclass(frozen=True)
class FEAT(PretrainedMethod):
    r"""Logits :math:`-\|f(x) - \mu'_c\|^2 / t` with the prototypes :math:`\mu' = T(\mu)` adapted to each other.

    T is one head of self-attention with a residual and a normalisation of layers. In training a second loss is added:
    T over all images of a class, whose mean should be near each of them. f takes the maximum of each of the last maps.
    Settings are those of the authors' code for Conv-4 (Sha-Lab/FEAT): Adam with 1e-4, ten times as much for T, halved
    every 2,000 episodes; dropout 0.1 of the attention and 0.5 of what it gives. The encoder is first trained to tell
    the base classes apart; a trained backbone may take the place of that.

    Parameters
    ----------
    training, pretraining
        As above.
    temperature, second_temperature
        t of both losses: 64 and 16 for one shot, 32 and 64 for more.
    balance
        Weight of the second loss: 1 for one shot, 0.1 for more.
    factor
        Of the learning rate of T.
    attention_dropout, dropout
        As above.
    """

    training: MetaTraining = _SCHEDULE
    temperature: float = 64.0
    second_temperature: float = 16.0
    balance: float = 1.0
    factor: float = 10.0
    attention_dropout: float = 0.1
    dropout: float = 0.5

    def __post_init__(self) -> None:
        check_probabilities(attention_dropout=self.attention_dropout, dropout=self.dropout)
        for name in ("temperature", "second_temperature", "factor"):
            if not 0 < getattr(self, name) < float("inf"):
                raise InvalidInputError(f"{name} must be positive and finite, not {getattr(self, name)!r}")

    @classmethod
    def recommended(cls, dataset: str, condition: Condition = NO_CONDITION) -> Self:
        training = for_dataset(_SCHEDULE, dataset)
        if shots_of(condition) == 1:
            return cls(training)
        return cls(training, temperature=32.0, second_temperature=64.0, balance=0.1)

    def build(self, image_shape: ImageShape, ways: int, shots: int, base_classes: int = 0) -> PretrainedNetwork:
        return AdaptedPrototypes(image_shape, base_classes, self)


class AdaptedPrototypes(PretrainedNetwork):
    """See :class:`FEAT`."""

    def __init__(self, image_shape: ImageShape, base_classes: int, settings: FEAT) -> None:
        super().__init__(image_shape)
        self.settings = settings
        self.base = nn.Linear(64, base_classes)
        self.adapt = SelfAttention(64, settings.attention_dropout, settings.dropout)

    def embed(self, *parts: Tensor) -> tuple[Tensor, ...]:
        rows = self.maps(torch.cat(parts)).amax(dim=(2, 3))
        return torch.split(rows, [len(part) for part in parts])

    def base_loss(self, images: Tensor, labels: Tensor) -> Tensor:
        return functional.cross_entropy(self.base(self.embed(images)[0]), labels)

    def forward(self, support: Tensor, labels: Tensor, query: Tensor) -> Tensor:
        support, query = self.embed(support, query)
        return self.scores(support, labels, query)

    def scores(self, support: Tensor, labels: Tensor, query: Tensor) -> Tensor:
        """Scores of the queries by their features."""
        prototypes = self.adapt(class_means(support, labels)[None])[0]
        return -squared_distances(query, prototypes) / self.settings.temperature

    def loss(self, episode: Episode) -> Tensor:
        support, query = self.embed(episode.support, episode.query)
        first = functional.cross_entropy(self.scores(support, episode.labels, query), episode.truth)
        rows, truth = torch.cat([support, query]), torch.cat([episode.labels, episode.truth])
        centres = torch.stack(
            [self.adapt(rows[truth == label][None])[0].mean(0) for label in range(int(truth.max()) + 1)]
        )
        logits = -squared_distances(rows, centres) / self.settings.second_temperature
        return first + self.settings.balance * functional.cross_entropy(logits, truth)

    def parameter_groups(self) -> list[dict[str, Any]]:
        return [
            {"params": list(self.encoder.parameters())},
            {"params": list(self.adapt.parameters()), "factor": self.settings.factor},
        ]


class SelfAttention(nn.Module):
    r""":math:`\operatorname{norm}(x + W\, \operatorname{softmax}(q k^\top / \sqrt d)\, v)` of the members of a set."""

    def __init__(self, width: int, attention_dropout: float, dropout: float) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(width, width, bias=False) for _ in range(3))
        for part in (self.query, self.key, self.value):
            nn.init.normal_(part.weight, std=math.sqrt(1 / width))
        self.out = nn.Linear(width, width)
        nn.init.xavier_normal_(self.out.weight)
        self.norm = nn.LayerNorm(width)
        self.attention_dropout, self.dropout = nn.Dropout(attention_dropout), nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Map (sets, members, width) to the same shape."""
        attention = (self.query(x) @ self.key(x).mT / math.sqrt(x.shape[-1])).softmax(-1)
        read = self.attention_dropout(attention) @ self.value(x)
        adapted: Tensor = self.norm(x + self.dropout(self.out(read)))
        return adapted
