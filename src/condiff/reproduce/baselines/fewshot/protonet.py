"""ProtoNet: the nearest class mean of the features as they are (Snell, Swersky and Zemel 2017)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from condiff.reproduce.baselines.fewshot.method import BatchedMethod
from condiff.reproduce.baselines.fewshot.problem import Tasks, squared_distances


@dataclass(frozen=True)
class ProtoNet(BatchedMethod):
    r"""Logits :math:`-\|x - \mu_c\|_2^2` with the prototype :math:`\mu_c`, the mean over the support of class c.

    What the network does once it is trained. Its authors train the features for this; here they are given.
    """

    def scores(self, tasks: Tasks, seeds: Sequence[int]) -> Tensor:
        support, query = tasks.raw
        return -squared_distances(query, tasks.means(support))
