"""A solver of the convection-diffusion equation in one, two and three dimensions, to hold the processes against."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from scipy.interpolate import RegularGridInterpolator
from scipy.sparse.linalg import bicgstab, splu

from condiff.errors import InvalidInputError
from condiff.theory.operators import Array, Function
from condiff.theory.processes import Field, StochasticNetwork

Boundary = Literal["reflecting", "periodic"]
#: A diffusion matrix: points (n, d) and a time to (n, d, d).
Matrix = Callable[[Array, float], Array]

# Up to two dimensions the sparse factors stay small; in three they fill, and an iteration takes less.
_FACTORISE_UP_TO = 2


@dataclass(frozen=True)
class Equation:
    r""":math:`u_t = v(x, t) \cdot \nabla u + \sum_{ij} \sigma_{ij}(x, t)\, \partial_{ij} u`, with u(x, 0) given.

    Attributes
    ----------
    dimension
        1, 2 or 3.
    v
        Points (n, d) and a time to (n, d).
    sigma
        Points and a time to (n, d, d), or None without diffusion.
    steady
        Whether sigma does not depend on time; the implicit system is then factorised once, not at every step.
    """

    dimension: int
    v: Field
    sigma: Matrix | None = None
    steady: bool = False

    @classmethod
    def of(cls, network: StochasticNetwork, *, steady: bool = False) -> Equation:
        """The limit of a network with noise as its layers become thin.

        The equation's time runs backwards through the layers: the last one acts first on the classifier.
        """
        end = network.horizon
        return cls(
            network.dimension,
            lambda x, t: network.drift(x, end - t),
            None if network.mixing is None else lambda x, t: network.sigma(x, end - t),
            steady,
        )


@dataclass(frozen=True)
class Solution:
    """Values on a grid; call it to interpolate."""

    axes: tuple[Array, ...]
    values: Array

    def __call__(self, x: Any) -> Array:
        """The values at points (n, d) within the grid, by linear interpolation."""
        return np.asarray(RegularGridInterpolator(self.axes, self.values)(np.asarray(x, dtype=np.float64)))


def solve(
    equation: Equation,
    f: Function,
    duration: float,
    *,
    lower: float | Sequence[float] = -4.0,
    upper: float | Sequence[float] = 4.0,
    cells: int | Sequence[int] = 100,
    steps: int = 100,
    boundary: Boundary = "reflecting",
) -> Solution:
    r"""Solve the equation from ``u(x, 0) = f(x)`` to time ``duration`` on a box.

    Strang splitting: half a convection step, a diffusion step, half a convection step. Convection is explicit and
    upwind, with slopes limited by van Leer's function: second order where u is smooth, first order and free of
    overshoot where it is not. Diffusion is implicit (Crank-Nicolson, begun with backward Euler, which damps what a
    jump in f would set ringing) with central differences, crossed ones along the diagonal that the sign asks for.
    Convection is cut into as many steps as its speed needs.

    Parameters
    ----------
    equation
        Coefficients.
    f
        The initial function, (n, d) to (n,).
    duration
        The final time.
    lower, upper, cells
        The box and the number of cells along each axis. Nothing flows in through a reflecting boundary, so it must be
        far from where the solution is wanted.
    steps
        Time steps.
    boundary
        ``reflecting`` (zero slope) or ``periodic``.
    """
    grid = _Grid.of(equation.dimension, lower, upper, cells, boundary)
    if duration <= 0 or steps < 1:
        raise InvalidInputError(f"duration must be positive and steps at least 1, not {duration} and {steps}")
    u = np.asarray(f(grid.points), dtype=np.float64)
    if u.shape != (len(grid.points),):
        raise InvalidInputError(f"f must give one value per point, but gave the shape {u.shape}")
    dt = duration / steps
    implicit = _Implicit(equation, grid)
    for k in range(steps):
        time = k * dt
        u = _convect(equation, grid, u, time, dt / 2)
        u = implicit(u, time + dt / 2, dt, damped=k < 2)
        u = _convect(equation, grid, u, time + dt / 2, dt / 2)
    return Solution(grid.axes, u.reshape(grid.shape))


@dataclass(frozen=True)
class _Grid:
    axes: tuple[Array, ...]
    spacing: tuple[float, ...]
    boundary: Boundary
    points: Array

    @classmethod
    def of(cls, dimension: int, lower: Any, upper: Any, cells: Any, boundary: Boundary) -> _Grid:
        if dimension not in (1, 2, 3):
            raise InvalidInputError(f"the solver works in 1, 2 or 3 dimensions, not {dimension!r}")
        if boundary not in ("reflecting", "periodic"):
            raise InvalidInputError(f"boundary must be 'reflecting' or 'periodic', not {boundary!r}")
        low, high = (np.broadcast_to(np.asarray(end, dtype=np.float64), (dimension,)) for end in (lower, upper))
        counts = np.broadcast_to(np.asarray(cells), (dimension,))
        if (low >= high).any() or (counts < 4).any():
            raise InvalidInputError("the box must have lower < upper and at least 4 cells along each axis")
        spacing = (high - low) / counts
        # Values sit at the middles of cells, where a reflecting boundary is a mirror between two of them.
        axes = tuple(a + h * (np.arange(n) + 0.5) for a, h, n in zip(low, spacing, counts.astype(int), strict=True))
        points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, dimension)
        return cls(axes, tuple(map(float, spacing)), boundary, points)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(axis) for axis in self.axes)

    def shift(self, axis: int, by: int) -> sp.csr_array:
        """The matrix that looks up the neighbour ``by`` cells along an axis."""
        n = len(self.axes[axis])
        target = np.arange(n) + by
        target = target % n if self.boundary == "periodic" else np.clip(target, 0, n - 1)
        one = sp.csr_array((np.ones(n), (np.arange(n), target)), shape=(n, n))
        factors = [one if k == axis else sp.eye_array(len(a), format="csr") for k, a in enumerate(self.axes)]
        matrix = factors[0]
        for factor in factors[1:]:
            matrix = sp.kron(matrix, factor, format="csr")
        return sp.csr_array(matrix)


def _convect(equation: Equation, grid: _Grid, u: Array, time: float, duration: float) -> Array:
    """``u_t = v . grad u`` by Heun's method, which keeps to the range of u where the Euler step does."""
    speed = (np.abs(equation.v(grid.points, time)) / np.array(grid.spacing)).sum(1).max()
    # With limited slopes a step of half a cell is a mean of neighbours with weights that are not negative.
    steps = max(1, int(np.ceil(2 * speed * duration)))
    dt = duration / steps
    for k in range(steps):
        start = time + k * dt
        first = u + dt * _slope(equation.v(grid.points, start), grid, u)
        second = first + dt * _slope(equation.v(grid.points, start + dt), grid, first)
        u = (u + second) / 2
    return u


