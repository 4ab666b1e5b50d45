from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from condiff.errors import InvalidInputError
from condiff.theory import (
    Equation,
    StochasticNetwork,
    dropout,
    noise_injection,
    ornstein_uhlenbeck,
    residual,
    shake_shake,
    solve,
    stochastic_depth,
)
from condiff.theory.operators import Array
from condiff.theory.zoo import field


def steady(v: Array, sigma: Array) -> Equation:
    d = len(v)
    return Equation(
        d, lambda x, t: np.broadcast_to(v, x.shape), lambda x, t: np.broadcast_to(sigma, (len(x), d, d)), True
    )


def points_of(axes: tuple[Array, ...]) -> Array:
    return np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, len(axes))


@pytest.mark.parametrize(("d", "cells"), [(1, (48, 96, 192)), (2, (24, 48, 96)), (3, (10, 20))])
def test_smooth_solutions_converge_at_second_order(d: int, cells: tuple[int, ...]) -> None:
    v, sigma = np.array([0.7, -0.4, 0.3][:d]), np.diag([0.05, 0.08, 0.06][:d])
    if d > 1:
        sigma[0, 1] = sigma[1, 0] = -0.03
    if d > 2:
        sigma[1, 2] = sigma[2, 1] = 0.02
    k = np.ones(d)

    def exact(x: Array, t: float = 0.0) -> Array:
        return np.asarray(np.exp(-k @ sigma @ k * t) * np.cos((x + v * t) @ k))

    errors = []
    for n in cells:
        found = solve(
            steady(v, sigma), exact, 1.0, lower=0, upper=2 * np.pi, cells=n, steps=n // 2, boundary="periodic"
        )
        # The mean: at the tops of waves the limiter falls to first order.
        errors.append(np.abs(found.values.ravel() - exact(points_of(found.axes), 1.0)).mean())
    assert (np.log2(np.array(errors[:-1]) / errors[1:]) > 1.9).all()


