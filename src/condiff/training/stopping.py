"""The paper's early stopping."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn


@dataclass
class EarlyStopping:
    """Stop when neither the validation loss fell nor the validation score rose for ``patience`` epochs.

    *Either* one counts as progress and stores the weights, which :meth:`restore` puts back.
    """

    patience: int
    best_loss: float = math.inf
    best_score: float = -math.inf
    best_epoch: int = -1
    _waited: int = 0
    _weights: dict[str, Tensor] = field(default_factory=dict)

    def should_stop(self, model: nn.Module, epoch: int, loss: float, score: float) -> bool:
        """Take in one epoch's validation figures; True when patience has run out."""
        if loss < self.best_loss or score > self.best_score:
            self.best_loss, self.best_score = min(loss, self.best_loss), max(score, self.best_score)
            self.best_epoch, self._waited = epoch, 0
            self._store(model)
        else:
            self._waited += 1
        return self._waited >= self.patience

    @torch.no_grad()
    def _store(self, model: nn.Module) -> None:
        # Into the same memory each time: most epochs make progress, and fresh pages cost more than the copy.
        for name, value in model.state_dict().items():
            if name in self._weights:
                self._weights[name].copy_(value)
            else:
                self._weights[name] = value.detach().clone()

    def restore(self, model: nn.Module) -> None:
        """Put back the weights of the best epoch."""
        if self._weights:
            with torch.no_grad():
                model.load_state_dict(self._weights)
