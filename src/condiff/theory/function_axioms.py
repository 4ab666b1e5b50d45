"""The six axioms for operators on functions over R^d, each by a search for the worst functions, point and times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import erf
from scipy.stats import qmc

from condiff.theory.operators import Array, Function, FunctionOperator
from condiff.theory.verdicts import AxiomCheck, Evidence, constant, violation

KINDS = ("bump", "wave", "ramp")
# Widths of the test functions: from half a unit, which the operators' quadratures still resolve, to the box's size.
_WIDTHS = (0.5, 4.0)
#: Bounds on the first and second derivatives of the kinds at width 1, where values go from 0 to 1.
_SLOPES = np.array([[np.exp(-0.5), 1.0], [0.5, 0.5], [0.4, 0.25]])


@dataclass(frozen=True)
class Probes:
    """A stack of smooth functions with values in [0, 1], one per column.

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

    All candidates are tried at all points; coordinate ascent continues from the best ``starts`` of them: each round
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


# Coefficients of the combination that linearity is tried on.
_FIRST, _SECOND = 2.0, -1.5
# Functions that agree on a ball of this radius agree with all their derivatives at its centre.
_RADIUS = 0.5
# The scales at which constants are measured, as fractions of the largest; far apart, so that growth shows.
_SCALES = (1.0, 1 / 8, 1 / 64)


def comparison(operator: FunctionOperator, box: Box, tolerance: float, seed: int) -> AxiomCheck:
    """``f <= g`` must give ``T f <= T g``; g - f is at most 1, so the violation is relative to it."""

    def objective_at(s: float, t: float) -> Objective:
        def objective(stacks: tuple[Probes, ...], x: Array) -> Array:
            f, gap = stacks
            return operator(f.signed, x, t, s) - operator(lambda y: f.signed(y) + gap(y), x, t, s)

        return objective

    (s, t), worst = _worst_of({(s, t): objective_at(s, t) for s, t in _pairs(operator)}, box, 2, seed=seed)
    detail = f"T f - T g = {max(0.0, worst.value):.3g} although f <= g <= f + 1"
    f, gap = worst.functions
    pair = (f.signed, lambda y: f.signed(y) + gap(y))
    evidence = Evidence(_signed(f), worst.place, (s, t), detail, f"f + {gap.describe()}", pair)
    return violation("comparison", worst.value, tolerance, evidence)


def markov(operator: FunctionOperator, box: Box, tolerance: float, seed: int) -> AxiomCheck:
    """``T_{t,r} = T_{s,r} T_{t,s}`` as the paper writes it, or in the order of the equation, ``T_{t,s} T_{s,r}``."""

    def objective_at(r: float, s: float, t: float, later_first: bool) -> Objective:
        inner, outer = ((t, s), (s, r)) if later_first else ((s, r), (t, s))

        def objective(stacks: tuple[Probes, ...], x: Array) -> Array:
            (f,) = stacks
            if r == t:
                return np.abs(operator(f.signed, x, t, r) - f.signed(x))
            composed = operator(_image(operator, f.signed, *inner), x, *outer)
            return np.abs(operator(f.signed, x, t, r) - composed)

        return objective

    found = {
        later_first: _worst_of(
            {(r, s, t): objective_at(r, s, t, later_first) for r, s, t in _triples(operator)},
            box,
            1,
            seed=seed,
            candidates=9,
            points=6,
            rounds=5,
        )
        for later_first in (True, False)
    }
    values = {order: worst.value for order, (_, worst) in found.items()}
    order = values[True] <= max(values[False], tolerance)
    times, worst = found[order]
    name = {True: "later times first, T_{s,r} T_{t,s}", False: "earlier times first, T_{t,s} T_{s,r}"}
    other = values[not order]
    also = "the other order too" if other <= tolerance else f"the other order is off by {other:.2g}"
    detail = f"composed {name[order]}; {also}"
    (f,) = worst.functions
    evidence = Evidence(_signed(f), worst.place, times, detail, functions=(f.signed,))
    return violation("markov", worst.value, tolerance, evidence)


