r"""Diff-ResNet on few-shot tasks: diffusion of the hidden features (Wang, Dou, Bao and Shi 2024).

The two wide weights are not touched after they are drawn. The first acts on the points alone, as in
:mod:`condiff.training.gram`. The second, :math:`V`, is read by as few rows as there are classes: with the classifier
:math:`C` its gradient is :math:`C^T B` for :math:`B` of (ways, features), so that after t epochs

.. math:: V = c\,V_0 + \sum_{\tau < t} k_\tau C_\tau^T B_\tau

with numbers c and k that momentum and weight decay give. An epoch then reads :math:`V_0`, twice without compiled loops
and once with them, and writes nothing wide.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from condiff.baselines.fewshot.coin import check_diffusion, diffusion_matrix
from condiff.baselines.fewshot.method import BatchedMethod, shots_of
from condiff.baselines.fewshot.problem import Tasks
from condiff.errors import InvalidInputError
from condiff.training import FEW_SHOT, Training
from condiff.training.compiled import is_available

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

    def __post_init__(self) -> None:
        check_diffusion(self.layers, self.strength)
        if self.training.optimiser != "sgd":
            raise InvalidInputError(f"Diff-ResNet's fit is for sgd, not {self.training.optimiser}")

    @classmethod
    def recommended(cls, dataset: str) -> Self:
        return cls(layers=6 if shots_of(dataset) == 1 else 2)

    @property
    def iterations(self) -> int:
        return self.training.epochs

    def scores(self, tasks: Tasks, seeds: Sequence[int]) -> Tensor:
        points, n_known = tasks.shifted.points, tasks.labels.shape[1]
        spread = diffusion_matrix(points, self.n_neighbors, self.bandwidth_rank, self.layers, self.strength)
        each = zip(points, spread, tasks.one_hot, seeds, strict=True)
        return torch.stack([_fit(x, rows, truth, seed, self.training)[n_known:] for x, rows, truth, seed in each])


class _Added:
    """What the epochs have added to the weight V, and the factor that is left of its first value."""

    def __init__(self, like: Tensor, ways: int, training: Training) -> None:
        self.ways, self.training = ways, training
        room = (training.epochs * ways, len(like))
        self.left, self.right = like.new_empty(room), like.new_empty(room)
        # Of the first value and of every epoch: the factor, and its speed.
        self.factors, self.speeds = like.new_zeros(2, 1 + training.epochs)
        self.factors[0] = 1.0
        self.epoch = 0

    def before(self, rows: Tensor) -> Tensor:
        """``rows (V - c V_0)``."""
        return self._sum(rows, self.left, self.right)

    def behind(self, rows: Tensor) -> Tensor:
        """``rows (V - c V_0)^T``."""
        return self._sum(rows, self.right, self.left)

    def _sum(self, rows: Tensor, left: Tensor, right: Tensor) -> Tensor:
        used = self.epoch * self.ways
        factors = self.factors[1 : 1 + self.epoch].repeat_interleave(self.ways)
        summed: Tensor = ((rows @ left[:used].mT) * factors) @ right[:used]
        return summed

    def step(self, left: Tensor, right: Tensor) -> None:
        """Descend along ``left^T right``."""
        new = slice(self.epoch * self.ways, (self.epoch + 1) * self.ways)
        self.left[new], self.right[new] = left, right
        self.speeds.mul_(self.training.momentum).add_(self.factors, alpha=self.training.weight_decay)
        self.speeds[1 + self.epoch] += 1.0
        self.factors.sub_(self.speeds, alpha=self.training.learning_rate_at(self.epoch))
        self.epoch += 1


class _Classifier:
    """The classifier C and its product with the first value of V."""

    def __init__(self, values: Tensor, wide: Tensor, training: Training) -> None:
        self.values, self.wide, self.training = values, wide, training
        self.speed = torch.zeros_like(values)
        self.product = values @ wide

    def move(self, factor: float, summed: Tensor, gradient: Tensor, epoch: int) -> None:
        """One step along ``gradient + factor * summed V_0^T``."""
        gradient = gradient + factor * (summed @ self.wide.mT)
        self.speed.mul_(self.training.momentum).add_(gradient).add_(self.values, alpha=self.training.weight_decay)
        self.values.sub_(self.speed, alpha=self.training.learning_rate_at(epoch))
        self.product = self.values @ self.wide


class _CompiledClassifier(_Classifier):
    """The same by a loop that reads V once."""

    def move(self, factor: float, summed: Tensor, gradient: Tensor, epoch: int) -> None:
        from condiff.baselines.fewshot.diff_resnet_kernels import move_and_read
        from condiff.training.vectors import WIDTH

        kind = self.values.numpy().dtype.type
        numbers = self.training.learning_rate_at(epoch), self.training.momentum, self.training.weight_decay
        wide, sums, product = (each.reshape(-1, WIDTH).numpy() for each in (self.wide, summed, self.product))
        arrays = (each.numpy() for each in (gradient, self.values, self.speed))
        move_and_read(wide, kind(factor), sums, *arrays, product, *map(kind, numbers))


def _classifier(values: Tensor, wide: Tensor, training: Training) -> _Classifier:
    if not is_available():
        return _Classifier(values, wide, training)
    from condiff.training.vectors import WIDTH

    # Rows of whole blocks, as the features of all backbones are.
    return (_Classifier if wide.shape[1] % WIDTH else _CompiledClassifier)(values, wide, training)


def _fit(x: Tensor, spread: Tensor, truth: Tensor, seed: int, training: Training) -> Tensor:
    """Fit the network to a task; its logits of all points."""
    (n_known, ways), n_features = truth.shape, x.shape[1]
    generator, bound = torch.Generator().manual_seed(seed), 1 / math.sqrt(n_features)
    wide, outer = (n_features, n_features), (ways, n_features)
    shapes: list[tuple[int, ...]] = [wide, (n_features,), wide, (n_features,), outer, (ways,)]
    drawn = [torch.empty(shape).uniform_(-bound, bound, generator=generator) for shape in shapes]
    inner, inner_bias, second, second_bias, first_values, bias = drawn
    classifier, added = _classifier(first_values, second, training), _Added(second, ways, training)
    hidden, products, known = x @ inner.mT, x @ x.mT, spread[:n_known]
    values = [hidden, inner_bias, second_bias, bias]
    speeds = [torch.zeros_like(value) for value in values]
    # Fresh memory for these in every epoch would take longer than what is computed into it.
    active, into, signs, pulled = (torch.empty_like(x) for _ in range(4))

    def plain(readout: Tensor) -> Tensor:
        return x @ classifier.values.mT + active @ readout.mT + second_bias @ classifier.values.mT

    for epoch in range(training.epochs):
        torch.add(hidden, inner_bias, out=active).relu_()
        factor = float(added.factors[0])
        readout = factor * classifier.product + added.before(classifier.values)
        error = ((known @ plain(readout) + bias).softmax(-1) - truth) / n_known
        slope = known.mT @ error  # by what is diffused
        summed, total = slope.mT @ active, slope.sum(0)
        torch.mm(slope, readout, out=into).mul_(torch.sign(active, out=signs))
        gradients = [torch.mm(products, into, out=pulled), into.sum(0), total @ classifier.values, error.sum(0)]
        to_classifier = slope.mT @ x + added.behind(summed) + total[:, None] * second_bias
        added.step(classifier.values, summed)
        classifier.move(factor, summed, to_classifier, epoch)
        for value, speed, gradient in zip(values, speeds, gradients, strict=True):
            speed.mul_(training.momentum).add_(gradient).add_(value, alpha=training.weight_decay)
            value.sub_(speed, alpha=training.learning_rate_at(epoch))
    torch.add(hidden, inner_bias, out=active).relu_()
    readout = added.factors[0] * classifier.product + added.before(classifier.values)
    return spread @ plain(readout) + bias
