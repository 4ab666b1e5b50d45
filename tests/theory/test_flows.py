from __future__ import annotations

import numpy as np
import pytest

from condiff.errors import InvalidInputError
from condiff.theory import constant_coefficients, ornstein_uhlenbeck, time_dependent
from condiff.theory.flows import gauss_hermite

SIGMA = np.array([[0.3, 0.1], [0.1, 0.2]])


def test_the_quadrature_has_the_moments_of_the_normal_law() -> None:
    weights, points = gauss_hermite(2, 5)
    assert weights.sum() == pytest.approx(1.0)
    assert weights.min() > 0
    for power, moment in ((1, 0.0), (2, 1.0), (4, 3.0), (6, 15.0), (8, 105.0)):
        assert weights @ points[:, 0] ** power == pytest.approx(moment, abs=1e-12)
    assert weights @ (points[:, 0] ** 2 * points[:, 1] ** 2) == pytest.approx(1.0)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_waves_decay_at_their_known_rate(d: int) -> None:
    v, sigma, k = np.array([0.4, -0.2, 0.1][:d]), np.diag([0.1, 0.2, 0.05][:d]), np.array([1.0, -0.7, 0.4][:d])
    x = np.random.default_rng(0).normal(size=(5, d))
    found = constant_coefficients(v, sigma)(lambda y: np.cos(y @ k), x, 0.9, 0.1)
    assert found == pytest.approx(np.exp(-0.8 * k @ sigma @ k) * np.cos((x + 0.8 * v) @ k), abs=1e-10)


def test_an_ornstein_uhlenbeck_process_has_its_mean_and_variance() -> None:
    x, theta, t = np.array([[1.5]]), 0.8, 0.7
    operator = ornstein_uhlenbeck(theta, 0.3, 0.5)
    mean = operator(lambda y: y[:, 0], x, t)
    assert mean == pytest.approx(0.5 + np.exp(-theta * t) * (x[:, 0] - 0.5))
    # dX = -theta (X - c) dt + sqrt(2 sigma) dB.
    variance = operator(lambda y: y[:, 0] ** 2, x, t) - mean**2
    assert variance == pytest.approx(0.3 / theta * (1 - np.exp(-2 * theta * t)))


def test_a_coupled_process_has_the_covariance_of_its_integral() -> None:
    rate, t = np.array([[0.7, 0.4], [-0.2, 0.5]]), 0.6
    from scipy.integrate import quad_vec
    from scipy.linalg import expm

    truth, _ = quad_vec(lambda r: 2 * expm(-r * rate) @ SIGMA @ expm(-r * rate).T, 0, t)
    assert ornstein_uhlenbeck(rate, SIGMA).covariance(t + 0.2, 0.2) == pytest.approx(truth)


def test_coefficients_that_depend_on_time_add_up() -> None:
    operator = time_dependent(lambda t: [np.sin(t)], lambda t: 0.1 * t + 0.05 * t**2, 1)
    x = np.array([[0.3]])
    shift, spread = np.sin(0.9) - np.sin(0.4), 0.1 * 0.5 + 0.05 * (0.81 - 0.16)
    assert operator(lambda y: np.cos(y[:, 0]), x, 0.9, 0.4) == pytest.approx(np.exp(-spread) * np.cos(0.3 + shift))


def test_a_sigma_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="positive semi-definite"):
        constant_coefficients([0.0, 0.0], [[1.0, 2.0], [2.0, 1.0]])
    with pytest.raises(InvalidInputError, match=r"symmetric \(2, 2\) matrix"):
        constant_coefficients([0.0, 0.0], [[1.0, 2.0], [0.0, 1.0]])
