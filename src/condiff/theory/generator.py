"""The theorem, running: recover the velocity v and the diffusion matrix sigma from an operator's small-time action."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from condiff.errors import InvalidInputError
from condiff.theory.operators import Array, FunctionOperator, GraphOperator

# Differences of order eps are divided by the time: what rounding leaves in the result.
_ROUNDING = 8 * np.finfo(np.float64).eps


@dataclass(frozen=True)
class Generator:
    """The equation that an operator solves, at some points and one time.

    Attributes
    ----------
    x
        The points, (n, d).
    t
        The time.
    v, v_error
        The velocity and its error bar, (n, d).
    sigma, sigma_error
        The diffusion matrix and its error bar, (n, d, d).
    times
        The small times at which the operator was applied.
    """

    x: Array
    t: float
    v: Array
    v_error: Array
    sigma: Array
    sigma_error: Array
    times: tuple[float, ...]

    @property
    def smallest_eigenvalue(self) -> Array:
        """Of sigma at every point, (n,)."""
        return np.asarray(np.linalg.eigvalsh(self.sigma)[:, 0])

    @property
    def is_semidefinite(self) -> bool:
        """Whether sigma has no eigenvalue below zero by more than its error bar."""
        spread = np.linalg.norm(self.sigma_error, axis=(1, 2))
        return bool((self.smallest_eigenvalue >= -spread - 1e-12).all())

    def __str__(self) -> str:
        lines = [f"t = {self.t:g}, from times {', '.join(f'{time:.3g}' for time in self.times)}"]
        for k, point in enumerate(self.x):
            v = ", ".join(f"{a:.6g} +- {b:.1g}" for a, b in zip(self.v[k], self.v_error[k], strict=True))
            sigma = "; ".join(", ".join(f"{value:.6g}" for value in row) for row in self.sigma[k])
            place = ", ".join(f"{value:.3g}" for value in point)
            lines.append(f"x = ({place}): v = ({v}), sigma = [{sigma}] +- {self.sigma_error[k].max():.1g}")
        verdict = "positive semi-definite" if self.is_semidefinite else "NOT positive semi-definite"
        lines.append(f"sigma is {verdict}: smallest eigenvalue {self.smallest_eigenvalue.min():.3g}")
        return "\n".join(lines)


def recover(
    operator: FunctionOperator,
    x: Any,
    t: float = 0.0,
    *,
    time: float | None = None,
    levels: int = 4,
) -> Generator:
    r"""Recover v and sigma of :math:`u_t = v \cdot \nabla u + \sum_{ij} \sigma_{ij} \partial_{ij} u` at points.

    With :math:`a` one of the points, the action on coordinates and on their products gives both,

    .. math:: \frac{(T_{t+h,t}(y_i - a_i))(a)}{h} \to v_i, \qquad
        \frac{(T_{t+h,t}(y_i - a_i)(y_j - a_j))(a)}{2h} \to \sigma_{ij}.

    Both are smooth in h, so values at h, h/2, h/4, ... are extrapolated to h = 0 (Richardson): the error falls as
    :math:`h^{levels}`. The error bar is the last correction of the extrapolation, plus what rounding can do.

    Parameters
    ----------
    operator
        A family on functions over R^d; it must take polynomials.
    x
        Points (n, d).
    t
        The time.
    time
        The largest h; a hundredth of the horizon by default.
    levels
        Number of times; 1 does not extrapolate, and its error bar is then the change from h/2 to h.
    """
    points = np.asarray(x, dtype=np.float64)
    d = operator.dimension
    if points.ndim != 2 or points.shape[1] != d:
        raise InvalidInputError(f"x must have the shape (n, {d}), not {points.shape}")
    h = operator.horizon / 100 if time is None else time

    def action(step: float) -> Array:
        return np.stack([_at(operator, a, t, step) for a in points])

    value, error, times = _limit(action, h, levels, float(np.abs(points).max(initial=1.0)) ** 2)
    return _assemble(points, t, value, error, times)


def recover_on_graph(
    operator: GraphOperator, points: Any, t: float = 0.0, *, time: float | None = None, levels: int = 4
) -> Generator:
    """The same for a graph whose nodes lie at ``points`` (n, d): what its diffusion is, seen in space.

    Node functions are the coordinates and their products, centred at each node in turn, so v and sigma are the mean
    and half the mean square of the jumps along the edges, per time.
    """
    places = np.asarray(points, dtype=np.float64)
    if places.ndim != 2 or len(places) != operator.n_nodes:
        raise InvalidInputError(f"points must have {operator.n_nodes} rows, one per node, not the shape {places.shape}")
    h = operator.horizon / 100 if time is None else time
    n, d = places.shape

    def action(step: float) -> Array:
        rates = (operator.matrix(t + step, t) - np.eye(n)) / step
        jumps = places[None] - places[:, None]
        return np.concatenate(
            [
                np.einsum("ij,ija->ia", rates, jumps),
                np.einsum("ij,ija,ijb->iab", rates, jumps, jumps).reshape(n, d * d) / 2,
            ],
            axis=1,
        )

    value, error, times = _limit(action, h, levels, float(np.abs(places).max(initial=1.0)) ** 2)
    return _assemble(places, t, value, error, times)


def _at(operator: FunctionOperator, a: Array, t: float, step: float) -> Array:
    """The rates of the centred coordinates and half of those of their products, at ``a``: (d + d^2,)."""

    def polynomials(y: Array) -> Array:
        centred = y - a
        return np.concatenate([centred, (centred[:, :, None] * centred[:, None] / 2).reshape(len(y), -1)], axis=1)

    return np.asarray(operator(polynomials, a[None], t + step, t)[0] / step)


def _limit(
    action: Callable[[float], Array], h: float, levels: int, scale: float
) -> tuple[Array, Array, tuple[float, ...]]:
    """The limit of ``action`` at 0 by Richardson extrapolation in powers of h, and its error bar."""
    if h <= 0 or levels < 1:
        raise InvalidInputError(f"time must be positive and levels at least 1, not {h} and {levels}")
    times = tuple(h / 2**k for k in range(max(levels, 2)))
    rows = [action(step) for step in times]
    rounding = _ROUNDING * scale / times[-1]
    if levels == 1:
        return rows[0], np.abs(rows[1] - rows[0]) * 2 + rounding, times[:1]
    before = rows[-1]
    for order in range(1, levels):
        before = rows[-1]
        rows = [(2**order * fine - coarse) / (2**order - 1) for coarse, fine in pairwise(rows)]
    return rows[-1], np.abs(rows[-1] - before) + rounding, times


def _assemble(x: Array, t: float, value: Array, error: Array, times: tuple[float, ...]) -> Generator:
    n, d = x.shape
    sigma = value[:, d:].reshape(n, d, d)
    return Generator(
        x, t, value[:, :d], error[:, :d], (sigma + sigma.transpose(0, 2, 1)) / 2, error[:, d:].reshape(n, d, d), times
    )
