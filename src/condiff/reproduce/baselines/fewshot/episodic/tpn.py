"""TPN: a transductive propagation network (Liu, Lee, Park, Kim, Yang, Hwang and Yang 2019)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

from condiff.errors import InvalidInputError
from condiff.reproduce.baselines.fewshot.episodic.method import (
    EpisodicMethod,
    MetaTraining,
    for_dataset,
    one_hot,
)
from condiff.reproduce.baselines.method import check_counts
from condiff.reproduce.pretraining.episodic import Episode, EpisodicNetwork, ImageShape
from condiff.reproduce.runs import NO_CONDITION, Condition

if TYPE_CHECKING:
    from typing import Self

_SCHEDULE = MetaTraining(drop_every=10_000)


@dataclass(frozen=True)
class TPN(EpisodicMethod):
    r""":math:`F = (I - \alpha S)^{-1} Y` with :math:`S = D^{-1/2} W D^{-1/2}` of support and queries together.

    .. math:: w_{ij} = \exp\Big(-\tfrac12 \operatorname{mean}\big(f(x_i)/\sigma_i - f(x_j)/\sigma_j\big)^2\Big),

    the mean being over features, kept where either point is among the other's nearest. A network of two more blocks
    and two linear layers gives each point its length scale :math:`\sigma_i`. The loss is the cross-entropy of F, taken
    as logits, over support and queries. Settings are those of the authors' code (csyanbin/TPN-pytorch).

    Parameters
    ----------
    training
        Adam from 1e-3, halved every 10,000 episodes.
    alpha
        How much a point takes from its neighbours.
    n_neighbors
        How many a point has, itself being the first.
    """

    training: MetaTraining = _SCHEDULE
    alpha: float = 0.99
    n_neighbors: int = 20

    def __post_init__(self) -> None:
        check_counts(n_neighbors=self.n_neighbors)
        if not 0 <= self.alpha < 1:
            raise InvalidInputError(f"alpha must be at least 0 and below 1, not {self.alpha!r}")

    @classmethod
    def recommended(cls, dataset: str, condition: Condition = NO_CONDITION) -> Self:
        return cls(for_dataset(_SCHEDULE, dataset))

    def build(self, image_shape: ImageShape, ways: int, shots: int, base_classes: int = 0) -> EpisodicNetwork:
        return PropagationNetwork(image_shape, self.alpha, self.n_neighbors)


class PropagationNetwork(EpisodicNetwork):
    """See :class:`TPN`."""

    def __init__(self, image_shape: ImageShape, alpha: float, n_neighbors: int) -> None:
        super().__init__(image_shape)
        self.alpha, self.n_neighbors = alpha, n_neighbors
        side = image_shape[1] // 16
        for _ in range(2):
            side = side // 2 + 1  # pooled with a border
        self.scales = nn.Sequential(
            *_block(64), *_block(1), nn.Flatten(), nn.Linear(side**2, 8), nn.ReLU(), nn.Linear(8, 1)
        )

    def everyone(self, support: Tensor, labels: Tensor, query: Tensor) -> Tensor:
        """F of the support, then of the queries, (points, ways)."""
        maps = self.maps(torch.cat([support, query]))
        scales: Tensor = self.scales(maps)
        rows = maps.flatten(1) / (scales + torch.finfo(torch.float64).eps)
        weights = neighbour_weights(rows, self.n_neighbors)
        known = functional.pad(one_hot(labels), (0, 0, 0, len(query)))
        return propagated(weights, known, self.alpha)

    def forward(self, support: Tensor, labels: Tensor, query: Tensor) -> Tensor:
        return self.everyone(support, labels, query)[len(support) :]

    def loss(self, episode: Episode) -> Tensor:
        scores = self.everyone(episode.support, episode.labels, episode.query)
        return functional.cross_entropy(scores, torch.cat([episode.labels, episode.truth]))


def neighbour_weights(rows: Tensor, n_neighbors: int) -> Tensor:
    """W of the formula, for points that are divided by their length scales already."""
    # By differences and not by a matrix product: where a length scale is near zero the rows are so long that rounding
    # would take a point away from itself, leave it without any weight, and make the propagation divide by zero.
    distances = torch.cdist(rows, rows, compute_mode="donot_use_mm_for_euclid_dist").square()
    weights = torch.exp(-distances / (2 * rows.shape[1]))
    nearest = weights.topk(min(n_neighbors, len(rows)), dim=-1).indices
    kept = torch.zeros_like(weights, dtype=torch.bool).scatter_(-1, nearest, True)
    return torch.where(kept | kept.mT, weights, 0.0)


def propagated(weights: Tensor, known: Tensor, alpha: float) -> Tensor:
    """F of the formula, solved in double precision: the system is nearly singular for alpha near 1."""
    wide = weights.double()
    scale = wide.sum(-1).rsqrt()
    system = torch.eye(len(wide), dtype=wide.dtype) - alpha * scale[:, None] * wide * scale
    reached: Tensor = torch.linalg.solve(system, known.double())
    return reached.to(weights.dtype)


def _block(out_channels: int) -> list[nn.Module]:
    return [
        nn.Conv2d(64, out_channels, 3, padding=1),
        nn.BatchNorm2d(out_channels),
        nn.ReLU(),
        nn.MaxPool2d(2, padding=1),
    ]
