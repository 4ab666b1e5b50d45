from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.diffusion.problems import (
    PROBLEMS,
    Problem,
    complete,
    cycle,
    dense_laplacian,
    operator_of,
    path,
    random_simplex,
    random_u,
    random_weights,
    with_weights,
)

from condiff.diffusion import Euler, Exact, certify

named = pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: p.name)
kinds = pytest.mark.parametrize("kind", ["dense", "sparse"])


@named
def test_the_shared_problems_have_the_modes_they_claim(problem: Problem) -> None:
    np.testing.assert_allclose(problem.matrix @ problem.modes, problem.modes * problem.eigenvalues, atol=1e-13)
    np.testing.assert_allclose(problem.modes.T @ problem.modes, np.eye(problem.n_nodes), atol=1e-13)


@named
@kinds
def test_each_mode_is_multiplied_by_its_own_factor(problem: Problem, kind: str) -> None:
    modes, strength, layers = torch.from_numpy(problem.modes), 0.13, 11
    factors = torch.from_numpy((1 - strength * problem.eigenvalues) ** layers)
    torch.testing.assert_close(
        Euler()(problem.operator(kind), modes, strength, layers), modes * factors, rtol=0, atol=1e-13
    )


@kinds
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.float64, 1e-12)])
@pytest.mark.parametrize("layers", [0, 1, 2, 20, 40])
def test_layers_equal_the_matrix_power(
    kind: str, directed: bool, dtype: torch.dtype, tolerance: float, layers: int
) -> None:
    weights = random_weights(12, 3, directed=directed)
    matrix = dense_laplacian(weights)
    strength = 0.9 / matrix.diagonal().max()
    u = random_simplex(12)
    expected = torch.from_numpy(np.linalg.matrix_power(np.eye(12) - strength * matrix, layers)) @ u
    actual = Euler()(operator_of(weights, kind, dtype), u.to(dtype), strength, layers)
    assert actual.dtype == dtype
    torch.testing.assert_close(actual.double(), expected, rtol=0, atol=tolerance)


@kinds
def test_vectors_and_batches(kind: str) -> None:
    operator = path(7).operator(kind)
    u = random_u(7, 6)
    whole = Euler()(operator, u, 0.2, 5)
    torch.testing.assert_close(Euler()(operator, u[:, 2], 0.2, 5), whole[:, 2])
    batch = u.reshape(7, 2, 3).movedim(0, 1)
    torch.testing.assert_close(Euler()(operator, batch, 0.2, 5), whole.reshape(7, 2, 3).movedim(0, 1))


@kinds
@pytest.mark.parametrize("directed", [False, True])
def test_gradients_of_u_strength_and_weights(kind: str, directed: bool) -> None:
    operator = operator_of(random_weights(6, 0, directed=directed), kind)
    u, strength = random_u(6, 2).requires_grad_(), torch.tensor(0.2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda u, strength, weights: Euler()(with_weights(operator, weights), u, strength, 3),
        (u, strength, operator.weights.clone().requires_grad_()),
    )


def test_the_first_order_of_convergence() -> None:
    problem, u, time = path(7), random_u(7), 1.0
    exact = problem.evolved(lambda x: np.exp(-time * x), u)
    layers = [40, 80, 160, 320]
    errors = [float((Euler()(problem.operator(), u, time / k, k) - exact).norm()) for k in layers]
    order = -np.polyfit(np.log(layers), np.log(errors), 1)[0]
    assert order == pytest.approx(1.0, abs=0.1)
    assert errors[-1] == pytest.approx(errors[-2] / 2, rel=0.05)


@pytest.mark.parametrize("problem", [cycle(8), complete(6)], ids=lambda p: p.name)
def test_the_stability_limit_is_sharp(problem: Problem) -> None:
    limit = 2 / problem.eigenvalues.max()
    fastest = torch.from_numpy(problem.modes[:, [int(problem.eigenvalues.argmax())]])
    within = Euler()(problem.operator(), fastest, 0.999 * limit, 300)
    past = Euler()(problem.operator(), fastest, 1.01 * limit, 300)
    assert within.norm() < 1
    assert past.norm() > 100


