"""Optimisers and schedules as data: what a fit does is a value that can be printed, stored and compared."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import nn

from condiff.errors import InvalidInputError


@dataclass(frozen=True)
class Training:
    """How a network is fitted.

    Attributes
    ----------
    optimiser
        ``adam``, ``adamax``, ``rmsprop`` or ``sgd``.
    learning_rate, momentum, weight_decay
        As in torch; momentum is for SGD only.
    epochs
        The most epochs that are run.
    milestones
        Epochs after which the learning rate is multiplied by ``decay``.
    decay
        That factor.
    patience
        With validation points: stop after this many epochs without progress; None runs all epochs.
    """

    optimiser: Literal["adam", "adamax", "rmsprop", "sgd"] = "adam"
    learning_rate: float = 0.01
    momentum: float = 0.0
    weight_decay: float = 5e-4
    epochs: int = 10_000
    milestones: tuple[int, ...] = ()
    decay: float = 0.1
    patience: int | None = 50

    def __post_init__(self) -> None:
        if self.optimiser not in ("adam", "adamax", "rmsprop", "sgd"):
            raise InvalidInputError(f"optimiser must be 'adam', 'adamax', 'rmsprop' or 'sgd', not {self.optimiser!r}")
        if self.epochs < 1:
            raise InvalidInputError(f"epochs must be at least 1, not {self.epochs}")
        if self.patience is not None and self.patience < 1:
            raise InvalidInputError(f"patience must be at least 1, or None for no early stopping, not {self.patience}")
        if any(milestone < 1 for milestone in self.milestones):
            raise InvalidInputError(f"milestones must be epochs from 1 on, not {self.milestones}")
        # Written so that NaN fails as well.
        for name, value, sound, range_ in (
            ("learning_rate", self.learning_rate, 0 < self.learning_rate < math.inf, "positive and finite"),
            ("momentum", self.momentum, 0 <= self.momentum < 1, "at least 0 and below 1"),
            ("weight_decay", self.weight_decay, 0 <= self.weight_decay < math.inf, "finite and not negative"),
            ("decay", self.decay, 0 < self.decay < math.inf, "positive and finite"),
        ):
            if not sound:
                raise InvalidInputError(f"{name} must be {range_}, not {value}")

    def learning_rate_at(self, epoch: int) -> float:
        """The learning rate of an epoch, counted from 0."""
        passed = sum(milestone <= epoch for milestone in self.milestones)
        return self.learning_rate * self.decay**passed

    def make_optimiser(self, parameters: Iterable[nn.Parameter] | Iterable[dict[str, Any]]) -> torch.optim.Optimizer:
        """The torch optimiser that these settings describe, for parameters or torch's groups of them."""
        if self.optimiser == "adam":
            return torch.optim.Adam(parameters, lr=self.learning_rate, weight_decay=self.weight_decay)
        if self.optimiser == "adamax":
            return torch.optim.Adamax(parameters, lr=self.learning_rate, weight_decay=self.weight_decay)
        if self.optimiser == "rmsprop":
            return torch.optim.RMSprop(parameters, lr=self.learning_rate, weight_decay=self.weight_decay)
        return torch.optim.SGD(
            parameters, lr=self.learning_rate, momentum=self.momentum, weight_decay=self.weight_decay
        )

    def make_schedule(self, optimiser: torch.optim.Optimizer) -> torch.optim.lr_scheduler.LRScheduler:
        """The torch schedule, to be stepped once an epoch."""
        return torch.optim.lr_scheduler.MultiStepLR(optimiser, list(self.milestones), self.decay)


#: The paper's settings for its four applications.
NODE = Training("adam", 0.01, weight_decay=5e-4, epochs=10_000, patience=50)
FEW_SHOT = Training("sgd", 0.1, momentum=0.9, weight_decay=1e-4, epochs=100, milestones=(50, 75), patience=None)
COVID = Training("adam", 0.01, weight_decay=5e-4, epochs=100, patience=None)
PROSTATE = Training("sgd", 1.0, weight_decay=5e-4, epochs=300, milestones=(150, 225), patience=None)
