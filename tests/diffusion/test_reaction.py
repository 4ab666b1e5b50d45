"""Reactions, steps of a field and anisotropic diffusion: their equations, their orders, what they keep."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import solve_ivp
from scipy.linalg import expm
from tests.diffusion.problems import random_weights

from condiff.diffusion import Anisotropic, Exact, Reaction, Steps, split
from condiff.errors import InvalidInputError
from condiff.graph import Graph


def probabilities(n: int, c: int, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).dirichlet(np.ones(c), n))


def test_a_reaction_solves_its_equation() -> None:
    def field(_: float, u: np.ndarray) -> np.ndarray:
        return 0.7 * u * (np.log(u) - (u * np.log(u)).sum())

    start = probabilities(1, 4)
    exact = solve_ivp(field, (0.0, 1.3), start[0].numpy(), rtol=1e-10, atol=1e-12).y[:, -1]
    np.testing.assert_allclose(Reaction(0.7)(start, 1.3)[0], exact, atol=1e-8)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.floats(-5, 5), st.floats(0, 3))
def test_a_reaction_keeps_probabilities_and_the_likeliest_class(seed: int, rate: float, time: float) -> None:
    u = probabilities(6, 3, seed)
    after = Reaction(rate)(u, time)
    torch.testing.assert_close(after.sum(-1), torch.ones(6, dtype=torch.float64))
    assert float(after.min()) >= 0
    assert bool((after.gather(1, u.argmax(1, keepdim=True))[:, 0] >= after.max(1).values - 1e-12).all())


@pytest.mark.parametrize("strang", [False, True])
@pytest.mark.parametrize("block", [False, True])
def test_order_of_splitting_a_diffusion_from_a_reaction_or_a_residual_block(strang: bool, block: bool) -> None:
    weights = random_weights(5, 3)
    matrix, u = np.diag(weights.sum(1)) - weights, probabilities(5, 3)
    operator = Graph.of(weights).laplacian(torch.float64)
    mix = np.random.default_rng(1).normal(size=(3, 3))

    def other(v: np.ndarray) -> np.ndarray:
        if block:
            return np.tanh(v @ mix)
        return 0.8 * v * (np.log(v) - (v * np.log(v)).sum(1, keepdims=True))

    whole = solve_ivp(
        lambda _, v: (other(v.reshape(5, 3)) - matrix @ v.reshape(5, 3)).ravel(),
        (0.0, 1.0),
        u.numpy().ravel(),
        rtol=1e-11,
        atol=1e-13,
    )
    exact = torch.from_numpy(whole.y[:, -1].reshape(5, 3))
    flow = Steps(lambda v: torch.tanh(v @ torch.from_numpy(mix)), order=2 if strang else 1) if block else Reaction(0.8)
    solve = split(flow, lambda v, t: Exact()(operator, v, t, 1), strang=strang)
    errors = [float((solve(u, 1.0, steps) - exact).abs().max()) for steps in (32, 64)]
    assert np.log2(errors[0] / errors[1]) == pytest.approx(2 if strang else 1, abs=0.2)


@pytest.mark.parametrize("order", [1, 2])
def test_anisotropic_diffusion_has_its_order(order: int) -> None:
    weights, factors = random_weights(6, 1), np.random.default_rng(0).random((6, 6))
    strengths, u = np.array([0.5, 1.5]), torch.from_numpy(np.random.default_rng(2).random((6, 2)))
    parts = weights * factors
    exact = np.column_stack(
        [expm(s * (parts - np.diag(parts.sum(1)))) @ u[:, k].numpy() for k, s in enumerate(strengths)]
    )
    made = Anisotropic(Graph.of(weights), strengths, factors, order=order)  # type: ignore[arg-type]
    errors = [np.abs(made(u, 1.0, steps).numpy() - exact).max() for steps in (64, 128)]
    assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.15)


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 8), st.integers(0, 10**6), st.sampled_from([1, 2]), st.floats(0.01, 5.0))
def test_anisotropic_diffusion_stays_in_the_range_of_each_class(n: int, seed: int, order: int, time: float) -> None:
    generator = np.random.default_rng(seed)
    made = Anisotropic(
        Graph.of(random_weights(n, seed)),
        3 * generator.random(3),
        generator.random((n, n)) * 5,
        order=order,  # type: ignore[arg-type]
    )
    u = torch.from_numpy(generator.random((n, 3)))
    after = made(u, time)
    assert bool((after >= u.min(0).values - 1e-9).all() and (after <= u.max(0).values + 1e-9).all())


def test_one_strength_for_all_is_the_plain_diffusion() -> None:
    weights, u = random_weights(6, 4), probabilities(6, 3)
    plain = u - 0.05 * Graph.of(weights).laplacian(torch.float64)(u)
    torch.testing.assert_close(Anisotropic(Graph.of(weights))(u, 0.05, 1), plain)


def test_what_is_no_flow_is_refused() -> None:
    graph = Graph.of(random_weights(4, 0))
    with pytest.raises(InvalidInputError, match="rate"):
        Reaction(float("nan"))
    with pytest.raises(InvalidInputError, match="order"):
        Steps(torch.tanh, order=3)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="steps"):
        Steps(torch.tanh, steps=0)
    with pytest.raises(InvalidInputError, match="order"):
        Anisotropic(graph, order=0)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="per_class"):
        Anisotropic(graph, [1.0, -1.0])
    with pytest.raises(InvalidInputError, match="per_edge"):
        Anisotropic(graph, per_edge=-np.ones((4, 4)))
    with pytest.raises(InvalidInputError, match="shape"):
        Anisotropic(graph, per_edge=np.ones((3, 3)))
    with pytest.raises(InvalidInputError, match="2 strengths for 3 classes"):
        Anisotropic(graph, [1.0, 2.0])(probabilities(4, 3), 1.0)
