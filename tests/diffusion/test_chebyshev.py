from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import expm
from tests.diffusion.problems import (
    PROBLEMS,
    Problem,
    cycle,
    dense_laplacian,
    operator_of,
    random_simplex,
    random_u,
    random_weights,
    with_weights,
)
from torch import Tensor

from condiff.diffusion import Chebyshev, Exact
from condiff.diffusion.chebyshev import chebyshev_degree
from condiff.errors import InvalidInputError
from condiff.graph import DenseLaplacian

kinds = pytest.mark.parametrize("kind", ["dense", "sparse"])


class Counting(DenseLaplacian):
    """Counts its products."""

    calls = 0

    def __call__(self, u: Tensor) -> Tensor:
        self.calls += 1
        return super().__call__(u)


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: p.name)
@kinds
@pytest.mark.parametrize(("strength", "layers"), [(0.01, 1), (0.3, 5), (7.0, 30)])
def test_each_mode_decays_at_its_own_rate(problem: Problem, kind: str, strength: float, layers: int) -> None:
    modes = torch.from_numpy(problem.modes)
    factors = torch.from_numpy(np.exp(-strength * layers * problem.eigenvalues))
    actual = Chebyshev()(problem.operator(kind), modes, strength, layers)
    torch.testing.assert_close(actual, modes * factors, rtol=0, atol=1e-13)


