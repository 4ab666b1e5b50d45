"""MatchingNet: cosine attention over the support (Vinyals, Blundell, Lillicrap, Kavukcuoglu and Wierstra 2016)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from condiff.reproduce.baselines.fewshot.method import BatchedMethod
from condiff.reproduce.baselines.fewshot.problem import Tasks


@dataclass(frozen=True)
class MatchingNet(BatchedMethod):
    r""":math:`\hat y(x) = \sum_i a(x, x_i)\, y_i` with :math:`a = \operatorname{softmax}_i(s \cos(x, x_i))`.

    Without the full context embeddings, which are trained along with the features; here these are given.

    Parameters
    ----------
    scale
        s: 100 in the code of Chen et al. (2019), whose figures for this method the paper's table shows; 1 in the
        original article. With one example per class it makes no difference.
    """

    scale: float = 100.0

    def scores(self, tasks: Tasks, seeds: Sequence[int]) -> Tensor:
        support, query = tasks.normalised
        attention = (self.scale * query @ support.mT).softmax(-1)
        return attention @ tasks.one_hot
