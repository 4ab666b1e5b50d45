"""MetaOptNet: features trained for a convex learner on the support (Lee, Maji, Ravichandran and Soatto 2019)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from condiff.errors import InvalidInputError
from condiff.reproduce.baselines.fewshot.episodic.method import (
    FALLING_SGD,
    EpisodicMethod,
    MetaTraining,
    is_omniglot,
    one_hot,
)
from condiff.reproduce.baselines.fewshot.episodic.quadratic import solve_bounded
from condiff.reproduce.baselines.method import check_probabilities
from condiff.reproduce.pretraining.episodic import Episode, EpisodicNetwork, ImageShape
from condiff.reproduce.runs import NO_CONDITION, Condition

if TYPE_CHECKING:
    from typing import Self

_SCHEDULE = replace(FALLING_SGD, shots=15, queries=6)
# Keeps a kernel of repeated images definite; far below any digit that matters.
_RIDGE = 1e-6


@dataclass(frozen=True)
class MetaOptNet(EpisodicMethod):
    r"""Logits :math:`s \sum_i \alpha_{ic}\, f(x_i) \cdot f(x)`, with :math:`\alpha` the dual solution on the support.

    ``svm`` is the multi-class machine of Crammer and Singer (2001),

    .. math:: \min_\alpha \tfrac12 \sum_c \Big\| \sum_i \alpha_{ic} f(x_i) \Big\|^2 - \sum_i \alpha_{i y_i}
              \quad \text{with} \quad \alpha_{ic} \le C [c = y_i], \quad \sum_c \alpha_{ic} = 0,

    and ``ridge`` is :math:`\alpha = 2 (K + \lambda I)^{-1} Y`. Gradients go through the solution. Settings are those of
    the authors' code (kjunelee/MetaOptNet): SGD from 0.1, eight episodes per step, 15 shots and 6 queries in training
    whatever the tasks have, labels smoothed. Its momentum is Nesterov's, which here it is not. On Omniglot, where they
    did not train, 5 shots: a class has 20 images.

    Parameters
    ----------
    training
        As above.
    head
        ``svm`` or ``ridge``.
    penalty
        C.
    ridge
        Lambda.
    smoothing
        Of the labels in training.
    """

    training: MetaTraining = _SCHEDULE
    head: Literal["svm", "ridge"] = "svm"
    penalty: float = 0.1
    ridge: float = 50.0
    smoothing: float = 0.1

    def __post_init__(self) -> None:
        check_probabilities(smoothing=self.smoothing)
        if self.head not in ("svm", "ridge"):
            raise InvalidInputError(f"head must be 'svm' or 'ridge', not {self.head!r}")
        for name in ("penalty", "ridge"):
            if not 0 < getattr(self, name) < float("inf"):
                raise InvalidInputError(f"{name} must be positive and finite, not {getattr(self, name)!r}")

    @classmethod
    def recommended(cls, dataset: str, condition: Condition = NO_CONDITION) -> Self:
        return cls(replace(_SCHEDULE, shots=5, augment=False) if is_omniglot(dataset) else _SCHEDULE)

    def build(self, image_shape: ImageShape, ways: int, shots: int, base_classes: int = 0) -> EpisodicNetwork:
        return ConvexNetwork(image_shape, self)


class ConvexNetwork(EpisodicNetwork):
    """See :class:`MetaOptNet`."""

    def __init__(self, image_shape: ImageShape, settings: MetaOptNet) -> None:
        super().__init__(image_shape)
        self.settings = settings
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, support: Tensor, labels: Tensor, query: Tensor) -> Tensor:
        support, query = self.embed(support, query)
        kernel, members = support @ support.mT, one_hot(labels)
        if self.settings.head == "svm":
            solution = svm_dual(kernel, members, self.settings.penalty)
        else:
            solution = ridge_dual(kernel, members, self.settings.ridge)
        return self.scale * (query @ support.mT) @ solution

    def loss(self, episode: Episode) -> Tensor:
        scores = self(episode.support, episode.labels, episode.query)
        # They leave 1 - smoothing to the class and share the rest among the others; torch shares it among all.
        ways = scores.shape[1]
        shared = self.settings.smoothing * ways / (ways - 1)
        return functional.cross_entropy(scores, episode.truth, label_smoothing=min(shared, 1.0))


def svm_dual(kernel: Tensor, members: Tensor, penalty: float) -> Tensor:
    """Alpha of the machine, (points, ways)."""
    points, ways = members.shape
    unit = torch.eye(ways, dtype=torch.float64)
    stable = kernel.double() + _RIDGE * torch.eye(points, dtype=torch.float64)
    flat = members.double().flatten()[None]
    found = solve_bounded(
        torch.kron(stable, unit)[None],
        -flat,
        penalty * flat,
        torch.kron(torch.eye(points, dtype=torch.float64), torch.ones(1, ways, dtype=torch.float64)),
        torch.zeros(1, points, dtype=torch.float64),
    )
    return found.view(points, ways).to(kernel.dtype)


def ridge_dual(kernel: Tensor, members: Tensor, ridge: float) -> Tensor:
    """Alpha of ridge regression, (points, ways)."""
    found: Tensor = torch.linalg.solve(kernel + ridge * torch.eye(len(kernel), dtype=kernel.dtype), 2 * members)
    return found
