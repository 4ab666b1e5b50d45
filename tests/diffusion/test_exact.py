from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import expm
from tests.diffusion.problems import (
    PROBLEMS,
    Problem,
    dense_laplacian,
    operator_of,
    random_simplex,
    random_u,
    random_weights,
    with_weights,
)

from condiff.diffusion import Exact

kinds = pytest.mark.parametrize("kind", ["dense", "sparse"])


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: p.name)
@kinds
@pytest.mark.parametrize(("strength", "layers"), [(0.01, 1), (0.3, 5), (7.0, 3)])
def test_each_mode_decays_at_its_own_rate(problem: Problem, kind: str, strength: float, layers: int) -> None:
    modes = torch.from_numpy(problem.modes)
    factors = torch.from_numpy(np.exp(-strength * layers * problem.eigenvalues))
    actual = Exact()(problem.operator(kind), modes, strength, layers)
    torch.testing.assert_close(actual, modes * factors, rtol=0, atol=2e-14)


@kinds
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 3e-6), (torch.float64, 1e-13)])
@pytest.mark.parametrize("time", [1e-3, 0.5, 4.0, 60.0])
def test_equals_the_matrix_exponential(
    kind: str, directed: bool, dtype: torch.dtype, tolerance: float, time: float
) -> None:
    weights = random_weights(12, 3, directed=directed)
    u = random_u(12)
    expected = torch.from_numpy(expm(-time * dense_laplacian(weights))) @ u
    actual = Exact()(operator_of(weights, kind, dtype), u.to(dtype), time / 4, 4)
    assert actual.dtype == dtype
    torch.testing.assert_close(actual.double(), expected, rtol=0, atol=tolerance * max(1, time))


@kinds
def test_vectors_and_batches(kind: str) -> None:
    operator = operator_of(random_weights(7, 0), kind)
    u = random_u(7, 6)
    whole = Exact()(operator, u, 0.7, 5)
    torch.testing.assert_close(Exact()(operator, u[:, 2], 0.7, 5), whole[:, 2])
    batch = u.reshape(7, 2, 3).movedim(0, 1)
    torch.testing.assert_close(Exact()(operator, batch, 0.7, 5), whole.reshape(7, 2, 3).movedim(0, 1))


@kinds
@pytest.mark.parametrize("directed", [False, True])
def test_gradients_of_u_strength_and_weights(kind: str, directed: bool) -> None:
    operator = operator_of(random_weights(5, 0, directed=directed), kind)
    u, strength = random_u(5, 2).requires_grad_(), torch.tensor(0.4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda u, strength, weights: Exact()(with_weights(operator, weights), u, strength, 3),
        (u, strength, operator.weights.clone().requires_grad_()),
    )


@pytest.mark.parametrize("directed", [False, True])
def test_very_strong_diffusion_is_stable_and_reaches_its_limit(directed: bool) -> None:
    operator, u = operator_of(random_weights(12, 3, directed=directed)), random_simplex(12)
    after = Exact()(operator, u, 50.0, 2)
    assert after.min() >= 0
    assert after.max() <= u.max() + 1e-10
    torch.testing.assert_close(after, after[:1].expand_as(after), rtol=0, atol=1e-10)
    if not directed:
        torch.testing.assert_close(after, u.mean(dim=0).expand_as(after), rtol=0, atol=1e-10)


@kinds
def test_no_time_no_edges_and_isolated_nodes(kind: str) -> None:
    u = random_u(4)
    weights = np.zeros((4, 4))
    assert torch.equal(Exact()(operator_of(weights, kind), u, 1.0, 3), u)
    weights[0, 1] = weights[1, 0] = 1
    operator = operator_of(weights, kind)
    assert torch.equal(Exact()(operator, u, 1.0, 0), u)
    after = Exact()(operator, u, 1.0, 3)
    torch.testing.assert_close(after[2:], u[2:], rtol=0, atol=1e-14)
    assert not torch.allclose(after[:2], u[:2])


def test_the_strength_has_a_gradient_at_zero() -> None:
    operator, u = operator_of(random_weights(5, 0)), random_u(5)
    strength = torch.tensor(0.0, dtype=torch.float64, requires_grad=True)
    Exact()(operator, u, strength, 3).sum(dim=1).dot(torch.arange(5.0, dtype=torch.float64)).backward()
    expected = -3 * operator(u).sum(dim=1).dot(torch.arange(5.0, dtype=torch.float64))
    torch.testing.assert_close(strength.grad, expected)


graphs = st.builds(random_weights, st.integers(2, 10), st.integers(0, 10_000), directed=st.booleans())


@settings(max_examples=30, deadline=None)
@given(graphs, st.floats(0, 5), st.floats(0, 5))
def test_times_add_up(weights: np.ndarray, first: float, second: float) -> None:
    operator, u = operator_of(weights), random_u(len(weights))
    at_once = Exact()(operator, u, first + second, 1)
    in_turn = Exact()(operator, Exact()(operator, u, first, 1), second, 1)
    torch.testing.assert_close(at_once, in_turn, rtol=1e-12, atol=1e-12)


@settings(max_examples=30, deadline=None)
@given(graphs, st.floats(0, 20))
def test_probabilities_stay_probabilities(weights: np.ndarray, time: float) -> None:
    u = random_simplex(len(weights))
    after = Exact()(operator_of(weights), u, time, 1)
    assert (after >= u.min(dim=0).values - 1e-13).all()
    assert (after <= u.max(dim=0).values + 1e-13).all()
    torch.testing.assert_close(after.sum(dim=1), torch.ones(len(weights), dtype=torch.float64), rtol=0, atol=1e-12)
    if np.array_equal(weights, weights.T):
        torch.testing.assert_close(after.sum(dim=0), u.sum(dim=0), rtol=0, atol=1e-12)
