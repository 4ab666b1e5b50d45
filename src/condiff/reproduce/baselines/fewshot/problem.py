"""The input of few-shot methods: one task, and several of the same shape as a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from condiff.errors import InvalidInputError
from condiff.reproduce.baselines.fewshot.transforms import centred, normalised, shifted


@dataclass(frozen=True, eq=False)
class FewShotProblem:
    """One task as a method sees it: without the classes of its queries.

    Parameters
    ----------
    support
        Features of the labelled points as the backbone gives them, (ways * shots, features).
    labels
        Their classes, 0 .. ways - 1, every class at least once.
    query
        Features of the points to classify, (queries, features).
    base_mean
        The mean of the features over the base classes, (features,).
    """

    support: Tensor
    labels: Tensor
    query: Tensor
    base_mean: Tensor

    def __post_init__(self) -> None:
        if self.support.ndim != 2 or self.query.ndim != 2 or not len(self.query):
            raise InvalidInputError(
                "support and query must have the shapes (points, features), with at least one query, not "
                f"{tuple(self.support.shape)} and {tuple(self.query.shape)}"
            )
        if not self.support.shape[1:] == self.query.shape[1:] == self.base_mean.shape:
            raise InvalidInputError(
                f"support, query and base_mean must have the same number of features, not {self.support.shape[1]}, "
                f"{self.query.shape[1]} and {tuple(self.base_mean.shape)}"
            )
        if self.labels.shape != self.support.shape[:1]:
            raise InvalidInputError(f"there are {len(self.support)} labelled points but {len(self.labels)} labels")
        classes = self.labels.unique()
        if len(classes) < 2 or not torch.equal(classes, torch.arange(len(classes))):
            raise InvalidInputError(
                f"labels must be 0 .. ways - 1, two classes or more and each at least once, not {classes.tolist()}"
            )

    @property
    def ways(self) -> int:
        """The number of classes."""
        return int(self.labels.max()) + 1


class Features(NamedTuple):
    """Support and queries of some tasks under one transform."""

    support: Tensor
    query: Tensor

    @property
    def points(self) -> Tensor:
        """The support, then the queries."""
        return torch.cat([self.support, self.query], dim=-2)


@dataclass(frozen=True, eq=False)
class Tasks:
    """Several tasks of the same shape, the tasks being the first dimension of every tensor.

    The base means are (tasks, 1, features).
    """

    support: Tensor
    labels: Tensor
    query: Tensor
    base_mean: Tensor
    ways: int

    @classmethod
    def of(cls, problems: Sequence[FewShotProblem]) -> Tasks:
        """Batch problems."""
        shapes = {(tuple(each.support.shape), tuple(each.query.shape), each.ways) for each in problems}
        if len(shapes) != 1:
            raise InvalidInputError(f"tasks that are solved together must have one shape, not {sorted(shapes)}")
        support, labels, query = (
            torch.stack([getattr(each, name) for each in problems]) for name in ("support", "labels", "query")
        )
        means = torch.stack([each.base_mean for each in problems])
        return cls(support, labels, query, means[:, None], problems[0].ways)

    def __len__(self) -> int:
        return len(self.support)

    @cached_property
    def one_hot(self) -> Tensor:
        """The labels as (tasks, labelled, ways) zeros and ones."""
        return torch.nn.functional.one_hot(self.labels, self.ways).to(self.support.dtype)

    @property
    def raw(self) -> Features:
        """As the backbone gives them."""
        return Features(self.support, self.query)

    @cached_property
    def normalised(self) -> Features:
        """Scaled to length 1."""
        return Features(normalised(self.support), normalised(self.query))

    @cached_property
    def centred(self) -> Features:
        """Less the mean of the base classes, of length 1."""
        return Features(centred(self.support, self.base_mean), centred(self.query, self.base_mean))

    @cached_property
    def shifted(self) -> Features:
        """Centred, then the queries moved to the support's mean."""
        support, query = self.centred
        return Features(support, shifted(support, query))

    def means(self, support: Tensor) -> Tensor:
        """The mean of each class over the labelled points, (tasks, ways, features): its prototype."""
        return self.one_hot.mT @ support / self.one_hot.sum(1)[..., None]


def squared_distances(a: Tensor, b: Tensor) -> Tensor:
    """Between the points of ``a`` and those of ``b``, (..., points of a, points of b), by one product."""
    squares = (a * a).sum(-1)[..., :, None] + (b * b).sum(-1)[..., None, :] - 2 * a @ b.mT
    return squares.clamp_min(0.0)
