"""The interface of methods trained on episodes: a frozen dataclass of settings that can build its network."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from torch import Tensor

from condiff.errors import InvalidInputError
from condiff.reproduce.baselines.method import Method, check_counts
from condiff.reproduce.pretraining.base_classes import PretrainedNetwork
from condiff.reproduce.pretraining.episodic import EpisodicNetwork, ImageShape
from condiff.training.settings import Training


@dataclass(frozen=True)
class MetaTraining:
    """How a network is trained on episodes.

    Attributes
    ----------
    episodes
        How many.
    optimiser, learning_rate, momentum, weight_decay
        As in :class:`~condiff.training.settings.Training`.
    drop_every
        Episodes after which the learning rate is multiplied by ``decay``, repeatedly; None for never.
    drop_at
        Shares of the training after which it is multiplied by ``decay``, for schedules of a fixed length.
    decay
        That factor.
    per_step
        Episodes whose mean loss makes a step.
    ways, shots
        Of the episodes; None for those of the tasks that the method is trained for.
    queries
        Per class.
    augment
        Random crops, flips and colours, as for backbones; turned off for Omniglot, where the authors have none.
    """

    episodes: int = 10_000
    optimiser: Literal["adam", "sgd"] = "adam"
    learning_rate: float = 1e-3
    momentum: float = 0.0
    weight_decay: float = 0.0
    drop_every: int | None = None
    drop_at: tuple[float, ...] = ()
    decay: float = 0.5
    per_step: int = 1
    ways: int | None = None
    shots: int | None = None
    queries: int = 15
    augment: bool = True

    def __post_init__(self) -> None:
        check_counts(episodes=self.episodes, per_step=self.per_step, queries=self.queries)
        for name in ("drop_every", "ways", "shots"):
            if getattr(self, name) is not None:
                check_counts(**{name: getattr(self, name)})
        if not all(0 < share < 1 for share in self.drop_at):
            raise InvalidInputError(f"drop_at must be shares between 0 and 1, not {self.drop_at}")
        self.schedule(1)  # which checks the rest

    def schedule(self, per_epoch: int) -> Training:
        """The same in epochs of ``per_epoch`` episodes."""
        epochs = math.ceil(self.episodes / per_epoch)
        drops = [round(share * epochs) for share in self.drop_at]
        if self.drop_every is not None:
            drops += range(step := max(1, round(self.drop_every / per_epoch)), epochs, step)
        return Training(
            self.optimiser,
            self.learning_rate,
            momentum=self.momentum,
            weight_decay=self.weight_decay,
            epochs=epochs,
            milestones=tuple(sorted(drop for drop in drops if drop > 0)),
            decay=self.decay,
            patience=None,
        )


#: MetaOptNet's and Gidaris': 60 epochs of 1,000 steps with the rates 0.1, 0.006, 0.0012 and 0.00024 as published; here
#: each fall is tenfold.
FALLING_SGD = MetaTraining(
    optimiser="sgd",
    learning_rate=0.1,
    momentum=0.9,
    weight_decay=5e-4,
    drop_at=(1 / 3, 2 / 3, 5 / 6),
    decay=0.1,
    per_step=8,
)


@dataclass(frozen=True)
class EpisodicMethod(Method):
    """A method whose network is trained on episodes of base classes.

    Parameters
    ----------
    training
        Optimiser, schedule, and the shape of the episodes.
    """

    training: MetaTraining = MetaTraining()

    @abstractmethod
    def build(self, image_shape: ImageShape, ways: int, shots: int, base_classes: int = 0) -> EpisodicNetwork:
        """A network whose weights are drawn from torch's global generator.

        Parameters
        ----------
        image_shape
            Channels, height and width.
        ways, shots
            Of the tasks that it will solve.
        base_classes
            How many there are, for methods that keep something of each.
        """


def is_omniglot(dataset: str) -> bool:
    """Whether the data set is Omniglot."""
    return dataset == "omniglot"


def for_dataset(training: MetaTraining, dataset: str) -> MetaTraining:
    """The schedule for a data set: images of Omniglot are not augmented, as the authors do not."""
    return replace(training, augment=False) if is_omniglot(dataset) else training


def one_hot(labels: Tensor) -> Tensor:
    """(points, ways) zeros and ones of classes 0 .. ways - 1."""
    return torch.nn.functional.one_hot(labels).to(torch.get_default_dtype())


def class_means(rows: Tensor, labels: Tensor) -> Tensor:
    """The mean of each class over labelled points, (ways, features)."""
    members = one_hot(labels).to(rows.dtype)
    return members.mT @ rows / members.sum(0)[:, None]


@dataclass(frozen=True)
class Pretraining:
    """The first stage: classifying all base classes, before there are episodes.

    Attributes
    ----------
    batches, batch_size
        How many, and images in each; with 0 batches the stage is left out.
    learning_rate
        Of Adam.
    """

    batches: int = 5_000
    batch_size: int = 64
    learning_rate: float = 1e-3

    def __post_init__(self) -> None:
        if self.batches != 0:
            check_counts(batches=self.batches)
        if self.batch_size < 2:
            raise InvalidInputError(f"batch_size must be at least 2, for normalisation, not {self.batch_size}")

    def schedule(self, per_epoch: int) -> Training:
        """Adam, with a tenth of the rate in the last quarter."""
        epochs = math.ceil(self.batches / per_epoch)
        milestones = tuple({epochs * 3 // 4} - {0})
        return Training(
            "adam", self.learning_rate, weight_decay=0.0, epochs=epochs, milestones=milestones, patience=None
        )


@dataclass(frozen=True)
class PretrainedMethod(EpisodicMethod):
    """A method that begins with an encoder trained to classify the base classes.

    Parameters
    ----------
    training
        On episodes.
    pretraining
        Before.
    """

    #: Whether a trained backbone to begin from takes the place of the first stage.
    replaceable: ClassVar[bool] = True
    #: Images of further base classes in each episode.
    others: ClassVar[int] = 0

    pretraining: Pretraining = Pretraining()

    @abstractmethod
    def build(self, image_shape: ImageShape, ways: int, shots: int, base_classes: int = 0) -> PretrainedNetwork: ...
