"""BD-CSPN: prototypes rectified by the queries that are near them (Liu, Song and Qin 2020)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from condiff.reproduce.baselines.fewshot.method import BatchedMethod
from condiff.reproduce.baselines.fewshot.problem import Features, Tasks
from condiff.reproduce.baselines.fewshot.transforms import normalised


@dataclass(frozen=True)
class BDCSPN(BatchedMethod):
    r"""The nearest rectified prototype by cosine, on centred features with the queries shifted to the support.

    With :math:`w_{ic} = \operatorname{softmax}_c(\epsilon \cos(x_i, \mu_c))` over support and queries, the rectified
    prototype of class c is the mean of :math:`w_{ic}\, x_i` over the points whose nearest :math:`\mu_c` is. So it is
    in the code of LaplacianShot and of Veilleux et al. (2021); epsilon is 10 there and in the article.

    Parameters
    ----------
    sharpness
        Epsilon.
    """

    sharpness: float = 10.0

    def scores(self, tasks: Tasks, seeds: Sequence[int]) -> Tensor:
        prototypes = rectified(tasks, tasks.shifted, self.sharpness)
        return normalised(tasks.shifted.query) @ normalised(prototypes).mT


def rectified(tasks: Tasks, features: Features, sharpness: float) -> Tensor:
    """The rectified prototypes, (tasks, ways, features); one with no point near it stays as it is."""
    basic, points = tasks.means(features.support), features.points
    cosines = normalised(points) @ normalised(basic).mT
    nearest = torch.nn.functional.one_hot(cosines.argmax(-1), tasks.ways).to(points.dtype)
    weights = (sharpness * cosines).softmax(-1) * nearest
    counts = nearest.sum(1)[..., None]
    return torch.where(counts > 0, weights.mT @ points / counts.clamp_min(1.0), basic)
