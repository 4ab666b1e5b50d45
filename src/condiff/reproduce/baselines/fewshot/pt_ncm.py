"""PT+NCM: the power transform, then the nearest class mean (Hu, Gripon and Pateux 2021)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from condiff.reproduce.baselines.fewshot.method import BatchedMethod
from condiff.reproduce.baselines.fewshot.problem import Tasks, squared_distances
from condiff.reproduce.baselines.fewshot.transforms import powered


@dataclass(frozen=True)
class PTNCM(BatchedMethod):
    r""":math:`\arg\min_c \|x - \mu_c\|_2` of features under :func:`.transforms.powered`.

    The inductive one of the article's two methods: a query is judged by the support alone.

    Parameters
    ----------
    exponent
        The transform's beta; the authors use 0.5 throughout.
    """

    exponent: float = 0.5

    def scores(self, tasks: Tasks, seeds: Sequence[int]) -> Tensor:
        support, query = (powered(part, self.exponent) for part in tasks.raw)
        return -squared_distances(query, tasks.means(support))