def linearity(operator: FunctionOperator, box: Box, tolerance: float, seed: int) -> AxiomCheck:
    """``T(a f + b g) = a T f + b T g``, and constants stay what they are."""
    s, t = 0.0, operator.horizon

    def objective(stacks: tuple[Probes, ...], x: Array) -> Array:
        f, g = stacks
        mixed = operator(lambda y: _FIRST * f.signed(y) + _SECOND * g.signed(y), x, t, s)
        return np.abs(mixed - _FIRST * operator(f.signed, x, t, s) - _SECOND * operator(g.signed, x, t, s))

    worst = climb(objective, box, 2, seed=seed)
    x = box.points(64, seed)
    moved = np.abs(operator(lambda y: np.ones((len(y), 1)), x, t, s)[:, 0] - 1.0)
    at = int(np.argmax(moved))
    if moved[at] > worst.value:
        evidence = Evidence(
            "the constant 1",
            tuple(map(float, x[at])),
            (s, t),
            f"|T 1 - 1| = {moved[at]:.3g}; sums are off by {worst.value:.3g}",
        )
        return violation("linearity", float(moved[at]), tolerance, evidence)
    f, g = worst.functions
    detail = f"T({_FIRST:g} f {_SECOND:+g} g) is off by {worst.value:.3g}; T 1 - 1 = {moved[at]:.2g}"
    evidence = Evidence(_signed(f), worst.place, (s, t), detail, _signed(g), (f.signed, g.signed))
    return violation("linearity", worst.value, tolerance, evidence)


def locality(operator: FunctionOperator, box: Box, tolerance: float, seed: int) -> AxiomCheck:
    """Functions that agree around x must have the same change at x in the limit of short times, per time."""

    def objective_at(s: float, time: float) -> Objective:
        def objective(stacks: tuple[Probes, ...], x: Array) -> Array:
            f, other = stacks
            rows = [_difference(operator, f, other, point, s, time) for point in x]
            return np.abs(np.stack(rows)) / time

        return objective

    # Halving the time distinguishes a limit from a rate that falls to zero.
    short = operator.horizon * 2.0**-14
    starts = (0.0, _inside(operator, 0.5))
    (s,), worst = _worst_of({(s,): objective_at(s, short) for s in starts}, box, 2, seed=seed, points=8)
    rates = [float(objective_at(s, time)(worst.functions, worst.x[None])[0, 0]) for time in (short, short / 2)]
    limit = max(2 * rates[1] - rates[0], 0.0) if rates[1] <= rates[0] else rates[1]
    f, other = worst.functions
    evidence = Evidence(
        _signed(f),
        worst.place,
        (s, s + short),
        f"(T f - T g)(x) / t tends to {limit:.3g}",
        f"f within {_RADIUS:g} of x, and f + {other.describe()} farther away",
        (f.signed, _changed_far_from(worst.x, f, other)),
    )
    return violation("locality", limit, tolerance, evidence)


def spatial(operator: FunctionOperator, box: Box, seed: int) -> AxiomCheck:
    """``|T_t(f shifted) - (T_t f) shifted| <= C h t``: the constant, for f with value and derivatives at most 1."""
    largest_shift, largest_time = 0.25, operator.horizon / 4

    def objective_at(direction: Array, h: float, t: float) -> Objective:
        shift = h * direction

        def objective(stacks: tuple[Probes, ...], x: Array) -> Array:
            (f,) = stacks
            shifted_first = operator(lambda y: f.scaled(y + shift), x, t)
            return np.abs(shifted_first - operator(f.scaled, x + shift, t)) / (h * t)

        return objective

    values, worst, along = [], None, np.eye(box.dimension)[0]
    for scale in _SCALES:
        h, t = largest_shift * scale, largest_time * scale
        tried = _directions(box.dimension) if worst is None else [along]
        found = [
            climb(objective_at(direction, h, t), box, 1, seed=seed, points=64, near=worst, radius=8 * h)
            for direction in tried
        ]
        best = int(np.argmax([one.value for one in found]))
        worst, along = found[best], tried[best]
        values.append(worst.value)
    assert worst is not None
    direction = ", ".join(f"{part:.3g}" for part in along)
    detail = f"shift of {h:.3g} along ({direction}): {_course(values)}"
    evidence = Evidence(_scaled(worst), worst.place, (0.0, t), detail, functions=(worst.functions[0].scaled,))
    return constant("spatial", values, _SCALES, evidence)


