"""Networks with noise as Euler-Maruyama schemes: noise injection, dropout, shake-shake, stochastic depth."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import torch

from condiff.bases import Residual
from condiff.errors import InvalidInputError
from condiff.theory.flows import gauss_hermite
from condiff.theory.operators import Array, Function, FunctionOperator, check_times, layers_between

#: A velocity field: points (n, d) and a time to (n, d).
Field = Callable[[Array, float], Array]

# Paths that are followed at once when every outcome of the noise is; more would fill the memory.
_MOST_PATHS = 20_000_000


class Law(ABC):
    """A random vector of mean zero, which can be drawn, and summed over by quadrature."""

    #: Length of the vector.
    size: int
    #: Variance of each of its independent entries.
    variance: float

    @abstractmethod
    def draw(self, n: int, generator: np.random.Generator) -> Array:
        """``n`` vectors, (n, size)."""

    @abstractmethod
    def nodes(self) -> tuple[Array, Array]:
        """Weights (K,), none of them negative, and vectors (K, size)."""


@dataclass(frozen=True)
class Gaussian(Law):
    """Independent standard normal entries; ``order`` quadrature nodes each."""

    size: int
    order: int = 5
    variance = 1.0

    def draw(self, n: int, generator: np.random.Generator) -> Array:
        return generator.standard_normal((n, self.size))

    def nodes(self) -> tuple[Array, Array]:
        return gauss_hermite(self.size, self.order)


@dataclass(frozen=True)
class Bernoulli(Law):
    """Independent centred switches ``scale (b - p)``, ``b`` being 1 with probability p and else 0."""

    size: int
    p: float
    scale: float = 1.0

    @property
    def variance(self) -> float:  # type: ignore[override]
        """Of one entry."""
        return self.scale**2 * self.p * (1 - self.p)

    def draw(self, n: int, generator: np.random.Generator) -> Array:
        return np.asarray(self.scale * ((generator.random((n, self.size)) < self.p) - self.p), dtype=np.float64)

    def nodes(self) -> tuple[Array, Array]:
        values = [(1 - self.p, -self.scale * self.p), (self.p, self.scale * (1 - self.p))]
        outcomes = list(product(values, repeat=self.size))
        weights = np.array([np.prod([chance for chance, _ in outcome]) for outcome in outcomes])
        return weights, np.array([[value for _, value in outcome] for outcome in outcomes])


@dataclass(frozen=True)
class Uniform(Law):
    """One number, uniform on [-1/2, 1/2]; ``order`` Gauss-Legendre nodes."""

    order: int = 3
    size = 1
    variance = 1 / 12

    def draw(self, n: int, generator: np.random.Generator) -> Array:
        return generator.random((n, 1)) - 0.5

    def nodes(self) -> tuple[Array, Array]:
        points, weights = np.polynomial.legendre.leggauss(self.order)
        return weights / 2, points[:, None] / 2


class Estimate(NamedTuple):
    """A mean over samples and its standard error."""

    mean: Array
    error: Array


@dataclass(frozen=True)
class StochasticNetwork(FunctionOperator):
    r"""Layers :math:`x_{l+1} = x_l + \Delta t\, v(x_l) + \sqrt{\Delta t}\, G(x_l) z_l` with independent noise z.

    The expectation :math:`(T_{t,s} f)(x) = E[f(x_t) \mid x_s = x]` of a classifier f behind them is the ensemble's
    output. As :math:`\Delta t \to 0` it solves the convection-diffusion equation with :attr:`drift` v and the matrix
    :meth:`sigma`, :math:`\frac12 \mathrm{var}(z) G G^T`. With :math:`\Delta t = 1` the layers are those of the network
    as it is usually written, and a thinner layer is a refinement of it.

    As an operator it sums over all outcomes of the noise, by quadrature where they are not finitely many, so nothing
    is random; the cost grows as (outcomes)^(layers). :meth:`sample` draws instead.

    Parameters
    ----------
    dimension
        Of the state.
    drift
        The velocity field v(x, t).
    mixing
        G(x, t): (n, d) points and a time to (n, d, m); None for a network without noise.
    law
        The law of z, m numbers.
    step
        Thickness of a layer, :math:`\Delta t`.
    horizon
        Total thickness.
    """

    dimension: int
    drift: Field
    mixing: Callable[[Array, float], Array] | None = None
    law: Law | None = None
    step: float = 0.25
    horizon: float = 1.0

    def __post_init__(self) -> None:
        if (self.mixing is None) != (self.law is None):
            raise InvalidInputError("mixing and law go together: give both for a network with noise, or neither")
        if not 0 < self.step <= self.horizon:
            raise InvalidInputError(f"step must be positive and at most the horizon {self.horizon:g}, not {self.step}")

    def sigma(self, x: Array, t: float) -> Array:
        """The diffusion matrix (n, d, d) of the limit."""
        if self.mixing is None or self.law is None:
            return np.zeros((len(x), self.dimension, self.dimension))
        mixed = self.mixing(x, t)
        return 0.5 * self.law.variance * (mixed @ mixed.transpose(0, 2, 1))

    def apply(self, f: Function, x: Array, t: float, s: float) -> Array:
        layers = layers_between(s, t, self.step)
        weights, noise = self.law.nodes() if self.law else (np.ones(1), np.zeros((1, 0)))
        paths = len(x) * len(weights) ** len(layers)
        if paths > _MOST_PATHS:
            raise InvalidInputError(
                f"{len(layers)} layers of {len(weights)} outcomes each make {paths:.1e} paths; take fewer or thicker "
                "layers, or draw with sample()"
            )
        points = x
        for time, thickness in layers:
            moved = self._move(points[None], noise[:, None], time, thickness)
            points = moved.reshape(-1, self.dimension)
        values = np.asarray(f(points))
        for _ in layers:
            values = np.tensordot(weights, values.reshape(len(weights), -1, *values.shape[1:]), 1)
        return values

    def sample(
        self, f: Function, x: Any, duration: float | None = None, *, samples: int = 10_000, seed: int = 0
    ) -> Estimate:
        """The ensemble's output at the points ``x`` (n, d) by drawing: mean and standard error, each (n, ...)."""
        points = np.asarray(x, dtype=np.float64)
        end = self.horizon if duration is None else duration
        check_times(end, 0.0, self.horizon)
        if samples < 2:
            raise InvalidInputError(f"samples must be at least 2, not {samples}")
        generator = np.random.default_rng(seed)
        state = np.repeat(points[None], samples, 0).reshape(-1, self.dimension)
        for time, thickness in layers_between(0.0, end, self.step):
            noise = self.law.draw(len(state), generator) if self.law else np.zeros((len(state), 0))
            state = self._move(state[None], noise[None], time, thickness)[0]
        values = np.asarray(f(state))
        values = values.reshape(samples, len(points), *values.shape[1:])
        return Estimate(values.mean(0), values.std(0, ddof=1) / np.sqrt(samples))

    def _move(self, points: Array, noise: Array, time: float, thickness: float) -> Array:
        """Points (1, n, d) under noise (K, 1 or n, m): (K, n, d)."""
        moved = points + thickness * self.drift(points[0], time)[None]
        if self.mixing is None:
            return moved
        mixed = self.mixing(points[0], time)
        drawn = np.broadcast_to(noise, (len(noise), len(mixed), noise.shape[-1]))
        return np.asarray(moved + np.sqrt(thickness) * np.einsum("nij,knj->kni", mixed, drawn))