def _slope(v: Array, grid: _Grid, u: Array) -> Array:
    """``v . grad u`` from the side that the values come from: the right where v is positive."""
    field = u.reshape(grid.shape)
    total = np.zeros_like(field)
    mode: Any = "wrap" if grid.boundary == "periodic" else "symmetric"
    for axis, h in enumerate(grid.spacing):
        padded = np.pad(field, [(2, 2) if k == axis else (0, 0) for k in range(field.ndim)], mode=mode)
        steps = np.diff(padded, axis=axis)
        behind, ahead = _along(steps, axis, 0, -1), _along(steps, axis, 1, None)
        limited = _van_leer(behind, ahead)
        here = _along(limited, axis, 1, -1)
        right = _along(steps, axis, 2, -1) - (_along(limited, axis, 2, None) - here) / 2
        left = _along(steps, axis, 1, -2) + (here - _along(limited, axis, 0, -2)) / 2
        speed = v[:, axis].reshape(grid.shape) / h
        total += np.where(speed > 0, speed * right, speed * left)
    return total.ravel()


def _van_leer(a: Array, b: Array) -> Array:
    """The harmonic mean of two slopes of the same sign, and zero at a kink."""
    product = a * b
    return np.where(product > 0, 2 * product / np.where(product > 0, a + b, 1.0), 0.0)


