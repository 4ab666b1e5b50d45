from __future__ import annotations

import warnings

import pytest
from tests.diffusion.problems import path, random_u

from condiff.diffusion import Implicit


def test_too_few_iterations_warn_with_the_residual() -> None:
    problem, u = path(60), random_u(60)
    with pytest.warns(
        RuntimeWarning, match=r"stopped after 3 iterations at the relative residual \d.\de.*max_iterations"
    ):
        Implicit(max_iterations=3)(problem.operator(), u, 100.0, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Implicit(tolerance=0.5, max_iterations=30)(problem.operator(), u, 100.0, 1)


def test_the_tolerance_bounds_the_residual() -> None:
    problem, u = path(60), random_u(60)
    errors = []
    for tolerance in (1e-2, 1e-5, 1e-8):
        x = Implicit(tolerance)(problem.operator(), u, 10.0, 1)
        residual = (x + 10.0 * problem.operator()(x) - u).norm(dim=0) / u.norm(dim=0)
        assert (residual <= tolerance).all()
        errors.append(float(residual.max()))
    assert errors[0] > 1e-5  # it does stop early