def temporal(operator: FunctionOperator, box: Box, seed: int) -> AxiomCheck:
    """``|T_{t+s,s} f - f| <= C t`` and ``|T_{t+s,s} f - T_t f| <= C s t``: the larger constant, with f as before."""
    half = _inside(operator, 0.5)

    def change(s: float, t: float) -> Objective:
        def objective(stacks: tuple[Probes, ...], x: Array) -> Array:
            (f,) = stacks
            return np.asarray(np.abs(operator(f.scaled, x, s + t, s) - f.scaled(x)) / t)

        return objective

    def drift(s: float, t: float) -> Objective:
        def objective(stacks: tuple[Probes, ...], x: Array) -> Array:
            (f,) = stacks
            return np.asarray(np.abs(operator(f.scaled, x, s + t, s) - operator(f.scaled, x, t)) / (s * t))

        return objective

    def measured(make: Callable[[float, float], Objective], starts: Callable[[float], set[float]]) -> AxiomCheck:
        values: list[float] = []
        worst: Worst | None = None
        for scale in _SCALES:
            t = operator.horizon / 4 * scale
            objectives: dict[tuple[float, ...], Objective] = {(s,): make(s, t) for s in sorted(starts(scale))}
            (s,), worst = _worst_of(objectives, box, 1, seed=seed, near=worst, radius=0.5)
            values.append(worst.value)
        assert worst is not None
        what = "|T_{t+s,s} f - f| / t" if make is change else "|T_{t+s,s} f - T_t f| / (s t)"
        detail = f"{what}: {_course(values)}"
        evidence = Evidence(_scaled(worst), worst.place, (s, s + t), detail, functions=(worst.functions[0].scaled,))
        return constant("temporal", values, _SCALES, evidence)

    first = measured(change, lambda scale: {0.0, half})
    second = measured(drift, lambda scale: {operator.horizon / 4 * scale, half})
    if first.holds == second.holds:
        return first if first.value >= second.value else second
    return first if second.holds else second


def _difference(operator: FunctionOperator, f: Probes, other: Probes, point: Array, s: float, time: float) -> Array:
    there, changed = point[None], _changed_far_from(point, f, other)
    difference = operator(changed, there, s + time, s) - operator(f.signed, there, s + time, s)
    return np.asarray(difference[0])


def _changed_far_from(point: Array, f: Probes, other: Probes) -> Function:
    def changed(y: Array) -> Array:
        far = np.clip(np.linalg.norm(y - point, axis=1) / _RADIUS - 1.0, 1e-12, None)
        # exp(-1/r) is flat to all orders where r falls to zero.
        return np.asarray(f.signed(y) + np.exp(-0.1 / far)[:, None] * other(y))

    return changed


def _worst_of(
    objectives: dict[tuple[float, ...], Objective], box: Box, functions: int, **settings: Any
) -> tuple[tuple[float, ...], Worst]:
    """The worst of the climbs at different times, with its times."""
    found = [(times, climb(objective, box, functions, **settings)) for times, objective in objectives.items()]
    return max(found, key=lambda pair: pair[1].value)


def _image(operator: FunctionOperator, f: Function, t: float, s: float) -> Function:
    return lambda y: operator(f, y, t, s)


def _pairs(operator: FunctionOperator) -> list[tuple[float, float]]:
    half = _on_layers(operator, 0.5)
    pairs = {(0.0, half), (0.0, operator.horizon), (half, operator.horizon)}
    return sorted(pair for pair in pairs if pair[0] < pair[1])


def _triples(operator: FunctionOperator) -> list[tuple[float, float, float]]:
    quarter, half, later = (_on_layers(operator, part) for part in (0.25, 0.5, 0.75))
    # All at the same time: T_{s,s} must be the identity.
    triples = {
        (0.0, 0.0, 0.0),
        (0.0, half, operator.horizon),
        (quarter, half, later),
        (half, later, operator.horizon),
    }
    return sorted(triple for triple in triples if triple[0] <= triple[1] <= triple[2])


def _on_layers(operator: FunctionOperator, part: float) -> float:
    """A part of the horizon, at the border of two layers where there are any."""
    time = part * operator.horizon
    return time if operator.step is None else round(time / operator.step) * operator.step


def _inside(operator: FunctionOperator, part: float) -> float:
    """The same, but never at the ends."""
    time = _on_layers(operator, part)
    return time if 0 < time < operator.horizon else part * operator.horizon


def _directions(dimension: int) -> list[Array]:
    """The axes and all diagonals."""
    if dimension == 1:
        return [np.ones(1)]
    signs = [np.array([1.0, *rest]) for rest in product((1.0, -1.0), repeat=dimension - 1)]
    return [*np.eye(dimension), *(sign / np.sqrt(dimension) for sign in signs)]


def _signed(f: Probes) -> str:
    return f"2 x {f.describe()}, minus 1"


def _scaled(worst: Worst) -> str:
    f = worst.functions[0]
    return f"{1 / float(f.norm[0]):.3g} x {f.describe()}"


def _course(values: list[float]) -> str:
    return " -> ".join(f"{value:.3g}" for value in values) + " as both shrink"
