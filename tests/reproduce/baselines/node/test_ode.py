import math
import sys

import pytest
import torch

from condiff.errors import InvalidInputError, MissingDependencyError
from condiff.graph.sparse import SparseMatrix
from condiff.reproduce.baselines.node.ode import Solver, chebyshev_sum, linear_weights, power_sum


def shift(terms: int) -> torch.Tensor:
    return torch.diag(torch.ones(terms - 1, dtype=torch.float64), -1) - torch.eye(terms)


def test_the_solver_decays_as_the_exponential_and_counts() -> None:
    solver = Solver("dopri5", 1e-9, 1e-11)
    start = torch.tensor([1.0, -2.0], dtype=torch.float64)
    torch.testing.assert_close(solver(torch.neg, start, 3.0), start * math.exp(-3), rtol=1e-7, atol=0)
    assert solver.evaluations > 10
    once = Solver("rk4")
    once(torch.neg, start, 0.1)
    assert once.evaluations == 4


def test_time_zero_is_the_start() -> None:
    start = torch.ones(3)
    assert Solver("rk4")(torch.neg, start, 0.0) is start


def test_an_unknown_solver_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="'dopri5', 'rk4' or 'euler', not 'heun'"):
        Solver("heun")


def test_without_torchdiffeq_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchdiffeq", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'condiff\[baselines\]'"):
        Solver("dopri5")


def test_weights_of_powers_are_a_poisson_distribution_and_its_tail() -> None:
    time = 4.0
    start, source = linear_weights(shift(50), time, Solver("dopri5", 1e-10, 1e-12))
    poisson = [math.exp(-time) * time**k / math.factorial(k) for k in range(len(start))]
    torch.testing.assert_close(start, torch.tensor(poisson, dtype=torch.float64), rtol=0, atol=1e-9)
    tail = 1 - torch.tensor(poisson, dtype=torch.float64).cumsum(0)
    torch.testing.assert_close(source, tail, rtol=0, atol=1e-9)
    assert 15 < len(start) < 30, "the end that does not count is cut off"


def problem() -> tuple[SparseMatrix, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    dense = torch.rand(6, 6, generator=generator, dtype=torch.float64)
    dense = (dense + dense.T) * (dense + dense.T > 1) / 8 + torch.eye(6)
    return SparseMatrix.of(dense.numpy(), torch.float64), torch.randn(6, 3, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("kind", ["powers", "chebyshev"])
def test_sums_and_their_gradients_are_those_of_autograd(kind: str) -> None:
    matrix, x = problem()
    generator = torch.Generator().manual_seed(5)
    start, source = torch.randn(2, 5, generator=generator, dtype=torch.float64)
    rates = torch.rand(6, 1, generator=generator, dtype=torch.float64)
    values = matrix.values
    leaves = [each.clone().requires_grad_() for each in (values, x, start, source, rates)]
    again = [each.clone().requires_grad_() for each in (values, x, start, source, rates)]
    identity = torch.eye(6, dtype=torch.float64)
    if kind == "powers":
        ours = power_sum(matrix.with_values(leaves[0]), *leaves[1:4])
        dense = matrix.with_values(again[0]).to_dense()
        terms = [identity, dense]
        for _ in range(3):
            terms.append(dense @ terms[-1])
        compared = (0, 1, 2, 3)
    else:
        ours = chebyshev_sum(matrix, leaves[4], leaves[1], start, source)
        dense = identity + again[4] * (matrix.to_dense() - identity)
        terms = [identity, dense]
        for _ in range(3):
            terms.append(2 * dense @ terms[-1] - terms[-2])
        compared = (1, 4)
    theirs = sum(again[2][k] * term @ again[1] + again[3][k] * term @ again[1].detach() for k, term in enumerate(terms))
    torch.testing.assert_close(ours, theirs)
    (ours**2).sum().backward()
    (theirs**2).sum().backward()
    for place in compared:
        torch.testing.assert_close(leaves[place].grad, again[place].grad)


def test_steps_of_a_given_length() -> None:
    start = torch.ones(1)
    solver = Solver("euler", step=0.5)
    assert float(solver(lambda state: state, start, 1.0)) == 1.5**2 and solver.evaluations == 2
    assert float(Solver("euler", step=0.75)(lambda state: state, start, 1.0)) == pytest.approx(1.75 * 1.25)
    with pytest.raises(InvalidInputError, match="must be positive"):
        Solver("rk4", step=0.0)
