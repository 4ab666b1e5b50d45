"""COIN on few-shot tasks: a residual network on the features, then diffusion of its answers between the points."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from condiff.diffusion.euler import Euler
from condiff.errors import InvalidInputError, StepSizeWarning
from condiff.graph import DenseLaplacian
from condiff.graph.batch import kernel_laplacians
from condiff.model import COIN as Network
from condiff.reproduce.baselines.fewshot.method import BatchedMethod, shots_of
from condiff.reproduce.baselines.fewshot.problem import Tasks
from condiff.reproduce.runs import NO_CONDITION, Condition
from condiff.training import FEW_SHOT, Problem, Training, fit

if TYPE_CHECKING:
    from typing import Self


@dataclass(frozen=True)
class COIN(BatchedMethod):
    """One residual block as wide as the features, softmax, then Euler steps of diffusion over a kernel graph.

    On centred features with the queries shifted to the support; the graph joins both. The paper's settings: 10 layers
    with one example per class; with more of them 4, and 2 on tieredImageNet. Fitted by the engine in Gram space.

    Parameters
    ----------
    layers, strength
        The diffusion: K and sigma squared.
    n_neighbors, bandwidth_rank
        The neighbour beyond which a point's weights are cut, and the one whose distance is the bandwidth.
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
    def recommended(cls, dataset: str, condition: Condition = NO_CONDITION) -> Self:
        if shots_of(condition) == 1:
            return cls()
        return cls(layers=2 if dataset.startswith("tiered") else 4)

    @property
    def iterations(self) -> int:
        return self.training.epochs

    def scores(self, tasks: Tasks, seeds: Sequence[int]) -> Tensor:
        points, n_support = tasks.shifted.points, tasks.labels.shape[1]
        graphs = kernel_laplacians(points, self.n_neighbors, self.bandwidth_rank).weights
        with torch.device("meta"):  # each task's weights are drawn from its seed, when its turn comes
            network = Network.build(points.shape[-1], tasks.ways, layers=self.layers, strength=self.strength)
        operators = [DenseLaplacian(graph, symmetric=True) for graph in graphs]
        nodes, labels = torch.arange(n_support), tasks.labels
        first = Problem(
            network.to(points.dtype), points[0], operators[0], labels[0], nodes=nodes, settings=self.training
        )
        problems = [
            first.replace(x=x, graph=operator, target=target, seed=seed)
            for x, operator, target, seed in zip(points, operators, labels, seeds, strict=True)
        ]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", StepSizeWarning)  # the paper's own strength
            fitted = fit(problems, "gram")
        # All tasks in one product, as when the committed figures were made: its rounding depends on their number.
        matrices = torch.stack([each.matrix[n_support:] for each in fitted if each.matrix is not None])
        return matrices @ torch.stack([each.base_outputs for each in fitted])


def diffusion_matrix(points: Tensor, n_neighbors: int, bandwidth_rank: int, layers: int, strength: float) -> Tensor:
    """:math:`(I - strength L)^{layers}` for the kernel graph of each cloud, (clouds, n, n)."""
    operator = kernel_laplacians(points, n_neighbors, bandwidth_rank)
    identity = torch.eye(points.shape[1], dtype=points.dtype).expand(len(points), -1, -1)
    return Euler()(operator, identity, strength, layers)


def check_diffusion(layers: int, strength: float) -> None:
    """Refuse invalid settings of the diffusion."""
    if not isinstance(layers, int) or layers < 0:
        raise InvalidInputError(f"layers must be a whole number, 0 or more, not {layers!r}")
    if not 0 < strength < float("inf"):
        raise InvalidInputError(f"strength must be positive and finite, not {strength!r}")
