"""LaplacianShot: nearest prototypes, with neighbouring queries answered alike (Ziko, Dolz, Granger, Ben Ayed 2020)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from condiff.reproduce.baselines.fewshot.bd_cspn import rectified
from condiff.reproduce.baselines.fewshot.method import BatchedMethod, shots_of
from condiff.reproduce.baselines.fewshot.problem import Tasks, squared_distances
from condiff.reproduce.baselines.method import check_counts
from condiff.reproduce.runs import NO_CONDITION, Condition

if TYPE_CHECKING:
    from typing import Self


@dataclass(frozen=True)
class LaplacianShot(BatchedMethod):
    r"""Iterate :math:`y_i \leftarrow \operatorname{softmax}_c(-a_{ic} + \lambda \sum_j w_{ij} y_{jc})`.

    :math:`a_{ic} = \|x_i - \mu_c\|^2` with the rectified prototypes of BD-CSPN, :math:`w_{ij} = 1` if query j is among
    the nearest of query i; on centred features, the queries shifted to the support. The iteration lowers the
    article's energy, and ends when that changes by less than ``tolerance`` of it. Settings of the authors' code
    (imtiazziko/LaplacianShot): lambda is tuned there on the validation classes; 0.7 with one example per class and 0.3
    with more were found for miniImageNet and CUB (code of Veilleux et al. 2021).

    Parameters
    ----------
    smoothing
        Lambda.
    n_neighbors
        How many nearest queries count, a query being its own first neighbour.
    sharpness
        Of the rectification.
    steps, tolerance
        When to end.
    """

    smoothing: float = 0.7
    n_neighbors: int = 3
    sharpness: float = 10.0
    steps: int = 20
    tolerance: float = 1e-6

    def __post_init__(self) -> None:
        check_counts(n_neighbors=self.n_neighbors, steps=self.steps)

    @classmethod
    def recommended(cls, dataset: str, condition: Condition = NO_CONDITION) -> Self:
        return cls(smoothing=0.7 if shots_of(condition) == 1 else 0.3)

    @property
    def iterations(self) -> int:
        return self.steps

    def scores(self, tasks: Tasks, seeds: Sequence[int]) -> Tensor:
        query = tasks.shifted.query
        cost = squared_distances(query, rectified(tasks, tasks.shifted, self.sharpness))
        weights = neighbour_weights(query, self.n_neighbors - 1)
        answers = (-cost).softmax(-1)
        energy = torch.full((len(tasks), 1, 1), torch.inf)
        moving = torch.ones_like(energy, dtype=torch.bool)
        for step in range(self.steps):
            found = (self.smoothing * weights @ answers - cost).softmax(-1)
            answers = torch.where(moving, found, answers)
            logs = answers.clamp_min(1e-20).log()
            new = (answers * (logs + cost - self.smoothing * weights @ answers)).sum((1, 2), keepdim=True)
            if step > 1:
                moving &= (new - energy).abs() > self.tolerance * energy.abs()
            if not moving.any():
                break
            energy = new
        return answers


def neighbour_weights(points: Tensor, count: int) -> Tensor:
    """1 from every point to each of its ``count`` nearest others, 0 elsewhere: (tasks, points, points)."""
    squares = squared_distances(points, points)
    squares.diagonal(dim1=1, dim2=2).fill_(torch.inf)
    nearest = squares.topk(min(count, points.shape[1] - 1), dim=-1, largest=False).indices
    return torch.zeros_like(squares).scatter_(-1, nearest, 1.0)