def test_coefficients_that_depend_on_time_keep_second_order() -> None:
    # v = cos t, sigma = 0.1 (1 + t): waves move by sin t and decay by 0.1 (t + t^2 / 2).
    equation = Equation(1, lambda x, t: np.full_like(x, np.cos(t)), lambda x, t: np.full((len(x), 1, 1), 0.1 * (1 + t)))

    def exact(x: Array, t: float = 0.0) -> Array:
        return np.asarray(np.exp(-0.1 * (t + t * t / 2)) * np.cos(x[:, 0] + np.sin(t)))

    errors = []
    for n in (40, 80, 160):
        found = solve(equation, exact, 1.0, lower=0, upper=2 * np.pi, cells=n, steps=n // 4, boundary="periodic")
        errors.append(np.abs(found.values - exact(found.axes[0][:, None], 1.0)).mean())
    assert (np.log2(np.array(errors[:-1]) / errors[1:]) > 1.9).all()


def test_an_ornstein_uhlenbeck_process_in_the_plane_is_its_exact_flow() -> None:
    rate, sigma = np.array([[0.7, 0.3], [-0.1, 0.5]]), np.array([[0.3, 0.1], [0.1, 0.2]])
    equation = Equation(2, lambda x, t: -x @ rate.T, lambda x, t: np.broadcast_to(sigma, (len(x), 2, 2)), True)

    def f(x: Array) -> Array:
        return 1 / (1 + np.exp(-2 * x[:, 0] + x[:, 1]))

    x = np.array([[0.3, -0.8], [1.1, 0.4], [-0.5, 0.2]])
    found = solve(equation, f, 1.0, lower=-5, upper=5, cells=100, steps=25)(x)
    assert found == pytest.approx(ornstein_uhlenbeck(rate, sigma)(f, x, 1.0), abs=5e-4)


@pytest.mark.parametrize("speed", [1.0, -1.0])
def test_a_jump_is_carried_without_overshoot(speed: float) -> None:
    def step(x: Array) -> Array:
        return (np.abs(x[:, 0] - 3.0) < 1.0).astype(float)

    equation = Equation(1, lambda x, t: np.full_like(x, speed))
    found = solve(equation, step, 1.0, lower=0, upper=2 * np.pi, cells=200, steps=50, boundary="periodic")
    # Within the CFL bound every value is a mean of old ones.
    assert found.values.min() >= -1e-12
    assert found.values.max() <= 1 + 1e-12
    x = found.axes[0]
    moved = np.abs(x + speed - 3.0) < 1.0
    assert np.abs(found.values - moved).mean() < 0.03


def test_diffusion_between_reflecting_walls_keeps_the_mean_and_the_range() -> None:
    equation = steady(np.zeros(2), np.diag([0.3, 0.2]))

    def corner(x: Array) -> Array:
        return ((x > 0).all(axis=1)).astype(float)

    found = solve(equation, corner, 2.0, lower=-1, upper=1, cells=30, steps=200)
    assert found.values.mean() == pytest.approx(0.25, abs=1e-9)
    assert found.values.min() > 0
    assert found.values.max() < 1
    crossed = steady(np.zeros(2), np.array([[0.3, 0.1], [0.1, 0.2]]))
    for either in (equation, crossed):
        late = solve(either, corner, 60.0, lower=-1, upper=1, cells=30, steps=100).values
        assert late == pytest.approx(np.full((30, 30), late.mean()), abs=1e-6)


def velocity(x: Array, t: float) -> Array:
    return np.cos(x) + 0.5


def other(x: Array, t: float) -> Array:
    return 0.2 - np.sin(x)


def read_out(x: Array) -> Array:
    return 1 / (1 + np.exp(-3 * x[:, 0]))


NETWORKS: dict[str, tuple[Callable[[float], StochasticNetwork], tuple[int, ...], float]] = {
    # How a network is made, its numbers of layers, and the order with which it tends to its equation.
    "noise": (lambda dt: noise_injection(velocity, 1, 0.6, step=dt, order=3), (2, 4, 8), 1.0),
    "shake-shake": (lambda dt: shake_shake(velocity, other, 1, step=dt), (2, 4, 8), 1.0),
    "resnet": (lambda dt: residual(velocity, 1, step=dt), (4, 8, 16), 1.0),
    # Switches that are not as often off as on are skewed, and the third moment of their noise falls only as dt^1/2.
    "dropout, p = 0.8": (lambda dt: dropout(velocity, 1, 0.8, step=dt), (4, 8, 16), 0.5),
    "stochastic depth, p = 0.8": (lambda dt: stochastic_depth(velocity, 1, 0.8, step=dt), (4, 8, 16), 0.5),
}


def equation_of(network: StochasticNetwork, cells: int = 2000) -> Array:
    x = np.array([[0.2]])
    return solve(Equation.of(network, steady=True), read_out, 1.0, lower=-6, upper=6, cells=cells, steps=cells // 4)(x)


@pytest.mark.parametrize(("make", "layers", "order"), NETWORKS.values(), ids=NETWORKS.keys())
def test_networks_tend_to_their_equation_with_the_measured_order(
    make: Callable[[float], StochasticNetwork], layers: tuple[int, ...], order: float
) -> None:
    truth = equation_of(make(0.5))
    x = np.array([[0.2]])
    # All outcomes of the noise are summed: no sampling error hides the order.
    errors = [float(np.abs(make(1 / n)(read_out, x, 1.0) - truth)[0]) for n in layers]
    assert np.log2(np.array(errors[:-1]) / errors[1:]) == pytest.approx(order, abs=0.2)


def test_dropout_of_half_the_units_is_symmetric_and_of_first_order() -> None:
    x = np.array([[0.2]])
    truth = equation_of(dropout(velocity, 1, 0.5))
    errors = [np.abs(dropout(velocity, 1, 0.5, step=1 / n)(read_out, x, 1.0) - truth)[0] for n in (4, 16)]
    assert np.log2(errors[0] / errors[1]) / 2 == pytest.approx(1.0, abs=0.3)


@pytest.mark.parametrize(
    "make",
    [
        lambda: noise_injection(field, 2, 0.6, step=1 / 64),
        lambda: dropout(field, 2, 0.5, step=1 / 64),
        lambda: shake_shake(field, lambda x, t: -x, 2, step=1 / 64),
        lambda: stochastic_depth(field, 2, 0.5, step=1 / 64),
    ],
    ids=["noise", "dropout", "shake-shake", "stochastic depth"],
)
def test_equation_and_samples_agree_within_sampling_error(make: Callable[[], StochasticNetwork]) -> None:
    network = make()

    def classifier(x: Array) -> Array:
        # Bent, so that noise changes its mean.
        return np.exp(-2 * (x**2).sum(1))

    x = np.array([[-0.3, 0.2], [0.2, 0.5], [0.8, -0.4]])
    # The weights turn with time: the equation runs through the layers from the last to the first.
    settings = {"lower": -4.0, "upper": 4.0, "cells": 80, "steps": 12}
    solution = solve(Equation.of(network), classifier, 1.0, **settings)(x)  # type: ignore[arg-type]
    drawn = network.sample(classifier, x, samples=3000, seed=0)
    assert (np.abs(drawn.mean - solution) < 4 * drawn.error).all()
    # The test can tell: without the diffusion the equation's solution is elsewhere.
    still = residual(network.drift, 2)
    bare = solve(Equation.of(still), classifier, 1.0, **settings)(x)  # type: ignore[arg-type]
    assert (np.abs(drawn.mean - bare) > 4 * drawn.error).any()


def test_three_dimensions_agree_with_samples() -> None:
    def v(x: Array, t: float) -> Array:
        return np.tanh(x[:, [1, 2, 0]]) * 0.5

    def f(x: Array) -> Array:
        return np.exp(-(x**2).sum(1))

    network = noise_injection(v, 3, 0.7, step=1 / 32)
    x = np.array([[0.2, -0.1, 0.4], [0.9, 0.5, -0.3]])
    found = solve(Equation.of(network, steady=True), f, 1.0, lower=-3.5, upper=3.5, cells=28, steps=8)(x)
    drawn = network.sample(f, x, samples=4000, seed=0)
    assert (np.abs(drawn.mean - found) < 4 * drawn.error).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda e, f: solve(Equation(4, lambda x, t: x), f, 1.0), "1, 2 or 3 dimensions"),
        (lambda e, f: solve(e, f, 0.0), "duration must be positive"),
        (lambda e, f: solve(e, f, 1.0, steps=0), "steps at least 1"),
        (lambda e, f: solve(e, f, 1.0, cells=3), "at least 4 cells"),
        (lambda e, f: solve(e, f, 1.0, lower=1.0, upper=0.0), "lower < upper"),
        (lambda e, f: solve(e, f, 1.0, boundary="open"), "boundary must be"),
        (lambda e, f: solve(e, lambda x: x, 1.0), "one value per point"),
    ],
)
def test_errors_say_what_is_wrong(call: Callable[..., object], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        call(Equation(1, lambda x, t: x), read_out)
