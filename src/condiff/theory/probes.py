"""Test functions over R^d with parameters to climb along, and the climb: the search for the worst one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf
from scipy.stats import qmc

from condiff.theory.operators import Array

KINDS = ("bump", "wave", "ramp")
# Widths of the test functions: from half a unit, which the operators' quadratures still resolve, to the box's size.
_WIDTHS = (0.5, 4.0)
#: Bounds on the first and second derivatives of the kinds at width 1, where values go from 0 to 1.
_SLOPES = np.array([[np.exp(-0.5), 1.0], [0.5, 0.5], [0.4, 0.25]])


@dataclass(frozen=True)
class Probes:
    """A stack of smooth functions with values in [0, 1], one a column.

    Attributes
    ----------
    kinds
        (c,), indices into :data:`KINDS`: a Gaussian bump, a wave (1 + cos)/2, a ramp (1 + erf)/2.
    values
        (c, 2 d + 1): centre, logarithm of the width, direction.
    """

    kinds: NDArray[np.int64]
    values: Array

    @property
    def dimension(self) -> int:
        """Of the space."""
        return int((self.values.shape[1] - 1) // 2)

    @property
    def centre(self) -> Array:
        """(c, d)."""
        return self.values[:, : self.dimension]

    @property
    def width(self) -> Array:
        """(c,), kept within what the quadratures resolve."""
        return np.clip(np.exp(self.values[:, self.dimension]), *_WIDTHS)

    @property
    def direction(self) -> Array:
        """(c, d), of length one; bumps have none."""
        raw = self.values[:, self.dimension + 1 :]
        return np.asarray(raw / np.maximum(np.linalg.norm(raw, axis=1, keepdims=True), 1e-12))

    @property
    def norm(self) -> Array:
        """(c,): the largest of 1 and of the bounds on first and second derivatives."""
        slopes = _SLOPES[self.kinds]
        return np.maximum(1.0, np.maximum(slopes[:, 0] / self.width, slopes[:, 1] / self.width**2))

    def __call__(self, x: Array) -> Array:
        """The values at points (n, d): (n, c)."""
        out = np.empty((len(x), len(self.kinds)))
        bump = self.kinds == 0
        if bump.any():
            centre, width = self.centre[bump], self.width[bump]
            squares = (x**2).sum(1)[:, None] - 2 * x @ centre.T + (centre**2).sum(1)
            out[:, bump] = np.exp(-squares / (2 * width**2))
        if not bump.all():
            wave = self.direction[~bump] / self.width[~bump, None]
            along = x @ wave.T - (self.centre[~bump] * wave).sum(1)
            out[:, ~bump] = 0.5 * (1 + np.where(self.kinds[~bump] == 1, np.cos(along), erf(along / np.sqrt(2))))
        return out

    def signed(self, x: Array) -> Array:
        """The same functions with values in [-1, 1]."""
        return 2 * self(x) - 1

    def scaled(self, x: Array) -> Array:
        """The same functions, of which value, first and second derivatives are at most 1."""
        return np.asarray(self(x) / self.norm)

    def describe(self, column: int = 0) -> str:
        """One of them in words."""
        kind = KINDS[self.kinds[column]]
        along = "" if kind == "bump" else f" along {_numbers(self.direction[column])}"
        return f"{kind} at {_numbers(self.centre[column])}{along}, width {self.width[column]:.3g}"


@dataclass(frozen=True)
class Worst:
    """The largest value that a climb has found, and where: the functions and the point."""

    value: float
    functions: tuple[Probes, ...]
    x: Array

    @property
    def place(self) -> tuple[float, ...]:
        """The point as plain numbers."""
        return tuple(float(value) for value in self.x)


#: What is climbed: stacks of c test functions and points (m, d) to values (m, c).
Objective = Callable[[tuple[Probes, ...], Array], Array]


@dataclass(frozen=True)
class Box:
    """Where points and centres are looked for."""

    dimension: int
    lower: float = -2.0
    upper: float = 2.0

    def points(self, n: int, seed: int) -> Array:
        """``n`` points spread evenly: a scrambled Halton sequence."""
        unit = qmc.Halton(self.dimension, seed=np.random.default_rng(seed)).random(n)
        return np.asarray(self.lower + (self.upper - self.lower) * unit)

    def functions(self, n: int, seed: int) -> Probes:
        """``n`` test functions, the kinds in turn."""
        generator = np.random.default_rng(seed)
        values = np.concatenate(
            [
                self.points(n, seed + 1),
                np.log(generator.uniform(*_WIDTHS, (n, 1))),
                generator.normal(size=(n, self.dimension)),
            ],
            1,
        )
        return Probes(np.arange(n) % len(KINDS), values)


def climb(
    objective: Objective,
    box: Box,
    functions: int,
    *,
    seed: int = 0,
    candidates: int = 36,
    points: int = 32,
    rounds: int = 20,
    starts: int = 2,
    near: Worst | None = None,
    radius: float = 0.0,
) -> Worst:
    """Look for the functions and the point that make ``objective`` largest.

    All candidates are tried at all points; from the best ``starts`` of them a coordinate ascent goes on: each round
    tries a step up and down along every parameter of the functions and of the point together, takes the best, and
    halves the steps where none is better.

    Parameters
    ----------
    objective
        What is to be made large.
    box
        Where to look.
    functions
        How many test functions the objective takes.
    near, radius
        A pair found before, from which to look on: it is among the candidates, and half of the points lie around it.
    """
    tried = [box.functions(candidates, seed + 10 * k) for k in range(functions)]
    for k, stack in enumerate(tried):
        # The kinds of a pair must not go in step, or a bump would never meet a wave.
        tried[k] = Probes((stack.kinds + np.arange(candidates) // 3 ** (k + 1) * k) % len(KINDS), stack.values)
    where = box.points(points, seed + 99)
    if near is not None:
        tried = [_joined(old, stack) for old, stack in zip(near.functions, tried, strict=True)]
        around = (where[: points // 2] - box.lower) / (box.upper - box.lower) * 2 - 1
        where[: points // 2] = np.clip(near.x + radius * around, box.lower, box.upper)
        where[0] = near.x
    step = 0.5 if near is None else max(radius, 1e-3)
    found = _best(objective, tuple(tried), where, starts)
    return max((_ascend(objective, box, one, step, rounds) for one in found), key=lambda one: one.value)


def _ascend(objective: Objective, box: Box, best: Worst, step: float, rounds: int) -> Worst:
    for _ in range(rounds):
        functions, x = _moves(best, step)
        (moved,) = _best(objective, functions, np.clip(x, box.lower, box.upper), 1)
        if moved.value > best.value:
            best = moved
        else:
            step /= 2
    return best


def _moves(best: Worst, step: float) -> tuple[tuple[Probes, ...], Array]:
    """The pair with every parameter moved up and down."""
    d, k = len(best.x), len(best.functions)
    size = best.functions[0].values.shape[1]
    moves = step * np.concatenate([np.zeros((1, k * size)), np.eye(k * size), -np.eye(k * size)])
    stacks = tuple(
        Probes(np.repeat(old.kinds, len(moves)), old.values + moves[:, i * size : (i + 1) * size])
        for i, old in enumerate(best.functions)
    )
    return stacks, best.x + step * np.concatenate([np.zeros((1, d)), np.eye(d), -np.eye(d)])


def _best(objective: Objective, stacks: tuple[Probes, ...], x: Array, count: int) -> list[Worst]:
    """The ``count`` best candidates, each at its best point."""
    values = np.nan_to_num(objective(stacks, x), nan=np.inf)
    points = values.argmax(axis=0)
    best = []
    for column in np.argsort(-values.max(axis=0), kind="stable")[:count]:
        chosen = tuple(Probes(stack.kinds[[column]], stack.values[[column]]) for stack in stacks)
        best.append(Worst(float(values[points[column], column]), chosen, x[points[column]]))
    return best


def _joined(first: Probes, then: Probes) -> Probes:
    return Probes(np.concatenate([first.kinds, then.kinds]), np.concatenate([first.values, then.values]))


def _numbers(vector: Array) -> str:
    return "(" + ", ".join(f"{value:.3g}" for value in vector) + ")"
