"""The residual of the equation: zero for solutions, on points and on graphs, and differentiable in a network."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from tests.diffusion.problems import random_weights
from torch import nn

from condiff.diffusion import WithTime, equation_residual
from condiff.errors import InvalidInputError
from condiff.graph import Graph
from condiff.training.optimiser import Optimiser
from condiff.training.settings import Training

X = torch.from_numpy(np.random.default_rng(0).normal(size=(7, 2)))


def moving_wave(x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
    """Solves u_t = v . grad u + 0.3 (u_xx + u_yy) for v = (1, -2)."""
    phase = (x + t * torch.tensor([1.0, -2.0], dtype=x.dtype)) @ torch.tensor([[1.0, 0.5], [0.4, -1.0]], dtype=x.dtype)
    lengths = torch.tensor([1.0 + 0.16, 0.25 + 1.0], dtype=x.dtype)
    return torch.exp(-0.3 * lengths * t) * torch.sin(phase)


def test_a_solution_on_points_has_none() -> None:
    velocity = torch.tensor([1.0, -2.0], dtype=torch.float64).expand(7, 2)
    found = equation_residual(moving_wave, X, 0.4, strength=0.3, velocity=lambda _: velocity)
    assert float(found.abs().max()) < 1e-12
    without = equation_residual(moving_wave, X, 0.4, strength=0.3)
    weaker = equation_residual(moving_wave, X, 0.4, strength=0.2, velocity=lambda _: velocity)
    assert float(without.abs().max()) > 0.1 and float(weaker.abs().max()) > 0.05


def test_random_directions_estimate_it() -> None:
    torch.manual_seed(0)
    exact = equation_residual(moving_wave, X, 0.4, strength=0.3)
    estimates = equation_residual(moving_wave, X, 0.4, strength=0.3, probes=400)
    assert 0 < float((estimates - exact).abs().max()) < 0.1


def test_a_solution_on_a_graph_has_none() -> None:
    weights = random_weights(7, 1)
    generator = torch.from_numpy(weights - np.diag(weights.sum(1)))
    start = torch.from_numpy(np.random.default_rng(1).random((7, 3)))

    def solution(x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        return torch.linalg.matrix_exp(0.8 * t * generator) @ start

    found = equation_residual(solution, X, 0.6, strength=0.8, graph=Graph.of(weights))
    assert float(found.abs().max()) < 1e-12
    other = equation_residual(solution, X, 0.6, strength=0.4, graph=Graph.of(weights))
    assert float(other.abs().max()) > 0.01


@pytest.mark.parametrize("on_graph", [False, True])
def test_any_base_network_can_be_drawn_towards_the_equation(on_graph: bool) -> None:
    torch.manual_seed(0)
    base = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 2)).double()
    network, graph = WithTime(base), Graph.of(random_weights(7, 2)) if on_graph else None
    now = network(X, torch.tensor(0.5, dtype=torch.float64))
    torch.testing.assert_close(now.sum(-1), torch.ones(7, dtype=torch.float64))

    def loss() -> torch.Tensor:
        return equation_residual(network, X, 0.5, strength=1.0, graph=graph).square().mean()

    optimiser = Optimiser(list(network.parameters()), Training(weight_decay=0.0))
    before = loss().item()
    for _ in range(30):
        loss().backward()
        optimiser.step()
    assert math.isfinite(before) and loss().item() < 0.5 * before


def test_what_has_no_residual_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="dimensions"):
        equation_residual(moving_wave, X[:, 0], 0.1, strength=1.0)
    with pytest.raises(InvalidInputError, match="probes"):
        equation_residual(moving_wave, X, 0.1, strength=1.0, probes=0)
