"""Baseline++: a classifier by cosines to learned directions (Chen, Liu, Kira, Wang and Huang 2019)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from condiff.reproduce.baselines.fewshot.baseline import CLOSER_LOOK, Descent, first_weights
from condiff.reproduce.baselines.fewshot.method import BatchedMethod
from condiff.reproduce.baselines.fewshot.problem import Tasks


@dataclass(frozen=True)
class BaselinePlusPlus(BatchedMethod):
    r"""Logits :math:`s\, g_c \cos(x, v_c)`, with a length :math:`g_c` and a direction :math:`v_c` for each class.

    Fitted to the support's cross-entropy as Baseline is. Every step moves :math:`v_c` within the span of its first
    value and the support, so that its coefficients there and their inner products are all that is kept.

    Parameters
    ----------
    scale
        s; 2 in the authors' code for up to 200 classes.
    descent
        Rate, momentum, decay, epochs and batches.
    """

    scale: float = 2.0
    descent: Descent = CLOSER_LOOK

    @property
    def iterations(self) -> int:
        return self.descent.epochs

    def scores(self, tasks: Tasks, seeds: Sequence[int]) -> Tensor:
        generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        # The authors' small number beside the norm.
        support, query = (part / (part.norm(dim=-1, keepdim=True) + 1e-5) for part in tasks.raw)
        first = first_weights(tasks, generators)
        n_tasks, n_support, ways = tasks.one_hot.shape
        # For each class, (v_0, support) and the inner products of these 1 + n_support vectors.
        basis = torch.cat([first[:, :, None], support[:, None].expand(-1, ways, -1, -1)], dim=2)
        products = basis @ basis.mT
        coefficients = torch.zeros(n_tasks, ways, 1 + n_support)
        coefficients[..., 0] = 1.0
        lengths = first.norm(dim=-1)
        values = [lengths, coefficients]
        speeds = [torch.zeros_like(value) for value in values]
        for step, batch in enumerate(self.descent.batches(tasks, generators)):
            across = (products @ coefficients[..., None])[..., 0]  # inner products of the basis with v
            norm = (coefficients * across).sum(-1).sqrt()
            cosines = across[..., 1:] / norm[..., None]
            rows = batch[:, None].expand(-1, ways, -1)
            logits = self.scale * lengths[..., None] * cosines.gather(-1, rows)
            truth = tasks.one_hot.mT.gather(-1, rows)
            error = self.scale * (logits.softmax(1) - truth) / batch.shape[-1]
            # By the product g v / |v|, in the basis; then by g and by v.
            slope = torch.zeros_like(coefficients).scatter_(-1, rows + 1, error)
            along = (slope * across).sum(-1)
            turn = (lengths / norm)[..., None] * (slope - (along / norm**2)[..., None] * coefficients)
            for value, speed, gradient in zip(values, speeds, [along / norm, turn], strict=True):
                self.descent.move(value, speed, gradient, first=step == 0)
        directions = (coefficients[:, :, None] @ basis)[:, :, 0]
        heads = lengths[..., None] * directions / directions.norm(dim=-1, keepdim=True)
        scores: Tensor = self.scale * query @ heads.mT
        return scores
