"""SNAIL: the task as a sequence, read by convolutions over time and attention (Mishra et al. 2018)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

from condiff.reproduce.baselines.fewshot.episodic.method import EpisodicMethod, MetaTraining, for_dataset
from condiff.reproduce.baselines.method import check_counts
from condiff.reproduce.pretraining.episodic import Episode, EpisodicNetwork, ImageShape
from condiff.reproduce.runs import NO_CONDITION, Condition

if TYPE_CHECKING:
    from typing import Self

_SCHEDULE = MetaTraining(learning_rate=1e-4)


@dataclass(frozen=True)
class SNAIL(EpisodicMethod):
    r"""Logits at the end of the sequence :math:`(f(x_1), y_1), \dots, (f(x_n), y_n), (f(x), 0)`.

    Three blocks of attention with two blocks of convolutions over time between them, each of which adds what it finds
    to the channels; none looks ahead. A block of convolutions for T places has :math:`\lceil \log_2 T \rceil` layers
    :math:`\tanh(a) \odot \sigma(b)` of kernel 2 and dilation :math:`2^i`. Sizes are those of the article's appendix for
    Omniglot. The support is in another order in each episode. Mishra, Rohaninejad, Chen and Abbeel.

    Parameters
    ----------
    training
        Adam with 1e-4 and batches of 32 sequences are usual; an episode here has a sequence for each query.
    filters
        Of a layer of convolutions.
    width
        Of the embedding of an image.
    """

    training: MetaTraining = _SCHEDULE
    filters: int = 128
    width: int = 64

    def __post_init__(self) -> None:
        check_counts(filters=self.filters, width=self.width)

    @classmethod
    def recommended(cls, dataset: str, condition: Condition = NO_CONDITION) -> Self:
        return cls(for_dataset(_SCHEDULE, dataset))

    def build(self, image_shape: ImageShape, ways: int, shots: int, base_classes: int = 0) -> EpisodicNetwork:
        return SequenceNetwork(image_shape, ways, shots, self)


class SequenceNetwork(EpisodicNetwork):
    """See :class:`SNAIL`."""

    def __init__(self, image_shape: ImageShape, ways: int, shots: int, settings: SNAIL) -> None:
        super().__init__(image_shape)
        self.ways = ways
        self.reduce = nn.Linear(self.encoder.out_features, settings.width)
        places, channels = ways * shots + 1, settings.width + ways
        blocks: list[nn.Module] = []
        for keys, values in ((64, 32), (256, 128), (512, 256)):
            if blocks:
                convolved = TemporalBlock(channels, places, settings.filters)
                channels = convolved.out_channels
                blocks.append(convolved)
            blocks.append(CausalAttention(channels, keys, values))
            channels += values
        self.blocks, self.out = nn.Sequential(*blocks), nn.Linear(channels, ways)

    def forward(self, support: Tensor, labels: Tensor, query: Tensor) -> Tensor:
        support, query = (self.reduce(rows) for rows in self.embed(support, query))
        given = torch.cat([support, functional.one_hot(labels, self.ways).to(support.dtype)], dim=-1)
        unknown = functional.pad(query, (0, self.ways))
        # Queries are ends of sequences of their own: they do not see each other.
        sequences = torch.cat([given.expand(len(query), -1, -1), unknown[:, None]], dim=1)
        scores: Tensor = self.out(self.blocks(sequences)[:, -1])
        return scores

    def loss(self, episode: Episode) -> Tensor:
        order = torch.randperm(len(episode.labels))
        scores = self(episode.support[order], episode.labels[order], episode.query)
        return functional.cross_entropy(scores, episode.truth)


class TemporalBlock(nn.Module):
    """Layers of gated convolutions over the past, which reach back over all places."""

    def __init__(self, in_channels: int, places: int, filters: int) -> None:
        super().__init__()
        layers = max(1, math.ceil(math.log2(places)))
        self.dilations = [2**number for number in range(1, layers + 1)]
        self.layers = nn.ModuleList(
            nn.Conv1d(in_channels + number * filters, 2 * filters, 2, dilation=dilation)
            for number, dilation in enumerate(self.dilations)
        )
        self.out_channels = in_channels + layers * filters

    def forward(self, x: Tensor) -> Tensor:
        """Map (sequences, places, channels) to the same with more channels."""
        for layer, dilation in zip(self.layers, self.dilations, strict=True):
            moved, gate = layer(functional.pad(x.mT, (dilation, 0))).mT.chunk(2, dim=-1)
            x = torch.cat([x, moved.tanh() * gate.sigmoid()], dim=-1)
        return x


class CausalAttention(nn.Module):
    """What each position reads from those up to its own."""

    def __init__(self, in_channels: int, keys: int, values: int) -> None:
        super().__init__()
        self.query, self.key = nn.Linear(in_channels, keys), nn.Linear(in_channels, keys)
        self.value = nn.Linear(in_channels, values)

    def forward(self, x: Tensor) -> Tensor:
        """Map (sequences, places, channels) to the same with more channels."""
        affinity = self.query(x) @ self.key(x).mT / math.sqrt(self.key.out_features)
        ahead = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        return torch.cat([x, affinity.masked_fill(ahead, -torch.inf).softmax(-1) @ self.value(x)], dim=-1)