def residual(drift: Field, dimension: int, *, step: float = 0.125, horizon: float = 1.0) -> StochasticNetwork:
    """A residual network ``x + dt v(x)``: no noise, sigma = 0."""
    return StochasticNetwork(dimension, drift, step=step, horizon=horizon)


def residual_of(network: Residual, *, horizon: float = 1.0) -> StochasticNetwork:
    """The blocks of a :class:`~condiff.bases.Residual`, whose velocity is a block's branch over dt."""
    blocks, width = list(network.blocks), network.width
    if not blocks or width > 3 or any(getattr(block, "in_features", None) != width for block in blocks):
        raise InvalidInputError("the network needs at least one block, and blocks as wide as its input, at most 3")
    step = horizon / len(blocks)

    def drift(x: Array, t: float) -> Array:
        block = min(int(t / step + 1e-6), len(blocks) - 1)
        with torch.no_grad():
            branch = network.velocity(torch.as_tensor(x).to(network.readout.weight), block)
        return np.asarray(branch.double().numpy() / step)

    return residual(drift, width, step=step, horizon=horizon)


def noise_injection(
    drift: Field, dimension: int, noise: float, *, step: float = 0.5, horizon: float = 1.0, order: int = 5
) -> StochasticNetwork:
    r"""Gaussian noise of ``noise`` :math:`\sqrt{\Delta t}` after every layer: sigma = noise^2 / 2, isotropic."""
    _not_negative("noise", noise)

    def mixing(x: Array, t: float) -> Array:
        return np.broadcast_to(noise * np.eye(dimension), (len(x), dimension, dimension))

    return StochasticNetwork(dimension, drift, mixing, Gaussian(dimension, order), step, horizon)


def dropout(drift: Field, dimension: int, p: float, *, step: float = 0.5, horizon: float = 1.0) -> StochasticNetwork:
    r"""Hidden units kept with probability p, and divided by it: sigma = (1 - p) / (2 p) diag(v_i^2), anisotropic."""
    _probability(p)

    def mixing(x: Array, t: float) -> Array:
        return drift(x, t)[:, :, None] * np.eye(dimension)

    return StochasticNetwork(dimension, drift, mixing, Bernoulli(dimension, p, 1 / p), step, horizon)


def shake_shake(
    first: Field, second: Field, dimension: int, *, step: float = 0.5, horizon: float = 1.0
) -> StochasticNetwork:
    r"""Two branches in proportions a : 1 - a, a uniform: v = (v1 + v2) / 2, sigma = w w^T / 24 with w = v1 - v2."""

    def drift(x: Array, t: float) -> Array:
        return (first(x, t) + second(x, t)) / 2

    def mixing(x: Array, t: float) -> Array:
        return (first(x, t) - second(x, t))[:, :, None]

    return StochasticNetwork(dimension, drift, mixing, Uniform(), step, horizon)


def stochastic_depth(
    drift: Field, dimension: int, p: float, *, step: float = 0.5, horizon: float = 1.0
) -> StochasticNetwork:
    r"""Whole branches kept with probability p: the mean velocity is p v, sigma = p (1 - p) / 2 v v^T, of rank one."""
    _probability(p)

    def mixing(x: Array, t: float) -> Array:
        return drift(x, t)[:, :, None]

    return StochasticNetwork(dimension, lambda x, t: p * drift(x, t), mixing, Bernoulli(1, p), step, horizon)


def _probability(p: float) -> None:
    if not 0 < p <= 1:
        raise InvalidInputError(f"p, the probability to keep a unit, must be above 0 and at most 1, not {p}")


def _not_negative(name: str, value: float) -> None:
    if not 0 <= value < np.inf:
        raise InvalidInputError(f"{name} must be finite and not negative, not {value}")
