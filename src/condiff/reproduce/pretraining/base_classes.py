"""The first stage of methods that begin with a trained encoder: random batches of all base classes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from condiff.reproduce.pretraining.episodic import EpisodicNetwork, seeded
from condiff.reproduce.pretraining.epochs import Objective


class PretrainedNetwork(EpisodicNetwork):
    """A network with a head for the base classes, which is trained before there are episodes."""

    @abstractmethod
    def base_loss(self, images: Tensor, labels: Tensor) -> Tensor:
        """The loss of classifying images of base classes."""

    def fixed(self, *parts: Tensor) -> tuple[Tensor, ...]:
        """Features by the encoder as the first stage left it, its running averages included; none of it is trained."""
        was_training = self.encoder.training
        self.encoder.eval()
        with torch.no_grad():
            found = self.embed(*parts)
        self.encoder.train(was_training)
        return found


class OnBaseClasses(Objective[PretrainedNetwork]):
    """Descend on the loss of one batch per step.

    Parameters
    ----------
    batches
        How many in total.
    draw
        Images and classes of a batch from its number, which determines all of it.
    drawn
        JSON values that determine what ``draw`` returns.
    per_epoch
        Batches per epoch; each epoch ends with a checkpoint.
    seed
        For whatever is random inside a network.
    """

    def __init__(
        self,
        batches: int,
        draw: Callable[[int], tuple[Tensor, Tensor]],
        drawn: dict[str, Any],
        *,
        per_epoch: int = 100,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.batches, self.draw, self.drawn, self.per_epoch, self.seed = batches, draw, drawn, per_epoch, seed

    @property
    def epochs(self) -> int:
        """The number of epochs; the last may be smaller."""
        return -(-self.batches // self.per_epoch)

    def losses(self, network: PretrainedNetwork, epoch: int) -> Iterator[Tensor]:
        """The loss of each batch."""
        first = epoch * self.per_epoch
        for number in range(first, min(first + self.per_epoch, self.batches)):
            images, labels = self.draw(number)
            with seeded(self.seed, number):
                loss = network.base_loss(images, labels)
            yield loss

    def facts(self) -> dict[str, Any]:
        return {
            "objective": "base classes",
            "batches": self.batches,
            "per_epoch": self.per_epoch,
            "drawn": self.drawn,
            "seed": self.seed,
        }