@kinds
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-13)])
@pytest.mark.parametrize("time", [1e-3, 0.5, 4.0, 60.0])
def test_equals_the_matrix_exponential(kind: str, dtype: torch.dtype, tolerance: float, time: float) -> None:
    weights, u = random_weights(12, 3), random_u(12)
    expected = torch.from_numpy(expm(-time * dense_laplacian(weights))) @ u
    actual = Chebyshev()(operator_of(weights, kind, dtype), u.to(dtype), time / 4, 4)
    assert actual.dtype == dtype
    torch.testing.assert_close(actual.double(), expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("time", [0.05, 1.0, 10.0, 300.0])
@pytest.mark.parametrize("tolerance", [1e-1, 1e-3, 1e-6, 1e-10])
def test_the_error_is_below_the_tolerance(time: float, tolerance: float) -> None:
    for seed in range(5):
        weights = random_weights(15, seed, density=0.3)
        identity = torch.eye(15, dtype=torch.float64)
        actual = Chebyshev(tolerance)(operator_of(weights), identity, time, 1)
        error = np.linalg.norm(actual.numpy() - expm(-time * dense_laplacian(weights)), ord=2)
        assert error <= tolerance + 1e-13


@pytest.mark.parametrize("reach", [0.0, 1e-3, 1.0, 30.0, 1000.0])
@pytest.mark.parametrize("tolerance", [1e-2, 1e-6, 1e-10])
def test_the_degree_bounds_the_scalar_error_without_waste(reach: float, tolerance: float) -> None:
    def error(degree: int) -> float:
        series = np.polynomial.chebyshev.chebinterpolate(lambda x: np.exp(-reach * (1 + x)), degree + 64)
        x = np.cos(np.linspace(0, np.pi, 4001))
        truncated = np.polynomial.chebyshev.chebval(x, series[: degree + 1])
        return float(np.abs(truncated - np.exp(-reach * (1 + x))).max())

    degree = chebyshev_degree(reach, tolerance)
    assert error(degree) <= tolerance + 1e-11  # the rounding of the check itself
    if degree > 1:  # the bound is a sum of absolute values, so a little generous
        assert error(int(degree * 0.7) - 2 if degree > 9 else 0) > tolerance


def test_the_degree_grows_with_the_root_of_the_time() -> None:
    degrees = [chebyshev_degree(reach, 1e-6) for reach in (100.0, 400.0, 1600.0, 6400.0)]
    ratios = np.array(degrees[1:]) / degrees[:-1]
    assert np.all((ratios > 1.7) & (ratios < 2.2))


@pytest.mark.parametrize("time", [100.0, 1000.0])
def test_long_times_need_fewer_products_than_explicit_steps(time: float) -> None:
    problem = cycle(30)
    operator = Counting(torch.from_numpy(problem.weights))
    u = random_u(30)
    actual = Chebyshev(1e-6)(operator, u, time, 1)
    steps = math.ceil(time * problem.eigenvalues.max() / 2)  # at the stability limit
    assert operator.calls == chebyshev_degree(2 * time, 1e-6)
    assert operator.calls < steps / 2
    expected = problem.evolved(lambda x: np.exp(-time * x), u)
    assert (actual - expected).norm() <= 1e-6 * u.norm()


@kinds
def test_vectors_and_batches(kind: str) -> None:
    operator = operator_of(random_weights(7, 0), kind)
    u = random_u(7, 6)
    whole = Chebyshev()(operator, u, 0.7, 5)
    torch.testing.assert_close(Chebyshev()(operator, u[:, 2], 0.7, 5), whole[:, 2])
    batch = u.reshape(7, 2, 3).movedim(0, 1)
    torch.testing.assert_close(Chebyshev()(operator, batch, 0.7, 5), whole.reshape(7, 2, 3).movedim(0, 1))


@kinds
def test_gradients_of_u_strength_and_weights(kind: str) -> None:
    operator = operator_of(random_weights(5, 0), kind)
    u, strength = random_u(5, 2).requires_grad_(), torch.tensor(0.4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda u, strength, weights: Chebyshev()(with_weights(operator, weights), u, strength, 3),
        (u, strength, operator.weights.clone().requires_grad_()),
    )


@kinds
def test_gradients_of_the_weights_are_those_of_the_exact_solver(kind: str) -> None:
    gradients = []
    for solver in (Chebyshev(1e-14), Exact()):
        operator = operator_of(random_weights(6, 0), kind)
        operator.weights.requires_grad_()
        solver(operator, random_u(6), 0.4, 3).square().sum().backward()
        gradients.append(operator.weights.grad)
    torch.testing.assert_close(*gradients, rtol=1e-10, atol=1e-11)


def test_directed_graphs_are_refused() -> None:
    operator = operator_of(random_weights(5, 0, directed=True))
    with pytest.raises(InvalidInputError, match="the Chebyshev solver needs a symmetric graph; use solver='exact'"):
        Chebyshev()(operator, random_u(5), 0.1, 1)


@pytest.mark.parametrize("tolerance", [0.0, 1.0, -1e-3])
def test_tolerances_out_of_range(tolerance: float) -> None:
    with pytest.raises(InvalidInputError, match="tolerance must lie between 0 and 1"):
        Chebyshev(tolerance)


@kinds
def test_no_time_no_edges_and_isolated_nodes(kind: str) -> None:
    u = random_u(4)
    weights = np.zeros((4, 4))
    assert torch.equal(Chebyshev()(operator_of(weights, kind), u, 1.0, 3), u)
    weights[0, 1] = weights[1, 0] = 1
    operator = operator_of(weights, kind)
    torch.testing.assert_close(Chebyshev()(operator, u, 1.0, 0), u, rtol=0, atol=1e-14)
    after = Chebyshev()(operator, u, 1.0, 3)
    torch.testing.assert_close(after[2:], u[2:], rtol=0, atol=1e-14)
    assert not torch.allclose(after[:2], u[:2])


@settings(max_examples=25, deadline=None)
@given(st.builds(random_weights, st.integers(2, 10), st.integers(0, 10_000)), st.floats(0, 50))
def test_mass_constants_and_range_hold_up_to_the_tolerance(weights: np.ndarray, time: float) -> None:
    u = random_simplex(len(weights))
    after = Chebyshev(1e-8)(operator_of(weights), u, time, 1)
    torch.testing.assert_close(after.sum(dim=0), u.sum(dim=0), rtol=0, atol=1e-7)
    torch.testing.assert_close(after.sum(dim=1), torch.ones(len(weights), dtype=torch.float64), rtol=0, atol=1e-7)
    assert after.min() >= -1e-7
