"""ProtoNet: features trained for the nearest class mean (Snell, Swersky and Zemel 2017)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

from condiff.reproduce.baselines.fewshot.episodic.method import EpisodicMethod, MetaTraining, class_means, is_omniglot
from condiff.reproduce.baselines.fewshot.method import shots_of
from condiff.reproduce.baselines.fewshot.problem import squared_distances
from condiff.reproduce.pretraining.episodic import EpisodicNetwork, ImageShape
from condiff.reproduce.runs import NO_CONDITION, Condition

if TYPE_CHECKING:
    from typing import Self

_SCHEDULE = MetaTraining(drop_every=2000, ways=30)


@dataclass(frozen=True)
class ProtoNet(EpisodicMethod):
    r"""Logits :math:`-\|f(x) - \mu_c\|_2^2` with :math:`\mu_c` the mean of :math:`f` over the support of class c.

    As published and in the authors' code (jakesnell/prototypical-networks): Adam from 1e-3, halved every 2,000
    episodes, which have more classes than the tasks: 60 with 5 queries each on Omniglot; elsewhere 15 queries and 30
    classes (20 for several shots).
    """

    training: MetaTraining = _SCHEDULE

    @classmethod
    def recommended(cls, dataset: str, condition: Condition = NO_CONDITION) -> Self:
        if is_omniglot(dataset):
            return cls(MetaTraining(drop_every=2000, ways=60, queries=5, augment=False))
        return cls(MetaTraining(drop_every=2000, ways=30 if shots_of(condition) == 1 else 20))

    def build(self, image_shape: ImageShape, ways: int, shots: int, base_classes: int = 0) -> EpisodicNetwork:
        return PrototypeNetwork(image_shape)


class PrototypeNetwork(EpisodicNetwork):
    """See :class:`ProtoNet`."""

    def forward(self, support: Tensor, labels: Tensor, query: Tensor) -> Tensor:
        support, query = self.embed(support, query)
        return -squared_distances(query, class_means(support, labels))
