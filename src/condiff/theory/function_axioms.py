"""The six axioms for operators on functions over R^d, each by a search for the worst functions, point and times."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np

from condiff.theory.operators import Array, Function, FunctionOperator
from condiff.theory.probes import Box, Objective, Probes, Worst, climb
from condiff.theory.verdicts import AxiomCheck, Evidence, constant, violation

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

    # Halving the time tells a limit from a rate that is on its way to zero.
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
