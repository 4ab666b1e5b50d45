from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from sklearn.datasets import make_moons
from torch import nn

from condiff.bases import Residual
from condiff.errors import InvalidInputError
from condiff.theory import (
    FunctionOperator,
    GaussianFlow,
    LinearOperator,
    StochasticNetwork,
    constant_coefficients,
    ornstein_uhlenbeck,
    recover,
    recover_on_graph,
    residual,
    residual_of,
    time_dependent,
)
from condiff.theory.operators import Array
from condiff.theory.processes import Bernoulli
from condiff.theory.zoo import field, get_entry

X = np.array([[0.3, -0.8], [1.1, 0.4], [-0.5, 0.2]])
SIGMA = np.array([[0.3, 0.1], [0.1, 0.2]])
RATE = np.array([[0.7, 0.3], [-0.1, 0.5]])

KNOWN: dict[str, tuple[GaussianFlow, Callable[[Array, float], tuple[Array, Array]]]] = {
    "drift": (constant_coefficients([0.7, -0.4], 0.0), lambda x, t: (np.array([0.7, -0.4]), np.zeros((2, 2)))),
    "anisotropic": (constant_coefficients([0.7, -0.4], SIGMA), lambda x, t: (np.array([0.7, -0.4]), SIGMA)),
    "Ornstein-Uhlenbeck": (ornstein_uhlenbeck(RATE, SIGMA, 0.2), lambda x, t: (-RATE @ (x - 0.2), SIGMA)),
    "time-dependent": (
        time_dependent(lambda t: [np.sin(2 * t), t**2], lambda t: SIGMA * (t + np.cos(t)), 2),
        lambda x, t: (np.array([2 * np.cos(2 * t), 2 * t]), SIGMA * (1 - np.sin(t))),
    ),
}


@pytest.mark.parametrize(("operator", "truth"), KNOWN.values(), ids=KNOWN.keys())
@pytest.mark.parametrize("t", [0.0, 0.4])
def test_known_diffusions_are_recovered_within_the_error_bars(
    operator: GaussianFlow, truth: Callable[[Array, float], tuple[Array, Array]], t: float
) -> None:
    found = recover(operator, X, t)
    for k, x in enumerate(X):
        v, sigma = truth(x, t)
        assert (np.abs(found.v[k] - v) <= found.v_error[k]).all()
        assert (np.abs(found.sigma[k] - sigma) <= found.sigma_error[k]).all()
    assert found.v_error.max() < 1e-7
    assert found.sigma_error.max() < 1e-7
    assert found.is_semidefinite


@pytest.mark.parametrize("levels", [1, 2, 3])
def test_the_error_falls_with_the_stated_order(levels: int) -> None:
    operator = ornstein_uhlenbeck(RATE, SIGMA)
    errors = [np.abs(recover(operator, X, time=h, levels=levels).v + X @ RATE.T).max() for h in (0.4, 0.2, 0.1)]
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    assert orders == pytest.approx(levels, abs=0.25)


def test_a_backward_heat_flow_is_not_semidefinite() -> None:
    # f - t f'' by a second difference: sigma = -1.
    def sharpen(f: Callable[[Array], Array], x: Array, t: float, s: float) -> Array:
        return f(x) - (t - s) * (f(x + 0.1) - 2 * f(x) + f(x - 0.1)) / 0.01

    found = recover(FunctionOperator.of(sharpen, 1), [[0.3]])
    assert found.sigma[0, 0, 0] == pytest.approx(-1.0, abs=1e-8)
    assert not found.is_semidefinite
    assert "NOT positive semi-definite" in str(found)


@pytest.fixture(scope="module")
def trained() -> Residual:
    """Eight thin blocks that tell two moons apart."""
    points, labels = make_moons(100, noise=0.1, random_state=0)
    x, y = torch.as_tensor(points), torch.as_tensor(labels)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = Residual(2, 2, blocks=8, activation="tanh").double()
    optimiser = torch.optim.Adam(network.parameters(), lr=0.05)
    for _ in range(80):
        optimiser.zero_grad()
        loss = nn.functional.cross_entropy(network(x), y)
        loss.backward()
        optimiser.step()
    assert (network(x).argmax(1) == y).double().mean() > 0.95
    return network


