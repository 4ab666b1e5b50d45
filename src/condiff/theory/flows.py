"""Diffusions whose transition law is known: their operators are exact up to the quadrature of a Gaussian."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np
from scipy.linalg import expm

from condiff.errors import InvalidInputError
from condiff.theory.operators import Array, Function, FunctionOperator

#: Quadrature nodes along each axis, by the number of dimensions.
NODES = {1: 64, 2: 16, 3: 10}
# Points at which a function is evaluated at once, or nested quadratures would fill the memory.
_BLOCK = 100_000


@lru_cache
def gauss_hermite(dimension: int, nodes: int) -> tuple[Array, Array]:
    """Weights (K,) and points (K, d) of the standard normal law: exact for polynomials up to degree 2 nodes - 1."""
    points, weights = np.polynomial.hermite_e.hermegauss(nodes)
    weights = weights / weights.sum()
    grid = np.array(list(product(points, repeat=dimension)))
    return np.array([np.prod(row) for row in product(weights, repeat=dimension)]), grid


class GaussianFlow(FunctionOperator):
    r"""``(T_{t,s} f)(x) = E f(m + N(0, C))`` with mean ``m = mean(x, t, s)`` and ``C = covariance(t, s)``.

    Parameters
    ----------
    mean
        (n, d) points and two times to (n, d).
    covariance
        Two times to a (d, d) matrix.
    dimension, horizon
        Of the family.
    nodes
        Quadrature nodes along each axis; :data:`NODES` by default.
    """

    def __init__(
        self,
        mean: Callable[[Array, float, float], Array],
        covariance: Callable[[float, float], Array],
        dimension: int,
        *,
        horizon: float = 1.0,
        nodes: int | None = None,
    ) -> None:
        self.mean, self.covariance = mean, covariance
        self.dimension, self.horizon = dimension, horizon
        self.nodes = NODES[dimension] if nodes is None else nodes

    def apply(self, f: Function, x: Array, t: float, s: float) -> Array:
        values, axes = np.linalg.eigh(self.covariance(t, s))
        root = axes * np.sqrt(np.clip(values, 0.0, None))
        centre = self.mean(x, t, s)
        if not root.any():
            return f(centre)
        weights, points = gauss_hermite(self.dimension, self.nodes)
        offsets = points @ root.T
        block = max(1, _BLOCK // len(weights))
        return np.concatenate([_mean(f, centre[k : k + block], offsets, weights) for k in range(0, len(x), block)])


def _mean(f: Function, centre: Array, offsets: Array, weights: Array) -> Array:
    spread = (centre[None] + offsets[:, None]).reshape(-1, centre.shape[1])
    image = np.asarray(f(spread))
    return np.asarray(np.tensordot(weights, image.reshape(len(weights), len(centre), *image.shape[1:]), 1))


def constant_coefficients(v: Any, sigma: Any, *, horizon: float = 1.0, nodes: int | None = None) -> GaussianFlow:
    r"""The flow of :math:`u_t = v \cdot \nabla u + \sum \sigma_{ij} \partial_{ij} u` with constant coefficients.

    ``sigma`` is a (d, d) matrix, isotropic or not: positive semi-definite.
    """
    drift = np.atleast_1d(np.asarray(v, dtype=np.float64))
    matrix = _diffusion_matrix(sigma, len(drift))
    return GaussianFlow(
        lambda x, t, s: x + (t - s) * drift,
        lambda t, s: 2 * (t - s) * matrix,
        len(drift),
        horizon=horizon,
        nodes=nodes,
    )


def ornstein_uhlenbeck(
    rate: Any, sigma: Any, centre: Any = 0.0, *, horizon: float = 1.0, nodes: int | None = None
) -> GaussianFlow:
    r"""The flow with :math:`v(x) = -A (x - c)`: pulled back to ``centre`` at ``rate`` A, a (d, d) matrix."""
    pull = np.atleast_2d(np.asarray(rate, dtype=np.float64))
    d = len(pull)
    matrix, target = _diffusion_matrix(sigma, d), np.broadcast_to(np.asarray(centre, dtype=np.float64), (d,))

    def covariance(t: float, s: float) -> Array:
        # Van Loan (1978): the integral of e^{-A r} 2 sigma e^{-A^T r} from one exponential of twice the size.
        block = np.block([[pull, 2 * matrix], [np.zeros((d, d)), -pull.T]]) * (t - s)
        exponential = expm(block)
        found = exponential[d:, d:].T @ exponential[:d, d:]
        return np.asarray((found + found.T) / 2)

    def mean(x: Array, t: float, s: float) -> Array:
        return np.asarray(target + (x - target) @ expm(-(t - s) * pull).T)

    return GaussianFlow(mean, covariance, d, horizon=horizon, nodes=nodes)


def time_dependent(
    drift_integral: Callable[[float], Any],
    sigma_integral: Callable[[float], Any],
    dimension: int,
    *,
    horizon: float = 1.0,
    nodes: int | None = None,
) -> GaussianFlow:
    r"""The flow of coefficients that depend on time alone, given by their integrals from 0: :math:`\int_0^t v`."""

    def mean(x: Array, t: float, s: float) -> Array:
        return np.asarray(x + (np.asarray(drift_integral(t)) - np.asarray(drift_integral(s))))

    def covariance(t: float, s: float) -> Array:
        return np.asarray(2 * (np.atleast_2d(sigma_integral(t)) - np.atleast_2d(sigma_integral(s))))

    return GaussianFlow(mean, covariance, dimension, horizon=horizon, nodes=nodes)


def _diffusion_matrix(sigma: Any, dimension: int) -> Array:
    given = np.asarray(sigma, dtype=np.float64)
    matrix = given * np.eye(dimension) if given.ndim == 0 else np.atleast_2d(given)
    if matrix.shape != (dimension, dimension) or not np.allclose(matrix, matrix.T):
        raise InvalidInputError(
            f"sigma must be a number or a symmetric ({dimension}, {dimension}) matrix, not {given.shape}"
        )
    if np.linalg.eigvalsh(matrix)[0] < -1e-12:
        raise InvalidInputError("sigma must be positive semi-definite: diffusion cannot run backwards")
    return matrix
