from __future__ import annotations

import pytest
import torch
from tests.diffusion.problems import Counting, operator_of, random_u, random_weights

from condiff.diffusion import Diffusion, Euler, Power
from condiff.errors import InvalidInputError


@pytest.mark.parametrize("layers", [1, 2, 5, 40, 400])
@pytest.mark.parametrize("tolerance", [1e-2, 1e-5, 1e-9])
def test_the_error_is_below_the_tolerance(layers: int, tolerance: float) -> None:
    for seed in range(3):
        operator = operator_of(random_weights(15, seed, density=0.3))
        strength = 0.9 / float(operator.diagonal.max())
        identity = torch.eye(15, dtype=torch.float64)
        error = Power(tolerance)(operator, identity, strength, layers) - Euler()(operator, identity, strength, layers)
        assert float(torch.linalg.matrix_norm(error, 2)) <= tolerance + 1e-12


def test_many_layers_take_few_products() -> None:
    weights = torch.from_numpy(random_weights(30, 0, density=0.3))
    products = []
    for layers in (100, 400, 1600):
        counting = Counting(weights)
        Power(1e-6)(counting, random_u(30, 2), 1.0 / float(counting.diagonal.max()), layers)
        products.append(counting.calls)
    assert products[0] < 75 and products[1] < 150 and products[2] < 300  # as the root of the layers


def test_few_layers_are_run_as_they_are() -> None:
    operator = operator_of(random_weights(12, 1))
    u, strength = random_u(12, 3), 0.5 / float(operator.diagonal.max())
    assert torch.equal(Power(1e-12)(operator, u, strength, 3), Euler()(operator, u, strength, 3))


def test_past_the_limits_it_still_is_the_power() -> None:
    operator = operator_of(random_weights(10, 2))
    u, strength = random_u(10, 2), 2.5 / float(operator.diagonal.max())
    expected = Euler()(operator, u, strength, 30)
    torch.testing.assert_close(Power(1e-6)(operator, u, strength, 30), expected, rtol=1e-9, atol=1e-6)


def test_gradients_reach_u_and_the_strength() -> None:
    operator = operator_of(random_weights(8, 3))
    u = random_u(8, 2).requires_grad_()
    strength = torch.tensor(0.5 / float(operator.diagonal.max()), dtype=torch.float64, requires_grad=True)
    for value in (u, strength):
        ours = torch.autograd.grad(Power(1e-10)(operator, u, strength, 60).square().sum(), value)[0]
        theirs = torch.autograd.grad(Euler()(operator, u, strength, 60).square().sum(), value)[0]
        torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-6)


def test_as_the_solver_of_a_diffusion() -> None:
    operator = operator_of(random_weights(20, 4))
    u, strength = random_u(20, 2), 0.9 / float(operator.diagonal.max())
    found = Diffusion(200, strength, solver="power")(u, operator)
    torch.testing.assert_close(found, Diffusion(200, strength)(u, operator), rtol=0, atol=1e-5)


def test_bad_input() -> None:
    with pytest.raises(InvalidInputError, match="between 0 and 1"):
        Power(0.0)
    directed = torch.tensor([[0.0, 1.0], [0.0, 0.0]], dtype=torch.float64)
    with pytest.raises(InvalidInputError, match="symmetric"):
        Diffusion(5, 0.1, solver="power")(torch.ones(2, 1, dtype=torch.float64), operator_of(directed.numpy()))