def _along(values: Array, axis: int, start: int, stop: int | None) -> Array:
    index = [slice(None)] * values.ndim
    index[axis] = slice(start, stop)
    return values[tuple(index)]


class _Implicit:
    """Steps of ``u_t = sigma : D^2 u``."""

    def __init__(self, equation: Equation, grid: _Grid) -> None:
        self.equation, self.grid = equation, grid
        if equation.sigma is None:
            return
        size, d = len(grid.points), equation.dimension
        self.eye = sp.eye_array(size, format="csr")
        self.shifts = {(a, by): grid.shift(a, by) for a in range(d) for by in (-1, 1)}
        # Second differences along the axes, and crossed ones for both signs: all that sigma ever multiplies.
        self.straight = [
            sp.csr_array((self.shifts[a, 1] + self.shifts[a, -1] - 2 * self.eye) / grid.spacing[a] ** 2)
            for a in range(d)
        ]
        self.crossed = {(a, b, sign): self._cross(a, b, sign) for a, b in combinations(range(d), 2) for sign in (1, -1)}
        self._steady: sp.csr_array | None = None
        self._solvers: dict[float, Callable[[Array], Array]] = {}

    def __call__(self, u: Array, time: float, dt: float, *, damped: bool) -> Array:
        if self.equation.sigma is None:
            return u
        matrix = self._matrix(time)
        if damped:
            # Two backward Euler steps of half the length share the matrix of one Crank-Nicolson step.
            solver = self._solver(matrix, dt / 2)
            return solver(solver(u))
        return self._solver(matrix, dt / 2)(u + dt / 2 * (matrix @ u))

    def _matrix(self, time: float) -> sp.csr_array:
        if self._steady is not None:
            return self._steady
        assert self.equation.sigma is not None
        sigma = self.equation.sigma(self.grid.points, time)
        matrix = sum(sp.diags_array(sigma[:, a, a]) @ part for a, part in enumerate(self.straight))
        for (a, b, sign), part in self.crossed.items():
            matrix = matrix + sp.diags_array(2 * sign * np.clip(sign * sigma[:, a, b], 0.0, None)) @ part
        made = sp.csr_array(matrix)
        self._steady = made if self.equation.steady else None
        return made

    def _solver(self, matrix: sp.csr_array, dt: float) -> Callable[[Array], Array]:
        if dt in self._solvers:
            return self._solvers[dt]
        system = sp.csr_array(self.eye - dt * matrix)
        solver: Callable[[Array], Array]
        if self.equation.dimension <= _FACTORISE_UP_TO:
            solver = splu(sp.csc_array(system)).solve
        else:
            scale = 1.0 / system.diagonal()

            def solver(right: Array) -> Array:
                found, failed = bicgstab(
                    sp.diags_array(scale) @ system, scale * right, x0=right, rtol=1e-10, atol=0.0, maxiter=1000
                )
                if failed:
                    raise InvalidInputError("the implicit diffusion step did not converge; take more steps")
                return np.asarray(found)

        if self.equation.steady:
            self._solvers[dt] = solver
        return solver

    def _cross(self, a: int, b: int, sign: int) -> sp.csr_array:
        """The mixed derivative from the diagonal neighbours of one direction: weights that keep positivity."""
        up, down = self.shifts[a, 1], self.shifts[a, -1]
        right, left = self.shifts[b, sign], self.shifts[b, -sign]
        corners = up @ right + down @ left
        sides = up + down + right + left
        # Along the falling diagonal the difference has the other sign.
        scale = sign / (2 * self.grid.spacing[a] * self.grid.spacing[b])
        return sp.csr_array(scale * (corners - sides + 2 * self.eye))
