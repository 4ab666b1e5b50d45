"""Transductive fine-tuning: certain answers on the queries (Dhillon, Chaudhari, Ravichandran and Soatto 2020)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from condiff.reproduce.baselines.fewshot.head import adam, cross_entropy_slope, entropy_slope
from condiff.reproduce.baselines.fewshot.method import BatchedMethod
from condiff.reproduce.baselines.fewshot.problem import Tasks
from condiff.reproduce.baselines.fewshot.transforms import normalised
from condiff.reproduce.baselines.method import check_counts


@dataclass(frozen=True)
class Transductive(BatchedMethod):
    r"""Minimise the support's cross-entropy plus the queries' mean entropy, by Adam, from a support-based start.

    Logits are :math:`w_c \cdot x + b_c` on features of length 1; at the start :math:`w_c` is the normalised mean of
    class c and :math:`b_c = 0`. Rate and epochs are the authors', who move the whole network. On given features the
    head alone can move, and at that rate it stays near its start; a higher one is no remedy, because without a term
    for balance the least entropy is that of one class for all (see the ablation of Boudiaf et al. 2020).

    Parameters
    ----------
    learning_rate, epochs
        Adam's; an epoch is one step on all points.
    """

    learning_rate: float = 5e-5
    epochs: int = 25

    at_once: ClassVar[int] = 2

    def __post_init__(self) -> None:
        check_counts(epochs=self.epochs)

    @property
    def iterations(self) -> int:
        return self.epochs

    def scores(self, tasks: Tasks, seeds: Sequence[int]) -> Tensor:
        points, n_support = tasks.normalised.points, tasks.labels.shape[1]
        weights = normalised(tasks.means(tasks.normalised.support))
        biases = weights.new_zeros(len(tasks), 1, tasks.ways)

        def gradients(values: list[Tensor]) -> list[Tensor]:
            logs = ((values[0] @ points.mT).mT + values[1]).log_softmax(-1)
            support, query = logs.exp().split([n_support, tasks.query.shape[1]], dim=1)
            parts = [cross_entropy_slope(support, tasks.one_hot), entropy_slope(query, logs[:, n_support:])]
            slope = torch.cat(parts, dim=1)
            return [slope.mT @ points, slope.sum(1, keepdim=True)]

        adam([weights, biases], gradients, self.learning_rate, self.epochs)
        return points[:, n_support:] @ weights.mT + biases
