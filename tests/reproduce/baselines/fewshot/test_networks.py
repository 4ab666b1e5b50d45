"""COIN and Diff-ResNet against plain networks under autograd."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from tests.reproduce.baselines.fewshot.few_shot_tasks import task
from torch import Tensor, nn

from condiff.errors import InvalidInputError
from condiff.reproduce.baselines.fewshot import diff_resnet
from condiff.reproduce.baselines.fewshot.coin import COIN, diffusion_matrix
from condiff.reproduce.baselines.fewshot.diff_resnet import DiffResNet
from condiff.reproduce.baselines.fewshot.problem import Tasks
from condiff.training import FEW_SHOT, NODE

SHORT = replace(FEW_SHOT, epochs=30, milestones=(15, 22), weight_decay=1e-2)


def graph(points: Tensor) -> Tensor:
    """The paper's weights, written out: 5 nearest, the third one's distance as bandwidth."""
    distances = torch.cdist(points, points)
    ordered = distances.sort(1).values
    weights = torch.exp(-((distances / ordered[:, 2:3]) ** 2)) * (distances < ordered[:, 4:5])
    scale = weights.sum(1).rsqrt()
    weights = scale[:, None] * weights * scale
    return (weights + weights.mT) / 2


def diffuse(u: Tensor, weights: Tensor, layers: int) -> Tensor:
    for _ in range(layers):
        u = u - 0.5 * (weights.sum(1, keepdim=True) * u - weights @ u)
    return u


def descend(network: nn.Module, loss: object) -> None:
    optimiser = SHORT.make_optimiser(network.parameters())
    schedule = SHORT.make_schedule(optimiser)
    for _ in range(SHORT.epochs):
        optimiser.zero_grad()
        loss().backward()  # type: ignore[operator]
        optimiser.step()
        schedule.step()


def test_the_matrix_of_the_diffusion() -> None:
    points = Tasks.of([task(1)[0], task(2)[0]]).shifted.points.double()
    found = diffusion_matrix(points, 5, 3, 4, 0.5)
    for cloud, matrix in zip(points, found, strict=True):
        torch.testing.assert_close(matrix, diffuse(torch.eye(21).double(), graph(cloud), 4))


@pytest.mark.parametrize("shots", [1, 3])
def test_coin(shots: int) -> None:
    problem, _ = task(14, shots=shots)
    points = Tasks.of([problem]).shifted.points[0]
    weights = graph(points.double()).float()
    torch.manual_seed(5)
    inner, outer = nn.Linear(12, 12), nn.Linear(12, 3)

    def outputs() -> Tensor:
        return diffuse(outer(points + inner(points).relu()).softmax(-1), weights, 3)

    descend(nn.ModuleList([inner, outer]), lambda: nn.functional.nll_loss(outputs()[: 3 * shots].log(), problem.labels))
    made = COIN(layers=3, n_neighbors=5, bandwidth_rank=3, training=SHORT)
    found = made.solve(problem, 5).scores
    torch.testing.assert_close(found, outputs()[3 * shots :].detach(), rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(found.sum(-1), torch.ones(15))


@pytest.mark.parametrize("shots", [1, 3])
@pytest.mark.parametrize("layers", [0, 4])
@pytest.mark.parametrize("n", [12, 128])  # part of a block, and two
@pytest.mark.parametrize("compiled", [False, True])
def test_diff_resnet(monkeypatch: pytest.MonkeyPatch, compiled: bool, shots: int, layers: int, n: int) -> None:
    if compiled:
        pytest.importorskip("numba")
    monkeypatch.setattr(diff_resnet.kernels, "available", lambda: compiled)
    problem, _ = task(15, shots=shots, features=n)
    points = Tasks.of([problem]).shifted.points[0]
    weights = graph(points.double()).float()
    torch.manual_seed(5)
    first, second, outer = nn.Linear(n, n), nn.Linear(n, n), nn.Linear(n, 3)

    def outputs() -> Tensor:
        return outer(diffuse(points + second(first(points).relu()), weights, layers))

    network = nn.ModuleList([first, second, outer])
    descend(network, lambda: nn.functional.cross_entropy(outputs()[: 3 * shots], problem.labels))
    found = DiffResNet(layers=layers, n_neighbors=5, bandwidth_rank=3, training=SHORT).solve(problem, 5).scores
    torch.testing.assert_close(found, outputs()[3 * shots :].detach(), rtol=1e-3, atol=1e-4)


def test_diff_resnet_is_fitted_by_gradient_descent_alone() -> None:
    with pytest.raises(InvalidInputError, match="is for sgd, not adam"):
        DiffResNet(training=NODE)
