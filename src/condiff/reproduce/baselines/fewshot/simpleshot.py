"""SimpleShot: the nearest class mean of centred, normalised features (Wang, Chao, Weinberger, van der Maaten 2019)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from condiff.reproduce.baselines.fewshot.method import BatchedMethod
from condiff.reproduce.baselines.fewshot.problem import Tasks, squared_distances


@dataclass(frozen=True)
class SimpleShot(BatchedMethod):
    r""":math:`\arg\min_c \|x - \mu_c\|_2` after centring by the base classes' mean and normalisation (CL2N)."""

    def scores(self, tasks: Tasks, seeds: Sequence[int]) -> Tensor:
        support, query = tasks.centred
        return -squared_distances(query, tasks.means(support))
