"""What holds for every solver; what is particular to one is in its own file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.diffusion.problems import (
    Problem,
    dense_laplacian,
    graphs,
    kinds,
    named,
    operator_of,
    path,
    random_simplex,
    random_u,
    random_weights,
    two_joined_of_four,
    with_weights,
)
from torch import Tensor

from condiff.diffusion import SOLVERS, Power, Solver
from condiff.errors import InvalidInputError
from condiff.graph import DenseLaplacian


@dataclass(frozen=True)
class Case:
    """A solver, the formula that it stands for, and how closely it has to follow it.

    Strengths of a solver that has a limit are shares of the positivity limit of the graph at hand.
    """

    solver: Solver
    #: What ``layers`` layers of ``strength`` multiply a mode of this eigenvalue by.
    factor: Callable[[NDArray[np.float64], float, int], NDArray[np.float64]]
    #: The same as a matrix, of the dense Laplacian; differentiable.
    propagator: Callable[[Tensor, float, int], Tensor]
    #: (strength, layers) at which both are checked.
    steps: list[tuple[float, int]]
    #: Largest error on a mode of unit length.
    modes: float
    #: Largest error on random values by their precision, and whether it is per unit of time where that is above one.
    random: dict[torch.dtype, float]
    per_time: bool = False
    #: Largest change of an isolated node's value, and of any value where there are no layers.
    isolated: float = 0.0
    no_layers: float = 0.0
    #: From where to where strengths are drawn, for how many layers, and by how much range and sums may then be missed.
    strengths: tuple[float, float] = (0.0, 1.0)
    layers: int = 1
    probabilities: tuple[float, float] = (1e-13, 1e-12)
    #: A strength that makes everything equal in two layers, and how equal.
    strong: tuple[float, float] = (50.0, 1e-10)
    directed: bool = True

    def strength(self, value: float, weights: NDArray[np.float64]) -> float:
        return value / (dense_laplacian(weights).diagonal().max() or 1.0) if self.solver.limited else value


def identity_like(matrix: Tensor) -> Tensor:
    return torch.eye(len(matrix), dtype=matrix.dtype)


HEAT: dict[str, Any] = {
    "factor": lambda x, strength, layers: np.exp(-strength * layers * x),
    "propagator": lambda matrix, strength, layers: torch.matrix_exp(-strength * layers * matrix),
}

POWER: dict[str, Any] = {
    "factor": lambda x, strength, layers: (1 - strength * x) ** layers,
    "propagator": lambda matrix, strength, layers: torch.linalg.matrix_power(
        identity_like(matrix) - strength * matrix, layers
    ),
}

CASES = {
    "euler": Case(
        SOLVERS["euler"](),
        **POWER,
        steps=[(0.9, 0), (0.9, 1), (0.9, 2), (0.9, 20), (0.9, 40), (0.26, 11), (0.65, 11)],
        modes=1e-13,
        random={torch.float32: 1e-6, torch.float64: 1e-12},
        strengths=(0.01, 1.0),
        layers=10,
    ),
    "exact": Case(
        SOLVERS["exact"](),
        **HEAT,
        steps=[(0.01, 1), (0.3, 5), (7.0, 3), (2.5e-4, 4), (0.125, 4), (1.0, 4), (15.0, 4)],
        modes=2e-14,
        random={torch.float32: 3e-6, torch.float64: 1e-13},
        per_time=True,
        isolated=1e-14,
        strengths=(0.0, 20.0),
    ),
    "chebyshev": Case(
        SOLVERS["chebyshev"](),
        **HEAT,
        steps=[(0.01, 1), (0.3, 5), (7.0, 30), (2.5e-4, 4), (0.125, 4), (1.0, 4), (15.0, 4)],
        modes=1e-13,
        random={torch.float32: 1e-5, torch.float64: 1e-13},
        isolated=1e-14,
        no_layers=1e-14,
        strengths=(0.0, 50.0),
        directed=False,
    ),
    "power": Case(
        Power(1e-13),
        **POWER,
        steps=[(0.9, 0), (0.9, 1), (0.9, 2), (0.9, 20), (0.9, 40), (0.26, 11), (0.65, 150)],
        modes=2e-11,
        random={torch.float32: 1e-5, torch.float64: 1e-10},
        isolated=1e-11,
        strengths=(0.01, 1.0),
        layers=40,
        probabilities=(1e-10, 1e-9),
        directed=False,
    ),
    "implicit": Case(
        SOLVERS["implicit"](),
        factor=lambda x, strength, layers: (1 + strength * x) ** -layers,
        propagator=lambda matrix, strength, layers: torch.linalg.matrix_power(
            torch.linalg.inv(identity_like(matrix) + strength * matrix), layers
        ),
        steps=[(0.01, 1), (0.3, 5), (50.0, 3), *((strength, k) for strength in (1e-3, 0.5, 20.0) for k in (1, 4))],
        modes=1e-12,
        random={torch.float32: 1e-4, torch.float64: 1e-12},
        isolated=1e-14,
        strengths=(1e-3, 1e3),
        layers=2,
        probabilities=(1e-10, 1e-10),
        strong=(1e6, 1e-6),
        directed=False,
    ),
}


def over(names: Any, *, directed: bool = False, steps: bool = False) -> pytest.MarkDecorator:
    """Solvers by name; on the directed graphs too that they take; at each of their steps."""
    chosen: list[Any] = []
    for name in names:
        for towards in [False, True] if directed and CASES[name].directed else [False]:
            for strength, layers in CASES[name].steps if steps else [(0.0, 0)]:
                values = [CASES[name], *([towards] if directed else []), *([strength, layers] if steps else [])]
                label = [name, *(["directed"] if towards else []), *([f"{strength:g}x{layers}"] if steps else [])]
                chosen.append(pytest.param(*values, id="-".join(label)))
    arguments = ["case", *(["directed"] if directed else []), *(["strength", "layers"] if steps else [])]
    return pytest.mark.parametrize(arguments, chosen)


UNLIMITED = [name for name in SOLVERS if not SOLVERS[name].limited]


def test_only_explicit_steps_have_a_limit() -> None:
    assert set(SOLVERS) - set(UNLIMITED) == {"euler", "power"}


@named
def test_the_shared_problems_have_the_modes_they_claim(problem: Problem) -> None:
    np.testing.assert_allclose(problem.matrix @ problem.modes, problem.modes * problem.eigenvalues, atol=1e-13)
    np.testing.assert_allclose(problem.modes.T @ problem.modes, np.eye(problem.n_nodes), atol=1e-13)


@named
@kinds
@over(SOLVERS, steps=True)
def test_each_mode_is_multiplied_by_its_own_factor(
    problem: Problem, kind: str, case: Case, strength: float, layers: int
) -> None:
    strength = case.strength(strength, problem.weights)
    modes = torch.from_numpy(problem.modes)
    factors = torch.from_numpy(case.factor(problem.eigenvalues, strength, layers))
    actual = case.solver(problem.operator(kind), modes, strength, layers)
    torch.testing.assert_close(actual, modes * factors, rtol=0, atol=case.modes)


@kinds
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@over(SOLVERS, directed=True, steps=True)
def test_random_values_are_multiplied_by_the_matrix(
    kind: str, dtype: torch.dtype, case: Case, directed: bool, strength: float, layers: int
) -> None:
    weights, u = random_weights(12, 3, directed=directed), random_u(12)
    strength = case.strength(strength, weights)
    expected = case.propagator(torch.from_numpy(dense_laplacian(weights)), strength, layers) @ u
    actual = case.solver(operator_of(weights, kind, dtype), u.to(dtype), strength, layers)
    assert actual.dtype == dtype
    tolerance = case.random[dtype] * (max(1.0, strength * layers) if case.per_time else 1.0)
    torch.testing.assert_close(actual.double(), expected, rtol=0, atol=tolerance)


@kinds
@over(SOLVERS, directed=True)
def test_vectors_and_batches(kind: str, case: Case, directed: bool) -> None:
    weights, u = random_weights(7, 0, directed=directed), random_u(7, 6)
    operator, strength = operator_of(weights, kind), case.strength(0.7, weights)
    whole = case.solver(operator, u, strength, 5)
    torch.testing.assert_close(case.solver(operator, u[:, 2], strength, 5), whole[:, 2])
    batch = u.reshape(7, 2, 3).movedim(0, 1)
    torch.testing.assert_close(case.solver(operator, batch, strength, 5), whole.reshape(7, 2, 3).movedim(0, 1))


@over(SOLVERS)
def test_a_batch_of_dense_graphs(case: Case) -> None:
    weights = torch.from_numpy(np.stack([random_weights(6, seed) for seed in range(3)]))
    u = random_u(6).expand(3, 6, 3)
    expected = torch.stack([case.solver(DenseLaplacian(w), random_u(6), 2.0, 2) for w in weights])
    torch.testing.assert_close(case.solver(DenseLaplacian(weights), u, 2.0, 2), expected)


@kinds
@over(SOLVERS, directed=True)
def test_gradients_of_u_and_strength(kind: str, case: Case, directed: bool) -> None:
    operator = operator_of(random_weights(6, 0, directed=directed), kind)
    u, strength = random_u(6, 2).requires_grad_(), torch.tensor(0.4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda u, strength: case.solver(operator, u, strength, 3), (u, strength))
    assert torch.autograd.gradcheck(lambda strength: case.solver(operator, u.detach(), strength, 3), (strength,))


@kinds
@over([name for name in SOLVERS if name != "implicit"], directed=True)  # its iterations need the symmetry
def test_gradients_of_weights_that_move_one_by_one(kind: str, case: Case, directed: bool) -> None:
    operator = operator_of(random_weights(6, 0, directed=directed), kind)
    u, strength = random_u(6, 2).requires_grad_(), torch.tensor(0.4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda u, strength, weights: case.solver(with_weights(operator, weights), u, strength, 3),
        (u, strength, operator.weights.clone().requires_grad_()),
    )


@kinds
@over(SOLVERS, directed=True)
def test_gradients_of_the_weights_are_those_of_the_dense_matrix(kind: str, case: Case, directed: bool) -> None:
    weights, pull = random_weights(6, 0, directed=directed), random_u(6, seed=5)
    operator = operator_of(weights, kind)
    operator.weights.requires_grad_()
    (case.solver(operator, random_u(6), 0.4, 3) * pull).sum().backward()

    reference = torch.from_numpy(weights).requires_grad_()
    matrix = torch.diag(reference.sum(1)) - reference
    (case.propagator(matrix, 0.4, 3) @ random_u(6) * pull).sum().backward()
    assert reference.grad is not None
    expected = reference.grad if kind == "dense" else reference.grad[reference > 0]
    torch.testing.assert_close(operator.weights.grad, expected, rtol=1e-9, atol=1e-11)


@kinds
@over(SOLVERS, directed=True)
def test_the_strength_has_a_gradient_at_zero(kind: str, case: Case, directed: bool) -> None:
    operator, u = operator_of(random_weights(5, 0, directed=directed), kind), random_u(5)
    strength = torch.tensor(0.0, dtype=torch.float64, requires_grad=True)
    case.solver(operator, u, strength, 3).sum(dim=1).dot(torch.arange(5.0, dtype=torch.float64)).backward()
    expected = -3 * operator(u).sum(dim=1).dot(torch.arange(5.0, dtype=torch.float64))
    torch.testing.assert_close(strength.grad, expected)


@kinds
@over(SOLVERS)
def test_no_layers_no_edges_zero_columns_and_isolated_nodes(kind: str, case: Case) -> None:
    u = random_u(4)
    u[:, 1] = 0
    edgeless, joined = operator_of(np.zeros((4, 4)), kind), operator_of(two_joined_of_four(), kind)
    for strength, layers in ((0.3, 7), (1.0, 3)):
        assert torch.equal(case.solver(edgeless, u, strength, layers), u)
        torch.testing.assert_close(case.solver(joined, u, strength, 0), u, rtol=0, atol=case.no_layers)
        after = case.solver(joined, u, strength, layers)
        torch.testing.assert_close(after[2:], u[2:], rtol=0, atol=case.isolated)
        torch.testing.assert_close(after[:, 1], u[:, 1], rtol=0, atol=0)
        assert not torch.allclose(after[:2], u[:2])


@over(UNLIMITED, directed=True)
@kinds
def test_very_strong_diffusion_is_stable_and_reaches_its_limit(case: Case, directed: bool, kind: str) -> None:
    operator, u = operator_of(random_weights(12, 3, directed=directed), kind), random_simplex(12)
    strength, tolerance = case.strong
    after = case.solver(operator, u, strength, 2)
    assert after.min() >= 0
    assert after.max() <= u.max() + 1e-10
    torch.testing.assert_close(after, after[:1].expand_as(after), rtol=0, atol=tolerance)
    if not directed:
        torch.testing.assert_close(after, u.mean(dim=0).expand_as(after), rtol=0, atol=tolerance)


@pytest.mark.parametrize(("name", "layers"), [("euler", [40, 80, 160, 320]), ("implicit", [20, 40, 80, 160])])
def test_the_first_order_of_convergence(name: str, layers: list[int]) -> None:
    problem, u, time = path(7), random_u(7), 1.0
    exact = problem.evolved(lambda x: np.exp(-time * x), u)
    errors = [float((CASES[name].solver(problem.operator(), u, time / k, k) - exact).norm()) for k in layers]
    order = -np.polyfit(np.log(layers), np.log(errors), 1)[0]
    assert order == pytest.approx(1.0, abs=0.1)
    assert errors[-1] == pytest.approx(errors[-2] / 2, rel=0.05)


@pytest.mark.parametrize(("name", "called"), [("chebyshev", "Chebyshev"), ("implicit", "implicit")])
def test_directed_graphs_are_refused(name: str, called: str) -> None:
    operator = operator_of(random_weights(5, 0, directed=True))
    with pytest.raises(InvalidInputError, match=f"the {called} solver needs a symmetric graph; use solver='exact'"):
        CASES[name].solver(operator, random_u(5), 0.1, 1)


@over(SOLVERS)
@settings(max_examples=30, deadline=None)
@given(st.data(), st.floats(-3, 3))
def test_linear_and_constant_preserving(case: Case, data: st.DataObject, factor: float) -> None:
    weights = data.draw(graphs(directed=case.directed))
    operator, n = operator_of(weights), len(weights)
    u, v = random_u(n, seed=1), random_u(n, seed=2)
    both = case.solver(operator, u + factor * v, 0.05, 4)
    apart = case.solver(operator, u, 0.05, 4) + factor * case.solver(operator, v, 0.05, 4)
    torch.testing.assert_close(both, apart, rtol=1e-11, atol=1e-11)
    constant = torch.full((n, 2), 0.7, dtype=torch.float64)
    torch.testing.assert_close(case.solver(operator, constant, 0.05, 4), constant, rtol=0, atol=1e-12)


@over(SOLVERS)
@settings(max_examples=30, deadline=None)
@given(st.data())
def test_probabilities_stay_probabilities_and_mass_stays(case: Case, data: st.DataObject) -> None:
    weights = data.draw(graphs(directed=case.directed))
    operator, u = operator_of(weights), random_simplex(len(weights))
    strength = case.strength(data.draw(st.floats(*case.strengths)), weights)
    of_range, of_sums = case.probabilities
    after = case.solver(operator, u, strength, case.layers)
    assert (after >= u.min(dim=0).values - of_range).all()
    assert (after <= u.max(dim=0).values + of_range).all()
    torch.testing.assert_close(after.sum(dim=1), torch.ones(len(weights), dtype=torch.float64), rtol=0, atol=of_sums)
    if operator.symmetric:
        torch.testing.assert_close(after.sum(dim=0), u.sum(dim=0), rtol=0, atol=of_sums)
    constant = torch.full((len(weights), 1), 0.7, dtype=torch.float64)
    torch.testing.assert_close(case.solver(operator, constant, strength, case.layers), constant, rtol=0, atol=of_sums)


@over(["exact", "chebyshev"])
@settings(max_examples=30, deadline=None)
@given(st.data(), st.floats(0, 5), st.floats(0, 5))
def test_times_add_up(case: Case, data: st.DataObject, first: float, second: float) -> None:
    weights = data.draw(graphs(directed=case.directed))
    operator, u = operator_of(weights), random_u(len(weights))
    at_once = case.solver(operator, u, first + second, 1)
    in_turn = case.solver(operator, case.solver(operator, u, first, 1), second, 1)
    torch.testing.assert_close(at_once, in_turn, rtol=1e-12, atol=1e-12)
