"""The paper's early stopping."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass
class EarlyStopping:
    """Stop when neither the validation loss fell nor the validation score rose for ``patience`` epochs.

    *Either* one counts as progress, upon which ``keep`` is called: it remembers the weights of the moment.
    """

    patience: int
    keep: Callable[[], None]
    best_loss: float = math.inf
    best_score: float = -math.inf
    best_epoch: int = -1
    _waited: int = 0

    @property
    def exhausted(self) -> bool:
        """Whether patience has run out."""
        return self._waited >= self.patience

    def should_stop(self, epoch: int, loss: float, score: float) -> bool:
        """Take in one epoch's validation figures; True when patience has run out."""
        if loss < self.best_loss or score > self.best_score:
            self.best_loss, self.best_score = min(loss, self.best_loss), max(score, self.best_score)
            self.best_epoch, self._waited = epoch, 0
            self.keep()
        else:
            self._waited += 1
        return self.exhausted


class Snapshot:
    """The weights of a module at a moment, to be put back later."""

    def __init__(self, module: nn.Module) -> None:
        self._module = module
        self._weights: dict[str, Tensor] = {}

    @torch.no_grad()
    def take(self) -> None:
        """Remember the weights as they are."""
        # Into the same memory each time: most epochs make progress, and fresh pages cost more than the copy.
        for name, value in self._module.state_dict().items():
            if name in self._weights:
                self._weights[name].copy_(value)
            else:
                self._weights[name] = value.detach().clone()

    def restore(self) -> None:
        """Put the remembered weights back; nothing happens if there are none."""
        if self._weights:
            with torch.no_grad():
                self._module.load_state_dict(self._weights)
