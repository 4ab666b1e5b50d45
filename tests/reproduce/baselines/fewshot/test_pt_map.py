from __future__ import annotations

import numpy as np
import torch
from tests.reproduce.baselines.fewshot.few_shot_tasks import task

from condiff.reproduce.baselines.fewshot.pt_map import PTMAP, sinkhorn


def unit(x: np.ndarray) -> np.ndarray:
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def plain_transport(cost: np.ndarray, column_sum: float) -> np.ndarray:
    plan = np.exp(-10 * cost)
    plan /= plan.sum()
    before = np.zeros(len(plan))
    for _ in range(1000):
        rows = plan.sum(1)
        if np.abs(rows - before).max() <= 1e-6:
            break
        plan = plan / rows[:, None]
        plan = plan * (column_sum / plan.sum(0))
        before = rows
    return plan


def test_it_is_the_published_iteration() -> None:
    problem, _ = task(9)
    parts = [unit((x.double().numpy() + 1e-6) ** 0.5) for x in (problem.support, problem.query)]
    support, query = (unit(part - part.mean(0)) for part in parts)
    labels = problem.labels.numpy()
    known = np.eye(3)[labels]
    centres = np.array([support[labels == c].mean(0) for c in range(3)])
    for _ in range(20):
        plan = plain_transport(((query[:, None] - centres) ** 2).sum(-1), 5.0)
        mask = np.concatenate([known, plan])
        means = mask.T @ np.concatenate([support, query]) / mask.sum(0)[:, None]
        centres = centres + 0.2 * (means - centres)
    expected = plain_transport(((query[:, None] - centres) ** 2).sum(-1), 5.0)
    np.testing.assert_allclose(PTMAP().solve(problem, 0).scores, expected, rtol=1e-3, atol=1e-5)


def test_sinkhorn_meets_both_sums_in_every_task() -> None:
    generator = torch.Generator().manual_seed(0)
    # The second task is far harder than the first.
    kernels = torch.exp(-torch.tensor([1.0, 12.0])[:, None, None] * torch.rand(2, 12, 4, generator=generator).double())
    plans = sinkhorn(kernels, 3.0, 1e-10, 10_000)
    torch.testing.assert_close(plans.sum(2), torch.ones(2, 12).double())
    torch.testing.assert_close(plans.sum(1), torch.full((2, 4), 3.0).double())
    for kernel, plan in zip(kernels, plans, strict=True):
        torch.testing.assert_close(sinkhorn(kernel[None], 3.0, 1e-10, 10_000)[0], plan, rtol=1e-12, atol=0.0)
