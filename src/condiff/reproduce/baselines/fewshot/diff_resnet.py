r"""Diff-ResNet on few-shot tasks: diffusion of the hidden features (Wang, Dou, Bao and Shi 2024).

The two wide weights are not touched after they are drawn. The first acts on the points alone, as in
:mod:`condiff.training.engines.gram`. The second, :math:`V`, is read by as few rows as there are classes: with the
classifier :math:`C` its gradient is :math:`C^T B` for :math:`B` of (ways, features), so that after t epochs

.. math:: V = c\,V_0 + \sum_{\tau < t} k_\tau C_\tau^T B_\tau

with numbers c and k that momentum and weight decay give. An epoch then reads :math:`V_0`, twice without compiled loops
and once with them, and writes nothing wide.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from condiff import kernels
from condiff.errors import InvalidInputError
from condiff.reproduce.baselines.fewshot.coin import check_diffusion, diffusion_matrix
from condiff.reproduce.baselines.fewshot.method import BatchedMethod, shots_of
from condiff.reproduce.baselines.fewshot.problem import Tasks
from condiff.reproduce.runs import NO_CONDITION, Condition
from condiff.training import FEW_SHOT, Training

if TYPE_CHECKING:
    from typing import Self


@dataclass(frozen=True)
class DiffResNet(BatchedMethod):
    r"""Logits :math:`C\,(I - \sigma^2 L)^K (x + V \operatorname{relu}(U x + a) + b) + d`, by the cross-entropy.

    On centred features with the queries shifted to the support, and COIN's graph. Settings of the authors' code
    (shwangtangjun/Diff-ResNet), whose example of a 1-shot task has 6 layers of strength 0.5. It names no number for
    more examples; on twelve validation classes of CUB, 2 was as good as 4 and 6. The prototype loss, whose weight
    there is 0 unless one is given, is left out.

    Parameters
    ----------
    layers, strength
        The diffusion: K and sigma squared.
    n_neighbors, bandwidth_rank
        The ranks at which a point's weights are cut and whose distance is their bandwidth.
    training
        Gradient descent (``sgd``) and its schedule.
    """

    layers: int = 6
    strength: float = 0.5
    n_neighbors: int = 8
    bandwidth_rank: int = 4
    training: Training = FEW_SHOT

    loops: ClassVar[tuple[str, ...]] = ("diff_resnet",)

    def __post_init__(self) -> None:
        check_diffusion(self.layers, self.strength)
        if self.training.optimiser != "sgd":
            raise InvalidInputError(f"Diff-ResNet's fit is for sgd, not {self.training.optimiser}")

    @classmethod
    def recommended(cls, dataset: str, condition: Condition = NO_CONDITION) -> Self:
        return cls(layers=6 if shots_of(condition) == 1 else 2)

    @property
    def iterations(self) -> int:
        return self.training.epochs

    def scores(self, tasks: Tasks, seeds: Sequence[int]) -> Tensor:
        points, n_support = tasks.shifted.points, tasks.labels.shape[1]
        spread = diffusion_matrix(points, self.n_neighbors, self.bandwidth_rank, self.layers, self.strength)
        fit = _fit_compiled if kernels.available() else _fit_torch
        drawn = (_drawn(points.shape[-1], tasks.ways, seed) for seed in seeds)
        each = zip(points, spread, tasks.labels, drawn, strict=True)
        return torch.stack([fit(*task, self.training)[n_support:] for task in each])


class _Weights(NamedTuple):
    """Of a network's two wide layers and its classifier."""

    inner: Tensor
    inner_bias: Tensor
    second: Tensor
    second_bias: Tensor
    classifier: Tensor
    bias: Tensor


def _drawn(n_features: int, ways: int, seed: int) -> _Weights:
    """The first weights, as ``nn.Linear`` draws them under ``torch.manual_seed``."""
    generator, bound = torch.Generator().manual_seed(seed), 1 / math.sqrt(n_features)
    wide, outer = (n_features, n_features), (ways, n_features)
    shapes: list[tuple[int, ...]] = [wide, (n_features,), wide, (n_features,), outer, (ways,)]
    return _Weights(*(torch.empty(shape).uniform_(-bound, bound, generator=generator) for shape in shapes))


