"""Methods that compare with class means, against their formulas written out point by point."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.reproduce.baselines.fewshot.few_shot_tasks import task

from condiff.reproduce.baselines.fewshot import method
from condiff.reproduce.baselines.fewshot.bd_cspn import BDCSPN, rectified
from condiff.reproduce.baselines.fewshot.matchingnet import MatchingNet
from condiff.reproduce.baselines.fewshot.problem import Features, FewShotProblem, Tasks


def unit(x: np.ndarray) -> np.ndarray:
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def parts(problem: FewShotProblem) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    support, query, mean = (each.double().numpy() for each in (problem.support, problem.query, problem.base_mean))
    return support, query, mean, problem.labels.numpy()


def nearest_mean(support: np.ndarray, query: np.ndarray, labels: np.ndarray) -> np.ndarray:
    means = [support[labels == label].mean(0) for label in range(3)]
    return np.array([[-((x - mean) ** 2).sum() for mean in means] for x in query])


@pytest.mark.parametrize("name", ["ProtoNet", "SimpleShot", "PT+NCM"])
def test_nearest_means(name: str) -> None:
    problem, _ = task(3)
    support, query, mean, labels = parts(problem)
    transform = {
        "ProtoNet": lambda x: x,
        "SimpleShot": lambda x: unit(x - mean),
        "PT+NCM": lambda x: unit((x + 1e-6) ** 0.5),
    }[name]
    expected = nearest_mean(transform(support), transform(query), labels)
    np.testing.assert_allclose(method(name)().solve(problem, 0).scores, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("scale", [1.0, 100.0])
def test_matching_is_attention_over_the_support(scale: float) -> None:
    problem, _ = task(3)
    support, query, _, labels = parts(problem)
    scores = []
    for x in query:
        attention = np.exp(scale * np.array([unit(x) @ unit(s) for s in support]))
        scores.append([attention[labels == label].sum() / attention.sum() for label in range(3)])
    np.testing.assert_allclose(MatchingNet(scale=scale).solve(problem, 0).scores, scores, rtol=1e-3, atol=1e-6)


def test_rectified_prototypes() -> None:
    problem, _ = task(5)
    support, query, mean, labels = parts(problem)
    support, query = unit(support - mean), unit(query - mean)
    query = query + support.mean(0) - query.mean(0)
    points = np.concatenate([support, query])
    basic = np.array([support[labels == label].mean(0) for label in range(3)])
    cosines = unit(points) @ unit(basic).T
    weights = np.exp(10 * cosines) / np.exp(10 * cosines).sum(1, keepdims=True)
    best = cosines.argmax(1)
    prototypes = np.array([(weights[best == c, c, None] * points[best == c]).mean(0) for c in range(3)])
    expected = unit(query) @ unit(prototypes).T
    np.testing.assert_allclose(BDCSPN().solve(problem, 0).scores, expected, rtol=1e-4, atol=1e-5)


def test_a_prototype_that_no_point_is_nearest_to_stays_as_it_is() -> None:
    # The two examples of class 2 are opposite, so their mean is nothing, and every point is nearer to another.
    support = torch.tensor([[1.0, 0], [1, 0.1], [0, 1], [0.1, 1], [1, 0.05], [-1, -0.05]])
    labels, query = torch.tensor([0, 0, 1, 1, 2, 2]), torch.tensor([[1.0, 0.2], [0.2, 1.0]])
    tasks = Tasks.of([FewShotProblem(support, labels, query, torch.zeros(2))])
    features = Features(tasks.support, tasks.query)
    found = rectified(tasks, features, 10.0)
    assert torch.isfinite(found).all()
    far = torch.tensor([[[10.0, 0.0], [10.0, 0.0], [0.0, 10.0], [0.0, 10.0], [5.0, -8.0], [-9.0, 4.0]]])
    torch.testing.assert_close(
        rectified(tasks, Features(far, torch.tensor([[[9.0, 1.0], [1.0, 9.0]]])), 10.0)[0, 2],
        torch.tensor([-2.0, -2.0]),
    )
