from __future__ import annotations

import dataclasses

import pytest
import torch
from tests.reproduce.baselines.fewshot.few_shot_tasks import task

from condiff.errors import InvalidInputError
from condiff.reproduce.baselines.fewshot.problem import FewShotProblem, Tasks, squared_distances


def test_tasks_are_put_together() -> None:
    problems = [task(seed)[0] for seed in range(3)]
    tasks = Tasks.of(problems)
    assert (len(tasks), tasks.ways) == (3, 3)
    assert torch.equal(tasks.query[2], problems[2].query)
    assert torch.equal(tasks.one_hot[1].argmax(-1), problems[1].labels)
    assert tasks.raw.points.shape == (3, 6 + 15, 12)
    assert torch.equal(tasks.shifted.support, tasks.centred.support)


def test_prototypes_are_means_over_a_class_in_whatever_order_it_comes() -> None:
    problem, _ = task()
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    mixed = dataclasses.replace(problem, support=problem.support[order], labels=problem.labels[order])
    tasks = Tasks.of([mixed])
    expected = torch.stack([problem.support[problem.labels == label].mean(0) for label in range(3)])
    torch.testing.assert_close(tasks.means(tasks.support)[0], expected)


def test_distances() -> None:
    a, b = torch.rand(2, 5, 3), torch.rand(2, 4, 3)
    torch.testing.assert_close(squared_distances(a, b), torch.cdist(a, b) ** 2)


def test_tasks_of_other_shapes_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="must have one shape"):
        Tasks.of([task()[0], task(queries=2)[0]])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"support": torch.rand(12)}, r"must have the shapes \(points, features\)"),
        ({"query": torch.rand(0, 12)}, "with at least one query"),
        ({"query": torch.rand(4, 3)}, "must have the same number of features, not 12, 3"),
        ({"base_mean": torch.rand(5)}, "must have the same number of features"),
        ({"labels": torch.tensor([0, 1])}, "6 labelled points but 2 labels"),
        ({"labels": torch.tensor([0, 0, 1, 1, 3, 3])}, r"not \[0, 1, 3\]"),
        ({"labels": torch.zeros(6, dtype=torch.int64)}, r"two classes or more"),
    ],
)
def test_problems_that_are_none_are_refused(change: dict[str, torch.Tensor], message: str) -> None:
    problem, _ = task()
    with pytest.raises(InvalidInputError, match=message):
        dataclasses.replace(problem, **change)
    assert isinstance(problem, FewShotProblem)
