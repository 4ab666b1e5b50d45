"""TIM: answers that are certain one by one and balanced all together (Boudiaf, Ziko, Rony, Dolz et al. 2020)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from condiff import kernels
from condiff.reproduce.baselines.fewshot.head import adam, adam_rates, cross_entropy_slope, entropy_slope
from condiff.reproduce.baselines.fewshot.method import BatchedMethod
from condiff.reproduce.baselines.fewshot.problem import Tasks
from condiff.reproduce.baselines.method import check_counts


@dataclass(frozen=True)
class TIM(BatchedMethod):
    r"""TIM-GD: minimise :math:`\lambda\,\mathrm{CE} - H(\hat Y) + \alpha H(\hat Y | X)` over the class weights by Adam.

    The cross-entropy is the support's, the two entropies are of the queries: the first, of the average answer, wants
    **as many queries of each class**; the second wants certain answers. Logits are
    :math:`-\tfrac{\tau}{2} \|x - w_c\|^2` on features of length 1, and the weights start from the class means. Settings
    of the authors' code (mboudiaf/TIM).

    Parameters
    ----------
    temperature
        Tau.
    support_weight, condition_weight
        Lambda and alpha.
    learning_rate, steps
        Adam's.
    """

    temperature: float = 15.0
    support_weight: float = 0.1
    condition_weight: float = 0.1
    learning_rate: float = 1e-4
    steps: int = 1000

    # Their features stay in the processor's cache for a thousand steps.
    at_once: ClassVar[int] = 6
    loops: ClassVar[tuple[str, ...]] = ("tim",)

    def __post_init__(self) -> None:
        check_counts(steps=self.steps)

    @property
    def iterations(self) -> int:
        return self.steps

    def scores(self, tasks: Tasks, seeds: Sequence[int]) -> Tensor:
        return (self._compiled if kernels.available() else self._plain)(tasks)

    def _compiled(self, tasks: Tasks) -> Tensor:
        from condiff.kernels.layout import in_blocks
        from condiff.kernels.tim import descend

        points, n_support = tasks.normalised.points, tasks.labels.shape[1]
        kind = points.numpy().dtype.type
        rates, roots = (np.array(each, kind) for each in zip(*adam_rates(self.learning_rate, self.steps), strict=True))
        numbers = self.temperature, self.support_weight, self.condition_weight, torch.finfo(points.dtype).tiny
        logits = torch.empty(len(tasks), points.shape[1], tasks.ways, dtype=points.dtype)
        for task, weights in enumerate(tasks.means(tasks.normalised.support)):
            inputs = in_blocks(points[task]), tasks.labels[task].numpy(), in_blocks(weights)
            descend(*inputs, logits[task].numpy(), rates, roots, *map(kind, numbers))
        return logits[:, n_support:]

    def _plain(self, tasks: Tasks) -> Tensor:
        """The same with torch's operations."""
        points, n_support, n_queries = tasks.normalised.points, tasks.labels.shape[1], tasks.query.shape[1]
        weights = tasks.means(tasks.normalised.support)

        def gradients(values: list[Tensor]) -> list[Tensor]:
            logs = self._logits(points, values[0]).log_softmax(-1)
            chances = logs.exp()
            support, query = chances.split([n_support, n_queries], dim=1)
            average = query.mean(1, keepdim=True).clamp_min(torch.finfo(query.dtype).tiny)
            surprise = self.condition_weight * logs[:, n_support:] - average.log()
            slope = torch.cat(
                [self.support_weight * cross_entropy_slope(support, tasks.one_hot), entropy_slope(query, surprise)],
                dim=1,
            )
            pulled = slope.mT @ points - slope.sum(1)[..., None] * values[0]
            return [self.temperature * pulled]

        adam([weights], gradients, self.learning_rate, self.steps)
        return self._logits(points[:, n_support:], weights)

    def _logits(self, points: Tensor, weights: Tensor) -> Tensor:
        # A point's own square is the same for all classes, so the softmax does not see it.
        inner = (weights @ points.mT).mT  # twice as fast as the product of the two the other way round
        return self.temperature * (inner - (weights * weights).sum(-1)[:, None] / 2)
