"""EPNet: features, then labels, propagated over a task's graph (Rodriguez, Laradji, Drouin and Lacoste 2020)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from condiff.errors import InvalidInputError
from condiff.reproduce.baselines.fewshot.method import BatchedMethod
from condiff.reproduce.baselines.fewshot.problem import Tasks, squared_distances


@dataclass(frozen=True)
class EPNet(BatchedMethod):
    r""":math:`\tilde X = (I - \alpha S)^{-1} X`, then labels by the same with a graph of :math:`\tilde X`.

    :math:`S = D^{-1/2} W D^{-1/2}`, :math:`w_{ij} = \exp(-\gamma\, d_{ij} / \operatorname{std}(d))` for
    :math:`d_{ij} = \|x_i - x_j\|^2 / \sqrt{m}` with m features, and no loops. The rows of the labels' propagator are
    scaled to sum to 1, and the score is the logarithm. Settings of the authors' code
    (ServiceNow/embedding-propagation), which trains the features along with this; here they are given.

    Parameters
    ----------
    embedding_alpha, label_alpha
        How much is taken from neighbours, in the two steps.
    scale
        Gamma.
    """

    embedding_alpha: float = 0.5
    label_alpha: float = 0.2
    scale: float = 1.0

    def __post_init__(self) -> None:
        for name in ("embedding_alpha", "label_alpha"):
            if not 0 <= getattr(self, name) < 1:
                raise InvalidInputError(f"{name} must be at least 0 and below 1, not {getattr(self, name)!r}")

    def scores(self, tasks: Tasks, seeds: Sequence[int]) -> Tensor:
        points, n_support = tasks.raw.points.double(), tasks.labels.shape[1]
        points = torch.linalg.solve(self._system(points, self.embedding_alpha), points)
        system = self._system(points, self.label_alpha)
        known = torch.nn.functional.pad(tasks.one_hot.double(), (0, 1, 0, points.shape[1] - n_support))
        known[..., -1] = 1.0  # its solution is the propagator's row sums
        reached = torch.linalg.solve(system, known)[:, n_support:]
        shares: Tensor = reached[..., :-1] / reached[..., -1:]
        return (shares + 1e-6).log()

    def _system(self, points: Tensor, alpha: float) -> Tensor:
        n_points, n_features = points.shape[1:]
        squares = squared_distances(points, points) / math.sqrt(n_features)
        others = ~torch.eye(n_points, dtype=torch.bool)
        deviation = squares[:, others].std(-1)[:, None, None].clamp_min(torch.finfo(squares.dtype).tiny)
        weights = torch.exp(-self.scale * squares / deviation) * others
        scale = (1e-4 + weights.sum(-1)).rsqrt()
        return torch.eye(n_points) - alpha * scale[..., :, None] * weights * scale[..., None, :]
