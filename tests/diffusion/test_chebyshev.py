from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import expm
from tests.diffusion.problems import (
    Counting,
    cycle,
    dense_laplacian,
    graphs,
    kinds,
    operator_of,
    random_simplex,
    random_u,
    random_weights,
)

from condiff.diffusion import Chebyshev, Exact
from condiff.diffusion.chebyshev import chebyshev_degree
from condiff.errors import InvalidInputError


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
def test_gradients_of_the_weights_are_those_of_the_exact_solver(kind: str) -> None:
    gradients = []
    for solver in (Chebyshev(1e-14), Exact()):
        operator = operator_of(random_weights(6, 0), kind)
        operator.weights.requires_grad_()
        solver(operator, random_u(6), 0.4, 3).square().sum().backward()
        gradients.append(operator.weights.grad)
    torch.testing.assert_close(*gradients, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("tolerance", [0.0, 1.0, -1e-3])
def test_tolerances_out_of_range(tolerance: float) -> None:
    with pytest.raises(InvalidInputError, match="tolerance must lie between 0 and 1"):
        Chebyshev(tolerance)


@settings(max_examples=25, deadline=None)
@given(graphs(), st.floats(0, 50))
def test_mass_constants_and_range_hold_up_to_the_tolerance(weights: np.ndarray, time: float) -> None:
    u = random_simplex(len(weights))
    after = Chebyshev(1e-8)(operator_of(weights), u, time, 1)
    torch.testing.assert_close(after.sum(dim=0), u.sum(dim=0), rtol=0, atol=1e-7)
    torch.testing.assert_close(after.sum(dim=1), torch.ones(len(weights), dtype=torch.float64), rtol=0, atol=1e-7)
    assert after.min() >= -1e-7
