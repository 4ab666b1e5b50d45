from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.diffusion.problems import (
    PROBLEMS,
    Problem,
    dense_laplacian,
    operator_of,
    path,
    random_simplex,
    random_u,
    random_weights,
)

from condiff.diffusion import Implicit
from condiff.errors import InvalidInputError
from condiff.graph import DenseLaplacian

kinds = pytest.mark.parametrize("kind", ["dense", "sparse"])


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: p.name)
@kinds
@pytest.mark.parametrize(("strength", "layers"), [(0.01, 1), (0.3, 5), (50.0, 3)])
def test_each_mode_is_divided_by_its_own_factor(problem: Problem, kind: str, strength: float, layers: int) -> None:
    modes = torch.from_numpy(problem.modes)
    factors = torch.from_numpy((1 + strength * problem.eigenvalues) ** -layers)
    actual = Implicit()(problem.operator(kind), modes, strength, layers)
    torch.testing.assert_close(actual, modes * factors, rtol=0, atol=1e-12)


@kinds
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-4), (torch.float64, 1e-12)])
@pytest.mark.parametrize("strength", [1e-3, 0.5, 20.0])
@pytest.mark.parametrize("layers", [1, 4])
def test_equals_the_dense_inverse(
    kind: str, dtype: torch.dtype, tolerance: float, strength: float, layers: int
) -> None:
    weights, u = random_weights(12, 3), random_u(12)
    inverse = np.linalg.inv(np.eye(12) + strength * dense_laplacian(weights))
    expected = torch.from_numpy(np.linalg.matrix_power(inverse, layers)) @ u
    actual = Implicit()(operator_of(weights, kind, dtype), u.to(dtype), strength, layers)
    assert actual.dtype == dtype
    torch.testing.assert_close(actual.double(), expected, rtol=0, atol=tolerance)


@kinds
def test_vectors_and_batches(kind: str) -> None:
    operator = operator_of(random_weights(7, 0), kind)
    u = random_u(7, 6)
    whole = Implicit()(operator, u, 0.7, 5)
    torch.testing.assert_close(Implicit()(operator, u[:, 2], 0.7, 5), whole[:, 2])
    batch = u.reshape(7, 2, 3).movedim(0, 1)
    torch.testing.assert_close(Implicit()(operator, batch, 0.7, 5), whole.reshape(7, 2, 3).movedim(0, 1))


def test_a_batch_of_dense_graphs() -> None:
    weights = torch.from_numpy(np.stack([random_weights(6, seed) for seed in range(3)]))
    u = random_u(6).expand(3, 6, 3)
    expected = torch.stack([Implicit()(DenseLaplacian(w), random_u(6), 2.0, 2) for w in weights])
    torch.testing.assert_close(Implicit()(DenseLaplacian(weights), u, 2.0, 2), expected)


@kinds
def test_gradients_of_u_and_strength(kind: str) -> None:
    operator = operator_of(random_weights(5, 0), kind)
    u, strength = random_u(5, 2).requires_grad_(), torch.tensor(0.4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda u, strength: Implicit()(operator, u, strength, 3), (u, strength))
    assert torch.autograd.gradcheck(lambda strength: Implicit()(operator, u.detach(), strength, 3), (strength,))


@kinds
def test_gradients_of_the_weights_are_those_of_the_dense_inverse(kind: str) -> None:
    operator = operator_of(random_weights(6, 0), kind)
    operator.weights.requires_grad_()
    pull = random_u(6, seed=5)
    (Implicit()(operator, random_u(6), 0.4, 3) * pull).sum().backward()

    reference = torch.from_numpy(random_weights(6, 0)).requires_grad_()
    matrix = torch.eye(6, dtype=torch.float64) + 0.4 * (torch.diag(reference.sum(1)) - reference)
    (torch.linalg.matrix_power(torch.linalg.inv(matrix), 3) @ random_u(6) * pull).sum().backward()
    assert reference.grad is not None
    expected = reference.grad if kind == "dense" else reference.grad[reference > 0]
    torch.testing.assert_close(operator.weights.grad, expected, rtol=1e-9, atol=1e-11)


def test_the_first_order_of_convergence() -> None:
    problem, u, time = path(7), random_u(7), 1.0
    exact = problem.evolved(lambda x: np.exp(-time * x), u)
    layers = [20, 40, 80, 160]
    errors = [float((Implicit()(problem.operator(), u, time / k, k) - exact).norm()) for k in layers]
    order = -np.polyfit(np.log(layers), np.log(errors), 1)[0]
    assert order == pytest.approx(1.0, abs=0.1)
    assert errors[-1] == pytest.approx(errors[-2] / 2, rel=0.05)


@kinds
def test_very_strong_diffusion_is_stable_and_reaches_the_mean(kind: str) -> None:
    operator, u = operator_of(random_weights(12, 3), kind), random_simplex(12)
    after = Implicit()(operator, u, 1e6, 2)
    torch.testing.assert_close(after, u.mean(dim=0).expand_as(after), rtol=0, atol=1e-6)
    assert after.min() >= 0


@kinds
def test_no_layers_no_edges_zero_columns_and_isolated_nodes(kind: str) -> None:
    u = random_u(4)
    u[:, 1] = 0
    weights = np.zeros((4, 4))
    torch.testing.assert_close(Implicit()(operator_of(weights, kind), u, 1.0, 3), u, rtol=0, atol=0)
    weights[0, 1] = weights[1, 0] = 1
    operator = operator_of(weights, kind)
    assert torch.equal(Implicit()(operator, u, 1.0, 0), u)
    after = Implicit()(operator, u, 1.0, 3)
    torch.testing.assert_close(after[2:], u[2:], rtol=0, atol=1e-14)
    torch.testing.assert_close(after[:, 1], u[:, 1], rtol=0, atol=0)
    assert not torch.allclose(after[:2], u[:2])


def test_directed_graphs_are_refused() -> None:
    operator = operator_of(random_weights(5, 0, directed=True))
    with pytest.raises(InvalidInputError, match="the implicit solver needs a symmetric graph; use solver='exact'"):
        Implicit()(operator, random_u(5), 0.1, 1)


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


@settings(max_examples=25, deadline=None)
@given(st.builds(random_weights, st.integers(2, 10), st.integers(0, 10_000)), st.floats(1e-3, 1e3))
def test_probabilities_stay_probabilities_and_mass_stays(weights: np.ndarray, strength: float) -> None:
    u = random_simplex(len(weights))
    after = Implicit()(operator_of(weights), u, strength, 2)
    assert (after >= u.min(dim=0).values - 1e-10).all()
    assert (after <= u.max(dim=0).values + 1e-10).all()
    torch.testing.assert_close(after.sum(dim=1), torch.ones(len(weights), dtype=torch.float64), rtol=0, atol=1e-10)
    torch.testing.assert_close(after.sum(dim=0), u.sum(dim=0), rtol=0, atol=1e-10)
    constant = torch.full((len(weights), 1), 0.7, dtype=torch.float64)
    torch.testing.assert_close(Implicit()(operator_of(weights), constant, strength, 2), constant, rtol=0, atol=1e-10)
