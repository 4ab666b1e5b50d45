"""Convection on graphs and splittings, against matrix exponentials."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import expm
from tests.diffusion.problems import cycle, random_weights

from condiff.diffusion import Exact
from condiff.diffusion.convection import Convection, split
from condiff.errors import InvalidInputError
from condiff.graph import Graph


def random_flow(n: int, seed: int) -> np.ndarray:
    rates = np.random.default_rng(seed).normal(size=(n, n)) * (random_weights(n, seed) > 0)
    return rates - rates.T


def generator(flow: np.ndarray) -> np.ndarray:
    outward = np.maximum((flow - flow.T) / 2, 0)
    return outward.T - np.diag(outward.sum(1))


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 8), st.integers(0, 10**6), st.sampled_from([1, 2]), st.floats(0.01, 5.0))
def test_mass_is_kept_and_nothing_becomes_negative(n: int, seed: int, order: int, time: float) -> None:
    u = torch.from_numpy(np.random.default_rng(seed).random((n, 3)))
    after = Convection(random_flow(n, seed), order=order)(u, time)  # type: ignore[arg-type]
    torch.testing.assert_close(after.sum(0), u.sum(0))
    assert float(after.min()) >= -1e-12


@pytest.mark.parametrize("order", [1, 2])
def test_order_of_convergence(order: int) -> None:
    flow, u = random_flow(6, 1), torch.from_numpy(np.random.default_rng(0).random((6, 2)))
    exact = torch.from_numpy(expm(generator(flow))) @ u
    made = Convection(flow, order=order)  # type: ignore[arg-type]
    errors = [float((made(u, 1.0, steps) - exact).abs().max()) for steps in (64, 128)]
    assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.15)


def test_a_flow_goes_down_its_potential() -> None:
    heights = np.array([3.0, 2.0, 1.0])
    row = Graph.of(np.array([[0, 1.0, 0], [1, 0, 1], [0, 1, 0]]))
    u = Convection.down(heights, row)(torch.tensor([1.0, 0.0, 0.0]), 60.0)
    torch.testing.assert_close(u, torch.tensor([0.0, 0.0, 1.0]), atol=1e-4, rtol=0)


@pytest.mark.parametrize("strang", [False, True])
def test_order_of_splitting_a_convection_and_a_diffusion(strang: bool) -> None:
    flow, graph = random_flow(6, 2), cycle(6)
    move, heat = torch.from_numpy(generator(flow)), graph.operator()
    u = torch.from_numpy(np.random.default_rng(0).random((6, 2)))
    exact = torch.from_numpy(expm(generator(flow) - graph.matrix)) @ u
    solve = split(
        lambda v, t: torch.linalg.matrix_exp(t * move) @ v, lambda v, t: Exact()(heat, v, t, 1), strang=strang
    )
    errors = [float((solve(u, 1.0, steps) - exact).abs().max()) for steps in (16, 32)]
    assert np.log2(errors[0] / errors[1]) == pytest.approx(2 if strang else 1, abs=0.15)


def test_what_is_no_flow_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="order"):
        Convection(np.eye(2), order=3)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="square"):
        Convection(np.ones((2, 3)))
    still = Convection(np.ones((3, 3)))  # symmetric rates cancel out
    assert still.limit == float("inf")
    u = torch.rand(3)
    torch.testing.assert_close(still(u, 2.0), u)
