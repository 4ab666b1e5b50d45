"""Training on episodes: a network that is given few-shot tasks of base classes, as it will be given novel ones.

It is measured on tasks of validation classes, and resumes where it was stopped, as any training in epochs here does.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from condiff.bases.backbones.conv4 import Conv4
from condiff.reproduce.pretraining.epochs import Objective

#: Height and width are equal: (channels, side, side).
ImageShape = tuple[int, int, int]


@dataclass(frozen=True, eq=False)
class Episode:
    """A task of base classes with its truth, which a network may use only in its loss.

    Attributes
    ----------
    support, labels
        Images as the network reads them, (ways * shots, channels, side, side), and their classes, 0 .. ways - 1.
    query, truth
        The same of the images to classify.
    classes
        The base class behind the task's class 0, the one behind its class 1, and so on.
    others, other_classes
        Images of further base classes, and which; none where the objective draws none.
    """

    support: Tensor
    labels: Tensor
    query: Tensor
    truth: Tensor
    classes: Tensor
    others: Tensor | None = None
    other_classes: Tensor | None = None


class EpisodicNetwork(nn.Module):
    """A network from a task's images to scores of its queries.

    Parameters
    ----------
    image_shape
        Channels, height and width of the images.

    Attributes
    ----------
    encoder
        A Conv-4, which also knows how pixels are normalised.
    """

    def __init__(self, image_shape: ImageShape) -> None:
        super().__init__()
        channels, side, _ = image_shape
        self.encoder = Conv4(channels, side)

    @abstractmethod
    def forward(self, support: Tensor, labels: Tensor, query: Tensor) -> Tensor:
        """Scores of the queries, (queries, ways): the class of the highest is the answer."""

    def loss(self, episode: Episode) -> Tensor:
        """The loss to train on: by default, the cross-entropy of the queries."""
        return functional.cross_entropy(self(episode.support, episode.labels, episode.query), episode.truth)

    def maps(self, images: Tensor) -> Tensor:
        """The encoder's last maps, (n, 64, h, w)."""
        found: Tensor = self.encoder.blocks(images.contiguous(memory_format=torch.channels_last))
        return found

    def embed(self, *parts: Tensor) -> tuple[Tensor, ...]:
        """Features of several sets of images, which go through the encoder together."""
        rows = self.maps(torch.cat(parts)).flatten(1)
        return torch.split(rows, [len(part) for part in parts])

    def parameter_groups(self) -> list[dict[str, Any]]:
        """What is trained on episodes; a group's ``factor`` multiplies its learning rate."""
        return [{"params": list(self.parameters())}]

    def mend_gradients(self) -> None:  # most networks take them as they are
        """Clip the gradients, where the method does."""


class OnEpisodes(Objective[EpisodicNetwork]):
    """Descend on the mean loss of some episodes per step.

    Parameters
    ----------
    episodes
        How many in total.
    per_epoch, per_step
        Episodes per epoch, which ends with a checkpoint, and per step.
    draw
        Episodes from the numbers of the first and of the one after the last; a number determines its whole episode.
    drawn
        JSON values that determine what ``draw`` returns.
    seed
        For whatever is random inside a network, such as dropout.
    """

    def __init__(
        self,
        episodes: int,
        draw: Callable[[int, int], Iterable[Episode]],
        drawn: dict[str, Any],
        *,
        per_epoch: int = 100,
        per_step: int = 1,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.episodes, self.per_epoch, self.per_step = episodes, per_epoch, per_step
        self.draw, self.drawn, self.seed = draw, drawn, seed

    @property
    def epochs(self) -> int:
        """The number of epochs; the last may be smaller."""
        return -(-self.episodes // self.per_epoch)

    def losses(self, network: EpisodicNetwork, epoch: int) -> Iterator[Tensor]:
        """The mean loss of each step's episodes."""
        first = epoch * self.per_epoch
        last = min(first + self.per_epoch, self.episodes)
        together: list[Tensor] = []
        for number, episode in zip(range(first, last), self.draw(first, last), strict=True):
            with seeded(self.seed, number):
                together.append(network.loss(episode))
            if len(together) == self.per_step or number + 1 == last:
                yield torch.stack(together).mean()
                together = []

    def facts(self) -> dict[str, Any]:
        return {
            "objective": "episodes",
            "episodes": self.episodes,
            "per_epoch": self.per_epoch,
            "per_step": self.per_step,
            "drawn": self.drawn,
            "seed": self.seed,
        }

    def parameter_groups(self, network: EpisodicNetwork) -> list[dict[str, Any]]:
        return network.parameter_groups()

    def mend_gradients(self, network: EpisodicNetwork) -> None:
        network.mend_gradients()


@contextmanager
def seeded(seed: int, number: int) -> Iterator[None]:
    """Seed torch's global generator from both inside the block, and restore it afterwards."""
    words = np.random.SeedSequence([seed, number]).generate_state(1, np.uint64)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(words[0]) >> 1)
        yield


def episodic_accuracy(network: EpisodicNetwork, episodes: Iterable[Episode]) -> float:
    """Mean accuracy over the queries of all tasks, from 0 to 1."""
    shares = [
        float((answers(network, episode.support, episode.labels, episode.query) == episode.truth).float().mean())
        for episode in episodes
    ]
    return float(np.mean(shares))


def answers(network: EpisodicNetwork, support: Tensor, labels: Tensor, query: Tensor) -> Tensor:
    """The classes that a network predicts for the queries of a task."""
    with torch.no_grad():
        scores: Tensor = network(support, labels, query)
    return scores.argmax(-1)
