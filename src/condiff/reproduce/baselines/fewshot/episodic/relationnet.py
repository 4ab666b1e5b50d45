"""RelationNet: a learnt comparison of feature maps (Sung, Yang, Zhang, Xiang, Torr and Hospedales 2018)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

from condiff.reproduce.baselines.fewshot.episodic.method import EpisodicMethod, MetaTraining, is_omniglot, one_hot
from condiff.reproduce.baselines.fewshot.method import shots_of
from condiff.reproduce.baselines.method import check_counts
from condiff.reproduce.pretraining.episodic import Episode, EpisodicNetwork, ImageShape
from condiff.reproduce.runs import NO_CONDITION, Condition

if TYPE_CHECKING:
    from typing import Self

# The largest norm of the gradient of either part.
_LARGEST = 0.5
_SCHEDULE = MetaTraining(drop_every=100_000)


@dataclass(frozen=True)
class RelationNet(EpisodicMethod):
    r"""Scores :math:`r_c = g([\sum_{i \in c} f(x_i), f(x)])` from 0 to 1, trained to be 1 for the class and 0 else.

    f is a Conv-4 whose last two blocks do not pool; g has two more blocks and two linear layers. The loss is the mean
    of squared errors. Settings are those of the authors' code (floodsung/LearningToCompare_FSL): Adam from 1e-3, halved
    every 100,000 episodes, the gradients of f and of g clipped to the norm 0.5 each, 19 queries for one shot of
    Omniglot. Its first two convolutions do not pad, and it tests with each batch's own statistics, so that a query's
    answer depends on the others; here all convolutions pad, and tests use the averages of training.

    Parameters
    ----------
    training
        As above.
    hidden
        Width between the linear layers.
    """

    training: MetaTraining = _SCHEDULE
    hidden: int = 8

    def __post_init__(self) -> None:
        check_counts(hidden=self.hidden)

    @classmethod
    def recommended(cls, dataset: str, condition: Condition = NO_CONDITION) -> Self:
        one = shots_of(condition) == 1
        if is_omniglot(dataset):
            return cls(MetaTraining(drop_every=100_000, queries=19 if one else 15, augment=False))
        return cls(MetaTraining(drop_every=100_000, queries=15 if one else 10))

    def build(self, image_shape: ImageShape, ways: int, shots: int, base_classes: int = 0) -> EpisodicNetwork:
        return RelationNetwork(image_shape, self.hidden)


class RelationNetwork(EpisodicNetwork):
    """See :class:`RelationNet`."""

    def __init__(self, image_shape: ImageShape, hidden: int) -> None:
        super().__init__(image_shape)
        for block in list(self.encoder.blocks)[2:]:
            assert isinstance(block, nn.Sequential)
            block[3] = nn.Identity()
        side = image_shape[1] // 4 // 4  # halved twice by each part
        self.relation = nn.Sequential(
            *_block(128),
            *_block(64),
            nn.Flatten(),
            nn.Linear(64 * side**2, hidden),
            nn.ReLU(),
            nn.Linear(hidden, 1),
            nn.Sigmoid(),
        )
        self.apply(_initialise)

    def forward(self, support: Tensor, labels: Tensor, query: Tensor) -> Tensor:
        maps = self.maps(torch.cat([support, query]))
        support, query = maps.split([len(support), len(query)])
        classes = torch.einsum("nw,nchd->wchd", one_hot(labels), support)
        shape = (len(query), len(classes), *query.shape[1:])
        pairs = torch.cat([classes[None].expand(shape), query[:, None].expand(shape)], dim=2)
        relations: Tensor = self.relation(pairs.flatten(0, 1))
        return relations.view(len(query), len(classes))

    def loss(self, episode: Episode) -> Tensor:
        scores = self(episode.support, episode.labels, episode.query)
        return functional.mse_loss(scores, functional.one_hot(episode.truth, scores.shape[1]).to(scores.dtype))

    def mend_gradients(self) -> None:
        for part in (self.encoder, self.relation):
            nn.utils.clip_grad_norm_(part.parameters(), _LARGEST)


def _block(in_channels: int) -> list[nn.Module]:
    return [nn.Conv2d(in_channels, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2)]


def _initialise(part: nn.Module) -> None:
    if isinstance(part, nn.Conv2d):
        assert part.bias is not None
        nn.init.normal_(part.weight, std=math.sqrt(2 / (9 * part.out_channels)))
        nn.init.zeros_(part.bias)
    elif isinstance(part, nn.Linear):
        nn.init.normal_(part.weight, std=0.01)
        nn.init.ones_(part.bias)
