"""PT-MAP: power transform, then class centres by optimal transport of the queries (Hu, Gripon and Pateux 2021)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from condiff.reproduce.baselines.fewshot.method import BatchedMethod
from condiff.reproduce.baselines.fewshot.problem import Features, Tasks
from condiff.reproduce.baselines.fewshot.transforms import powered, separately_centred
from condiff.reproduce.baselines.method import check_counts


@dataclass(frozen=True)
class PTMAP(BatchedMethod):
    r"""Alternate the queries' allocation to classes, by Sinkhorn's algorithm, with the classes' centres.

    The allocation is the plan of least :math:`\sum_{ij} P_{ij} \|x_i - \mu_j\|^2`, less its entropy by
    :math:`\lambda`, whose rows sum to 1 and whose columns to queries / ways: **as many queries of each class** are
    taken for granted. Centres move by ``rate`` towards the means over the support and the allocated queries. Settings
    of the authors' code (yhu01/PT-MAP). Its QR reduction changes no distance; here the centres are kept as combinations
    of the points and distances come from the points' inner products, which is the same and takes less.

    Parameters
    ----------
    exponent
        Beta of the power transform.
    sharpness
        Lambda.
    rate
        How far the centres move at once: alpha.
    steps
        How often.
    tolerance, most_scalings
        Sinkhorn's algorithm ends when no row's sum changes by more than this, or after this many rounds.
    """

    exponent: float = 0.5
    sharpness: float = 10.0
    rate: float = 0.2
    steps: int = 20
    tolerance: float = 1e-6
    most_scalings: int = 1000

    def __post_init__(self) -> None:
        check_counts(steps=self.steps, most_scalings=self.most_scalings)

    @property
    def iterations(self) -> int:
        return self.steps

    def scores(self, tasks: Tasks, seeds: Sequence[int]) -> Tensor:
        powers = (powered(part, self.exponent) for part in tasks.raw)
        points = Features(*separately_centred(*powers)).points.double()
        products, known = points @ points.mT, tasks.one_hot.double()
        n_queries = tasks.query.shape[1]
        # Column c has the coefficients of the centre of class c.
        centres = torch.cat([known / known.sum(1, keepdim=True), known.new_zeros(len(tasks), n_queries, tasks.ways)], 1)
        for _ in range(self.steps):
            allocation = torch.cat([known, self._transport(products, centres, n_queries)], dim=1)
            centres = centres + self.rate * (allocation / allocation.sum(1, keepdim=True) - centres)
        return self._transport(products, centres, n_queries)

    def _transport(self, products: Tensor, centres: Tensor, n_queries: int) -> Tensor:
        across = products @ centres
        squares = products.diagonal(dim1=1, dim2=2)[..., None] - 2 * across + (centres * across).sum(1, keepdim=True)
        cost = squares[:, -n_queries:]
        return sinkhorn(
            torch.exp(-self.sharpness * cost), n_queries / centres.shape[-1], self.tolerance, self.most_scalings
        )


def sinkhorn(plan: Tensor, column_sum: float, tolerance: float, most: int) -> Tensor:
    """Scale positive (tasks, rows, columns) until rows sum to 1 and columns to ``column_sum``; each task on its own."""
    plan = plan / plan.sum((1, 2), keepdim=True)
    found, left, before = torch.empty_like(plan), torch.arange(len(plan)), torch.zeros_like(plan[..., :1])
    for _ in range(most):
        rows = plan.sum(2, keepdim=True)
        moving = (rows - before).abs().amax((1, 2)) > tolerance
        if not moving.all():  # a task that is done stays as it is, and costs nothing more
            found[left[~moving]] = plan[~moving]
            plan, rows, left = plan[moving], rows[moving], left[moving]
            if not len(left):
                break
        plan = plan / rows
        plan *= column_sum / plan.sum(1, keepdim=True)
        before = rows
    found[left] = plan
    return found
