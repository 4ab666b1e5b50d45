"""Methods that pass answers between neighbours, against their formulas written out densely."""

from __future__ import annotations

import numpy as np
import torch
from tests.reproduce.baselines.fewshot.few_shot_tasks import task

from condiff.reproduce.baselines.fewshot.epnet import EPNet
from condiff.reproduce.baselines.fewshot.label_propagation import LabelPropagation
from condiff.reproduce.baselines.fewshot.laplacianshot import LaplacianShot, neighbour_weights
from condiff.reproduce.baselines.fewshot.problem import FewShotProblem, Tasks


def unit(x: np.ndarray) -> np.ndarray:
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def squares(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return ((x[:, None] - y[None]) ** 2).sum(-1)


def one_hot(problem: FewShotProblem) -> np.ndarray:
    known = np.zeros((len(problem.labels) + len(problem.query), problem.ways))
    known[np.arange(len(problem.labels)), problem.labels] = 1.0
    return known


def test_label_propagation() -> None:
    problem, _ = task(6)
    points = unit((torch.cat([problem.support, problem.query]) - problem.base_mean).double().numpy())
    distances = squares(points, points)
    n = len(points)
    bandwidth = np.sort(distances[~np.eye(n, dtype=bool)])[(n * (n - 1) - 1) // 2]  # torch's median is the lower one
    weights = np.exp(-distances / (2 * 0.5**2 * bandwidth))
    rank = distances.argsort(1).argsort(1)
    kept = (rank < 5) | (rank < 5).T
    weights = weights * kept
    degree = weights.sum(1)
    smooth = weights / np.sqrt(degree[:, None] * degree[None])
    expected = np.linalg.inv(np.eye(n) - 0.9 * smooth) @ one_hot(problem)
    found = LabelPropagation(alpha=0.9, n_neighbors=5, bandwidth=0.5).solve(problem, 0).scores
    np.testing.assert_allclose(found, expected[6:], rtol=1e-3, atol=1e-5)


def test_epnet() -> None:
    problem, _ = task(7)
    points = torch.cat([problem.support, problem.query]).double().numpy()
    n = len(points)

    def propagator(x: np.ndarray, alpha: float) -> np.ndarray:
        distances = squares(x, x) / np.sqrt(x.shape[1])
        distances /= distances[~np.eye(n, dtype=bool)].std(ddof=1)
        weights = np.exp(-distances) * ~np.eye(n, dtype=bool)
        scale = 1 / np.sqrt(1e-4 + weights.sum(1))
        return np.linalg.inv(np.eye(n) - alpha * weights * scale[:, None] * scale[None])

    moved = propagator(points, 0.5) @ points
    labels = propagator(moved, 0.2)
    expected = np.log(labels / labels.sum(1, keepdims=True) @ one_hot(problem) + 1e-6)
    np.testing.assert_allclose(EPNet().solve(problem, 0).scores, expected[6:], rtol=1e-5)


def test_laplacianshot() -> None:
    problem, _ = task(8)
    tasks = Tasks.of([problem])
    query = tasks.shifted.query[0].double().numpy()
    support, labels = tasks.shifted.support[0].double().numpy(), problem.labels.numpy()
    points = np.concatenate([support, query])
    basic = np.array([support[labels == c].mean(0) for c in range(3)])
    cosines = unit(points) @ unit(basic).T
    chances = np.exp(10 * cosines) / np.exp(10 * cosines).sum(1, keepdims=True)
    best = cosines.argmax(1)
    cost = squares(query, np.array([(chances[best == c, c, None] * points[best == c]).mean(0) for c in range(3)]))
    n = len(query)
    weights = np.zeros((n, n))
    for i in range(n):
        for j in squares(query, query)[i].argsort()[1:3]:
            weights[i, j] = 1.0
    answers = np.exp(-cost) / np.exp(-cost).sum(1, keepdims=True)
    energies = []
    for step in range(20):
        answers = np.exp(0.7 * weights @ answers - cost)
        answers /= answers.sum(1, keepdims=True)
        energies.append((answers * (np.log(answers) + cost - 0.7 * weights @ answers)).sum())
        if step > 1 and abs(energies[-1] - energies[-2]) <= 1e-6 * abs(energies[-2]):
            break
    np.testing.assert_allclose(LaplacianShot().solve(problem, 0).scores, answers, rtol=1e-3, atol=1e-4)


def test_without_smoothing_the_nearest_prototype_answers() -> None:
    problem, _ = task(8)
    plain = LaplacianShot(smoothing=0.0).solve(problem, 0).scores
    smooth = LaplacianShot(smoothing=2.0).solve(problem, 0).scores
    weights = neighbour_weights(Tasks.of([problem]).shifted.query, 2)[0]

    def unlike(scores: torch.Tensor) -> float:
        return float((weights * torch.cdist(scores, scores) ** 2).sum())

    assert unlike(smooth) < unlike(plain)
    assert torch.equal(weights.sum(1), torch.full((15,), 2.0))
    assert torch.equal(weights.diagonal(), torch.zeros(15))