def test_the_positivity_limit_is_sharp() -> None:
    # The centre of a star loses more than it has as soon as strength x degree is past 1.
    weights = np.zeros((6, 6))
    weights[0, 1:] = weights[1:, 0] = 1
    operator = operator_of(weights)
    limit = certify(operator).positivity_limit
    assert limit == pytest.approx(1 / 5)
    u = torch.eye(6, dtype=torch.float64)[:, [0]]
    assert Euler()(operator, u, limit, 1).min() >= 0
    assert Euler()(operator, u, 1.001 * limit, 1).min() < 0


@kinds
def test_isolated_nodes_keep_their_value(kind: str) -> None:
    weights = np.zeros((4, 4))
    weights[0, 1] = weights[1, 0] = 1
    u = random_u(4)
    actual = Euler()(operator_of(weights, kind), u, 0.3, 7)
    torch.testing.assert_close(actual[2:], u[2:], rtol=0, atol=0)
    assert not torch.allclose(actual[:2], u[:2])
    edgeless = operator_of(np.zeros((4, 4)), kind)
    torch.testing.assert_close(Euler()(edgeless, u, 0.3, 7), u, rtol=0, atol=0)


graphs = st.builds(
    random_weights,
    st.integers(2, 12),
    st.integers(0, 10_000),
    density=st.sampled_from([0.1, 0.4, 1.0]),
    directed=st.booleans(),
)
undirected = st.builds(
    random_weights, st.integers(2, 12), st.integers(0, 10_000), density=st.sampled_from([0.1, 0.4, 1.0])
)


@settings(max_examples=40, deadline=None)
@given(graphs, st.floats(0.01, 1.0))
def test_within_the_positivity_limit_every_layer_is_an_average(weights: np.ndarray, fraction: float) -> None:
    operator = operator_of(weights)
    limit = certify(operator).positivity_limit
    strength = fraction * limit if np.isfinite(limit) else fraction
    step = Euler()(operator, torch.eye(len(weights), dtype=torch.float64), strength, 1)
    assert step.min() >= -1e-14
    torch.testing.assert_close(step.sum(dim=1), torch.ones(len(weights), dtype=torch.float64), rtol=0, atol=1e-13)
    u = random_simplex(len(weights))
    after = Euler()(operator, u, strength, 10)
    assert (after <= u.max(dim=0).values + 1e-13).all()
    assert (after >= u.min(dim=0).values - 1e-13).all()
    torch.testing.assert_close(after.sum(dim=1), torch.ones(len(weights), dtype=torch.float64), rtol=0, atol=1e-12)


@settings(max_examples=40, deadline=None)
@given(undirected, st.floats(0.01, 1.0))
def test_within_the_stability_limit_the_norm_never_grows_and_mass_stays(weights: np.ndarray, fraction: float) -> None:
    operator = operator_of(weights)
    limit = certify(operator).stability_limit
    strength = fraction * limit if np.isfinite(limit) else fraction
    u = random_u(len(weights))
    after = Euler()(operator, u, strength, 10)
    assert (after.norm(dim=0) <= u.norm(dim=0) * (1 + 1e-12)).all()
    torch.testing.assert_close(after.sum(dim=0), u.sum(dim=0), rtol=0, atol=1e-11)


@settings(max_examples=30, deadline=None)
@given(graphs, st.floats(-3, 3), st.sampled_from([Euler(), Exact()]))
def test_linear_and_constant_preserving(weights: np.ndarray, factor: float, solver: Euler | Exact) -> None:
    operator, n = operator_of(weights), len(weights)
    u, v = random_u(n, seed=1), random_u(n, seed=2)
    both = solver(operator, u + factor * v, 0.05, 4)
    apart = solver(operator, u, 0.05, 4) + factor * solver(operator, v, 0.05, 4)
    torch.testing.assert_close(both, apart, rtol=1e-11, atol=1e-11)
    constant = torch.full((n, 2), 0.7, dtype=torch.float64)
    torch.testing.assert_close(solver(operator, constant, 0.05, 4), constant, rtol=0, atol=1e-12)