@cache
def _factors(training: Training) -> Tensor:
    """Before each epoch and after the last, what is left of V's first value and of what each epoch added to it."""
    factors, speeds = torch.zeros(2, 1 + training.epochs, dtype=torch.float64)
    factors[0] = 1.0
    table = [factors.clone()]
    for epoch in range(training.epochs):
        speeds.mul_(training.momentum).add_(factors, alpha=training.weight_decay)
        speeds[1 + epoch] += 1.0
        factors.sub_(speeds, alpha=training.learning_rate_at(epoch))
        table.append(factors.clone())
    return torch.stack(table).float()


def _fit_compiled(x: Tensor, spread: Tensor, truth: Tensor, first: _Weights, training: Training) -> Tensor:
    """Fit the network to a task by compiled loops; its logits of all points."""
    from condiff.kernels.diff_resnet import train
    from condiff.kernels.layout import in_blocks
    from condiff.kernels.vectors import WIDTH

    missing = -x.shape[1] % WIDTH
    wide = torch.nn.functional.pad(first.second, (0, missing, 0, missing)).reshape(-1, WIDTH)
    small = torch.cat([first.classifier, first.inner_bias[None], first.second_bias[None]])
    plain, kind = torch.empty(len(x), len(first.bias)), np.float32
    rates = np.array([training.learning_rate_at(epoch) for epoch in range(training.epochs)], kind)
    train(
        (x @ x.mT).numpy(),
        spread[: len(truth)].numpy(),
        truth.numpy(),
        in_blocks(x),
        in_blocks(x @ first.inner.mT),
        wide.numpy(),
        in_blocks(small),
        first.bias.numpy(),
        _factors(training).numpy(),
        rates,
        kind(training.momentum),
        kind(training.weight_decay),
        plain.numpy(),
    )
    return spread @ plain + first.bias


def _fit_torch(x: Tensor, spread: Tensor, truth: Tensor, first: _Weights, training: Training) -> Tensor:
    """The same with torch's operations."""
    inner, inner_bias, wide, second_bias, classifier, bias = first
    (ways, n_features), n_support = classifier.shape, len(truth)
    expected = torch.nn.functional.one_hot(truth, ways).to(x.dtype)
    hidden, products, known, factors = x @ inner.mT, x @ x.mT, spread[:n_support], _factors(training)
    values = [hidden, inner_bias, second_bias, classifier, bias]
    speeds = [torch.zeros_like(value) for value in values]
    # Of every epoch the classifier, and what it moved V along: C and B.
    lefts, rights = x.new_empty(2, training.epochs * ways, n_features)

    def past(epoch: int, rows: Tensor, one: Tensor, other: Tensor) -> Tensor:
        """The product of rows with what the epochs before this one added to V, or with its transpose."""
        used, left_of_it = epoch * ways, factors[epoch, 1 : 1 + epoch].repeat_interleave(ways)
        return ((rows @ one[:used].mT) * left_of_it) @ other[:used]

    def outputs(epoch: int) -> tuple[Tensor, Tensor, Tensor]:
        """Hidden units, the weights that read them out, and the logits before the diffusion without the last bias."""
        active = (hidden + inner_bias).relu()
        readout = factors[epoch, 0] * (classifier @ wide) + past(epoch, classifier, lefts, rights)
        return active, readout, (x + second_bias) @ classifier.mT + active @ readout.mT

    for epoch in range(training.epochs):
        active, readout, plain = outputs(epoch)
        error = ((known @ plain + bias).softmax(-1) - expected) / n_support
        slope = known.mT @ error  # by what is diffused
        summed, total = slope.mT @ active, slope.sum(0)
        into = (slope @ readout) * (active > 0)
        to_classifier = slope.mT @ x + total[:, None] * second_bias
        to_classifier += factors[epoch, 0] * (summed @ wide.mT) + past(epoch, summed, rights, lefts)
        gradients = [products @ into, into.sum(0), total @ classifier, to_classifier, error.sum(0)]
        now = slice(epoch * ways, (epoch + 1) * ways)
        lefts[now], rights[now] = classifier, summed
        for value, speed, gradient in zip(values, speeds, gradients, strict=True):
            speed.mul_(training.momentum).add_(gradient).add_(value, alpha=training.weight_decay)
            value.sub_(speed, alpha=training.learning_rate_at(epoch))
    return spread @ outputs(training.epochs)[2] + bias