def test_the_velocity_of_a_trained_resnet_is_its_residual_branch_over_dt(trained: Residual) -> None:
    operator = residual_of(trained)
    for block in range(8):
        found = recover(operator, X, block / 8)
        branch = trained.velocity(torch.as_tensor(X), block).detach().numpy()
        assert found.v == pytest.approx(branch * 8, abs=1e-8)
        assert found.sigma == pytest.approx(np.zeros((3, 2, 2)), abs=1e-8)


def test_over_whole_layers_the_error_falls_at_first_order_in_dt(trained: Residual) -> None:
    coarse = residual_of(trained)
    truth = coarse.drift(X, 0.0)
    v_errors, sigma_errors = [], []
    for parts in (8, 16, 32, 64):  # every block cut into thinner ones of the same velocity
        dt = coarse.step / parts
        network = residual(coarse.drift, 2, step=dt)
        v_errors.append(np.abs(recover(network, X, time=2 * dt, levels=1).v - truth).max())
        one_layer = recover(network, X, time=dt, levels=1).sigma
        # A layer moves without spreading; what is left of it is (dt / 2) v v^T.
        assert one_layer == pytest.approx(dt / 2 * truth[:, :, None] * truth[:, None], abs=1e-8)
        sigma_errors.append(np.abs(one_layer).max())
    for errors in (v_errors, sigma_errors):
        assert np.log2(np.array(errors[:-1]) / errors[1:]) == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize(
    "name",
    [
        "resnet",
        "noise-injection",
        "dropout",
        "shake-shake",
        "stochastic-depth",
        "randomised-smoothing",
        "cgnn",
        "gcde",
        "coin-equation",
    ],
)
def test_examples_have_the_coefficients_that_they_are_said_to_have(name: str) -> None:
    entry = get_entry(name)
    operator = entry.build()
    assert isinstance(operator, FunctionOperator)
    x = X if operator.dimension == 2 else np.hstack([X, X[:, :1]])
    for t in (0.0, 0.3, 1.2)[: 3 if operator.horizon > 1 else 2]:
        said = entry.coefficients(x, t)
        assert said is not None
        v, sigma = said
        found = recover(operator, x, t)
        assert found.v == pytest.approx(v, abs=1e-6)
        assert found.sigma == pytest.approx(sigma, abs=1e-6)


def test_dropout_of_thinner_branches_has_less_diffusion() -> None:
    # x + dt v z / p, the noise as thin as the branch: the spread of a layer over its time falls as dt.
    p = 0.7
    for dt in (0.1, 0.01):
        network = StochasticNetwork(
            2, field, lambda x, t, dt=dt: np.sqrt(dt) * field(x)[:, :, None] * np.eye(2), Bernoulli(2, p, 1 / p), dt
        )
        found = recover(network, X, time=dt, levels=1)
        v = field(X)
        spread = found.sigma - dt / 2 * v[:, :, None] * v[:, None]
        assert spread.diagonal(axis1=1, axis2=2) == pytest.approx(dt * (1 - p) / (2 * p) * v**2)


def test_a_grid_graph_has_the_laplacian_as_its_diffusion() -> None:
    points = np.stack(np.meshgrid(np.arange(5.0), np.arange(5.0)), -1).reshape(-1, 2) * 0.5
    apart = np.sqrt(((points[:, None] - points[None]) ** 2).sum(-1))
    weights = (np.abs(apart - 0.5) < 1e-9) / 0.25
    found = recover_on_graph(LinearOperator(weights - np.diag(weights.sum(1)), points=points), points, time=1e-3)
    inner = (np.abs(points - 1.0) < 0.6).all(1)
    assert inner.sum() == 9
    assert found.v[inner] == pytest.approx(np.zeros((9, 2)), abs=1e-6)
    assert found.sigma[inner] == pytest.approx(np.broadcast_to(np.eye(2), (9, 2, 2)), abs=1e-6)
    assert found.is_semidefinite


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: recover(residual(field, 2), [0.0, 1.0]), r"x must have the shape \(n, 2\)"),
        (lambda: recover(residual(field, 2), X, time=0.0), "time must be positive"),
        (lambda: recover(residual(field, 2), X, levels=0), "levels at least 1"),
        (lambda: recover_on_graph(LinearOperator(np.zeros((4, 4))), X), "points must have 4 rows"),
    ],
)
def test_errors_say_what_is_wrong(call: Callable[[], object], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        call()
