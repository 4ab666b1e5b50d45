"""COIN on few-shot tasks: a residual network on the features, then diffusion of its answers between the points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from condiff.diffusion.euler import Euler
from condiff.errors import InvalidInputError
from condiff.graph.batch import kernel_laplacians
from condiff.reproduce.baselines.fewshot.method import BatchedMethod, shots_of
from condiff.reproduce.baselines.fewshot.problem import Tasks
from condiff.training import FEW_SHOT, Training
from condiff.training.gram import fit_tasks

if TYPE_CHECKING:
    from typing import Self


@dataclass(frozen=True)
class COIN(BatchedMethod):
    """One residual block as wide as the features, softmax, then Euler steps of diffusion over a kernel graph.

    On centred features with the queries shifted to the support; the graph joins both. The paper's settings: 10 layers
    with one example a class; with more of them 4, and 2 on tieredImageNet. Fitted by the engine in Gram space.

    Parameters
    ----------
    layers, strength
        The diffusion: K and sigma squared.
    n_neighbors, bandwidth_rank
        The ranks at which a point's weights are cut and whose distance is their bandwidth.
    training
        Optimiser and schedule.
    """

    layers: int = 10
    strength: float = 0.5
    n_neighbors: int = 8
    bandwidth_rank: int = 4
    training: Training = FEW_SHOT

    loops: ClassVar[tuple[str, ...]] = ("gram", "draw")

    def __post_init__(self) -> None:
        check_diffusion(self.layers, self.strength)

    @classmethod
    def recommended(cls, dataset: str) -> Self:
        if shots_of(dataset) == 1:
            return cls()
        return cls(layers=2 if dataset.startswith("tiered") else 4)

    @property
    def iterations(self) -> int:
        return self.training.epochs

    def scores(self, tasks: Tasks, seeds: Sequence[int]) -> Tensor:
        points, n_known = tasks.shifted.points, tasks.labels.shape[1]
        spread = diffusion_matrix(points, self.n_neighbors, self.bandwidth_rank, self.layers, self.strength)
        first = fit_tasks(points, spread[:, :n_known], tasks.labels, tasks.ways, seeds=seeds, settings=self.training)
        return spread[:, n_known:] @ first


def diffusion_matrix(points: Tensor, n_neighbors: int, bandwidth_rank: int, layers: int, strength: float) -> Tensor:
    """:math:`(I - strength L)^{layers}` for the kernel graph of each cloud, (clouds, n, n)."""
    operator = kernel_laplacians(points, n_neighbors, bandwidth_rank)
    identity = torch.eye(points.shape[1], dtype=points.dtype).expand(len(points), -1, -1)
    return Euler()(operator, identity, strength, layers)


def check_diffusion(layers: int, strength: float) -> None:
    """Refuse settings of the diffusion that mean nothing."""
    if not isinstance(layers, int) or layers < 0:
        raise InvalidInputError(f"layers must be a whole number, 0 or more, not {layers!r}")
    if not 0 < strength < float("inf"):
        raise InvalidInputError(f"strength must be positive and finite, not {strength!r}")
