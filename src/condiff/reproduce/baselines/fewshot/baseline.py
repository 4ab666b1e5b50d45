"""Baseline: a linear classifier on the features, by gradient descent (Chen, Liu, Kira, Wang and Huang 2019)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from condiff.reproduce.baselines.fewshot.method import BatchedMethod
from condiff.reproduce.baselines.fewshot.problem import Tasks
from condiff.reproduce.baselines.method import check_counts


@dataclass(frozen=True)
class Descent:
    """The gradient descent of the authors' code (wyharveychen/CloserLookFewShot), in batches of the support.

    Attributes
    ----------
    learning_rate, momentum, dampening, weight_decay
        As in ``torch.optim.SGD``.
    epochs, batch_size
        How often the support is gone through, and how many points make a step.
    """

    learning_rate: float = 0.01
    momentum: float = 0.9
    dampening: float = 0.9
    weight_decay: float = 1e-3
    epochs: int = 100
    batch_size: int = 4

    def __post_init__(self) -> None:
        check_counts(epochs=self.epochs, batch_size=self.batch_size)

    def move(self, value: Tensor, speed: Tensor, gradient: Tensor, *, first: bool) -> None:
        """One step, in place."""
        gradient = gradient + self.weight_decay * value
        if first:  # torch does not dampen it
            speed.copy_(gradient)
        else:
            speed.mul_(self.momentum).add_(gradient, alpha=1 - self.dampening)
        value.sub_(speed, alpha=self.learning_rate)

    def batches(self, tasks: Tasks, generators: Sequence[torch.Generator]) -> Iterator[Tensor]:
        """(tasks, batch) numbers of labelled points, of one step after another."""
        n_support = tasks.labels.shape[1]
        orders = torch.stack([torch.rand(self.epochs, n_support, generator=each).argsort(-1) for each in generators])
        for epoch in range(self.epochs):
            yield from orders[:, epoch].split(self.batch_size, dim=-1)


#: As published.
CLOSER_LOOK = Descent()


@dataclass(frozen=True)
class Baseline(BatchedMethod):
    r"""Logits :math:`w_c \cdot x + b_c` on the features as they are, fitted to the support's cross-entropy.

    Every step moves the weights within their first value and the span of the support, so that their coefficients there
    are all that is kept: the same numbers, for a fraction of the work.

    Parameters
    ----------
    descent
        Rate, momentum, decay, epochs and batches.
    """

    descent: Descent = CLOSER_LOOK

    @property
    def iterations(self) -> int:
        return self.descent.epochs

    def scores(self, tasks: Tasks, seeds: Sequence[int]) -> Tensor:
        generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        support, query = tasks.raw
        weights = first_weights(tasks, generators)
        bound = 1 / math.sqrt(support.shape[-1])
        biases = torch.stack([torch.empty(1, tasks.ways).uniform_(-bound, bound, generator=g) for g in generators])
        # W^T = share W_0^T + support^T coefficients; the share shrinks by weight decay, the same in all tasks.
        share = torch.ones(1, 1, 1)
        coefficients = support.new_zeros(len(tasks), support.shape[1], tasks.ways)
        products, started = support @ support.mT, support @ weights.mT
        values = [share, coefficients, biases]
        speeds = [torch.zeros_like(value) for value in values]
        for step, batch in enumerate(self.descent.batches(tasks, generators)):
            rows = batch[..., None]
            logits = share * started.take_along_dim(rows, 1) + products.take_along_dim(rows, 1) @ coefficients + biases
            error = (logits.softmax(-1) - tasks.one_hot.take_along_dim(rows, 1)) / batch.shape[-1]
            slopes = [
                torch.zeros_like(share),
                torch.zeros_like(coefficients).scatter_(1, rows.expand_as(error), error),
                error.sum(1, keepdim=True),
            ]
            for value, speed, slope in zip(values, speeds, slopes, strict=True):
                self.descent.move(value, speed, slope, first=step == 0)
        return share * (query @ weights.mT) + (query @ support.mT) @ coefficients + biases


def first_weights(tasks: Tasks, generators: Sequence[torch.Generator]) -> Tensor:
    """(tasks, ways, features), as ``torch.nn.Linear`` draws them."""
    n_features = tasks.support.shape[-1]
    bound = 1 / math.sqrt(n_features)
    drawn = (torch.empty(tasks.ways, n_features).uniform_(-bound, bound, generator=each) for each in generators)
    return torch.stack(list(drawn))
