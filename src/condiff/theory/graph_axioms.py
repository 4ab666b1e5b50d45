"""The six axioms for operators on node functions: exact worst cases from matrices, a search where there is none."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from condiff.theory.operators import Array, GraphOperator
from condiff.theory.verdicts import AxiomCheck, Evidence, constant, violation

#: Coefficients of the combination that linearity is tried on.
FIRST, SECOND = 2.0, -1.5
_NAMES = ("a ramp over the nodes", *["random signs"] * 4, *["random values"] * 3, *["one at a single node"] * 6)
_ROUNDS = 40


class Case(NamedTuple):
    """A value, the entry at which it is taken, and the functions that make it."""

    value: float
    entry: int
    functions: tuple[Array, ...]
    names: tuple[str, ...] = ()


class NodeSearch:
    """Finds the node functions, between -1 and 1, that make something large.

    Parameters
    ----------
    operator
        The family.
    tolerance
        By how much sums may be off before the operator counts as not linear.
    seed
        Of the ascent.
    """

    def __init__(self, operator: GraphOperator, tolerance: float, seed: int) -> None:
        self.operator = operator
        self.shape = (operator.n_nodes, operator.channels)
        self.seed = seed
        self.pool = _pool(self.shape)
        self.superposition = self._superposition()
        self.nonlinear = self.superposition.value > tolerance

    def largest(self, action: Callable[[Array], Array]) -> Case:
        """The largest entry in size of ``action(u)``, where ``action`` is as linear as the operator.

        The largest of a linear one is the largest sum of sizes in a row of its matrix, made by the signs of that row.
        """
        if self.nonlinear:
            return self._ascend(action)
        size = self.shape[0] * self.shape[1]
        if self.shape[1] == 1:
            image = action(np.eye(size)).reshape(-1, size)
        else:
            image = np.stack([action(unit.reshape(self.shape)).ravel() for unit in np.eye(size)], axis=1)
        sums = np.abs(image).sum(1)
        entry = int(sums.argmax())
        return Case(float(sums[entry]), entry, (np.sign(image[entry]).reshape(self.shape),))

    def drop(self, s: float, t: float) -> Case:
        """The most by which ``T f`` exceeds ``T g`` anywhere although ``f <= g <= f + 1``, with f and g."""
        if not self.nonlinear:
            matrix = self.operator.matrix(t, s)
            negative = np.clip(-matrix, 0.0, None).sum(1)
            entry = int(negative.argmax())
            raised = (matrix[entry] < 0).astype(float).reshape(self.shape)
            return Case(float(negative[entry]), entry, (np.zeros(self.shape), raised), ("0", _raised(raised)))
        return max((self._drop_from(k, s, t) for k in range(len(self.pool))), key=lambda case: case.value)

    def far_influence(self, s: float, t: float) -> Array:
        """How much the nodes that are not joined to a node can change its value, for every entry."""
        operator, (n, channels) = self.operator, self.shape
        if not self.nonlinear:
            far = np.repeat(np.repeat(~operator.joined, channels, 0), channels, 1)
            return np.asarray((np.abs(operator.matrix(t, s)) * far).sum(1))
        influence = np.zeros((n, channels))
        for node in range(n):
            near = operator.joined[node][:, None]
            base = self.pool[0] * near
            before = operator(base, t, s)[node]
            for sign in (1.0, -1.0):  # all that is far at once, up and down
                after = operator(base + sign * np.repeat(~near, channels, 1), t, s)[node]
                influence[node] = np.maximum(influence[node], np.abs(after - before))
        return influence.ravel()

    def _superposition(self) -> Case:
        """By how much ``T(a f + b g)`` differs from ``a T f + b T g``, over pairs of the pool."""
        t, pool = self.operator.horizon, self.pool
        images = [self.operator(u, t) for u in pool]
        best = Case(-1.0, 0, ())
        for a, f in enumerate(pool):
            for b, g in enumerate(pool[:a]):
                mixed = self.operator(FIRST * f + SECOND * g, t)
                off = np.abs(mixed - FIRST * images[a] - SECOND * images[b]).ravel()
                if off.max() > best.value:
                    best = Case(float(off.max()), int(off.argmax()), (f, g), (_NAMES[a], _NAMES[b]))
        return best

    def _ascend(self, action: Callable[[Array], Array]) -> Case:
        """The best of the pool, then blocks of its values turned over or set to zero while that helps."""
        best = max((_entry(action(u), u) for u in self.pool), key=lambda case: case.value)
        generator = np.random.default_rng(self.seed)
        for _ in range(_ROUNDS):
            trial = best.functions[0].copy()
            trial[generator.random(self.shape) < 0.1] *= generator.choice([-1.0, 0.0])
            found = _entry(action(trial), trial)
            best = found if found.value > best.value else best
        return best

    def _drop_from(self, k: int, s: float, t: float) -> Case:
        """From a function of the pool each value is raised by itself, then all those together that lower an entry."""
        f = self.pool[k]
        base = self.operator(f, t, s).ravel()
        singles = f + np.eye(f.size).reshape(f.size, *f.shape)
        drops = np.stack([base - self.operator(raised, t, s).ravel() for raised in singles], axis=1)
        entry = int(np.clip(drops, 0.0, None).sum(1).argmax())
        together = f + (drops[entry] > 0).reshape(f.shape)
        tried = [together, singles[int(drops[entry].argmax())]]
        values = [float((base - self.operator(raised, t, s).ravel())[entry]) for raised in tried]
        best = int(np.argmax(values))
        return Case(values[best], entry, (f, tried[best]), (_NAMES[k], _raised(tried[best] - f)))


def _entry(image: Array, u: Array) -> Case:
    sizes = np.abs(image).ravel()
    return Case(float(sizes.max()), int(sizes.argmax()), (u,))


def _raised(by: Array) -> str:
    nodes = np.flatnonzero(by.any(axis=1))
    shown = ", ".join(map(str, nodes[:8])) + (", ..." if len(nodes) > 8 else "")
    return f"f + 1 at node{'s' * (len(nodes) != 1)} {shown}" if len(nodes) else "f"


def _pool(shape: tuple[int, int]) -> list[Array]:
    """Functions between -1 and 1, named by ``_NAMES``: a ramp, signs, values, single nodes."""
    n, channels = shape
    generator = np.random.default_rng(0)
    ramp = np.linspace(-1, 1, n)[:, None] * (np.linspace(1, -1, channels) if channels > 1 else np.ones(1))
    pool = [ramp]
    pool += [np.sign(generator.normal(size=shape)) for _ in range(4)]
    pool += [generator.uniform(-1, 1, shape) for _ in range(3)]
    for node in generator.choice(n, min(n, 6), replace=False):
        unit = np.zeros(shape)
        unit[node, 0] = 1.0
        pool.append(unit)
    return pool


# The scales at which constants are measured, as fractions of the largest; far apart, so that growth shows.
_SCALES = (1.0, 1 / 8, 1 / 64)


class GraphAxioms:
    """The checks of one operator.

    Parameters
    ----------
    operator
        What is checked.
    tolerance
        Largest violation, relative to functions between -1 and 1.
    seed
        Of the search that an operator needs which is not linear.
    """

    def __init__(self, operator: GraphOperator, tolerance: float, seed: int) -> None:
        self.operator, self.tolerance = operator, tolerance
        self.search = NodeSearch(operator, tolerance, seed)
        self.exact = not self.search.nonlinear

    def comparison(self) -> AxiomCheck:
        """``f <= g`` must give ``T f <= T g``: the negative entries of a row of the matrix give the worst pair."""
        found = [(self.search.drop(s, t), (s, t)) for s, t in self._pairs()]
        worst, times = max(found, key=lambda pair: pair[0].value)
        f, g = worst.names
        detail = f"T f - T g = {max(0.0, worst.value):.3g} although f <= g <= f + 1"
        evidence = Evidence(f, self._node(worst), times, detail, g, worst.functions)
        return violation("comparison", worst.value, self.tolerance, evidence, exact=self.exact)

    def markov(self) -> AxiomCheck:
        """``T_{t,r} = T_{s,r} T_{t,s}`` as the paper writes it, or in the equation's order, ``T_{t,s} T_{s,r}``."""
        found = {}
        for later_first in (True, False):
            cases = [(self.search.largest(self._defect(*times, later_first)), times) for times in self._triples()]
            found[later_first] = max(cases, key=lambda pair: pair[0].value)
        order = found[True][0].value <= max(found[False][0].value, self.tolerance)
        worst, times = found[order]
        other = found[not order][0].value
        name = {True: "later times first, T_{s,r} T_{t,s}", False: "earlier times first, T_{t,s} T_{s,r}"}[order]
        also = "the other order too" if other <= self.tolerance else f"the other order is off by {other:.2g}"
        evidence = self._evidence(worst, times, f"composed {name}; {also}")
        return violation("markov", worst.value, self.tolerance, evidence, exact=self.exact)

    def linearity(self) -> AxiomCheck:
        """Superposition over pairs of test functions, and what becomes of constants."""
        worst = self.search.superposition
        times = (0.0, self.operator.horizon)
        ones = np.ones(self.search.shape)
        moved = np.abs(self.operator(ones, times[1]) - ones).ravel()
        if moved.max() > worst.value:
            detail = f"|T 1 - 1| = {moved.max():.3g}; sums are off by {worst.value:.3g}"
            case = Case(float(moved.max()), int(moved.argmax()), (ones,), ("the constant 1",))
            evidence = Evidence("the constant 1", self._node(case), times, detail, functions=case.functions)
            return violation("linearity", case.value, self.tolerance, evidence)
        f, g = worst.names
        detail = f"T({FIRST:g} f {SECOND:+g} g) is off by {worst.value:.3g}; T 1 - 1 = {moved.max():.2g}"
        evidence = Evidence(f, self._node(worst), times, detail, g, worst.functions)
        return violation("linearity", worst.value, self.tolerance, evidence)

    def locality(self) -> AxiomCheck:
        """Functions that agree at a node and its neighbours must change alike there, in the limit of short times."""
        short = self.operator.horizon * 2.0**-14
        worst, start = Case(-np.inf, 0, ()), 0.0
        for s in (0.0, self._inside(0.5)):
            rates = [self.search.far_influence(s, s + time) / time for time in (short, short / 2)]
            # A rate that halves with the time is on its way to zero; what is left after that is the limit.
            limits = np.where(rates[1] <= rates[0], np.clip(2 * rates[1] - rates[0], 0.0, None), rates[1])
            if limits.max() > worst.value:
                worst, start = Case(float(limits.max()), int(limits.argmax()), ()), s
        evidence = Evidence(
            "0" if self.exact else "a ramp over the node and its neighbours, else 0",
            self._node(worst),
            (start, start + short),
            f"(T f - T g) / t tends to {worst.value:.3g}",
            "f at the node and its neighbours, 1 or -1 elsewhere",
        )
        return violation("locality", worst.value, self.tolerance, evidence, exact=self.exact)

    def spatial(self) -> AxiomCheck:
        """A graph has no translations; what the proof uses them for is that (T_t f - f) / t is Lipschitz: its constant.

        It is the largest difference between joined nodes over their distance, for f between -1 and 1.
        """
        operator = self.operator
        i, j = np.nonzero(np.triu(operator.joined, 1))
        apart = np.maximum(operator.distance[i, j], 1e-12)
        if not len(i):
            nowhere = Evidence("any", (), (0.0, operator.horizon), "no two nodes are joined")
            return constant("spatial", [0.0, 0.0], (1.0, 0.5), nowhere, exact=True)

        def slope(t: float) -> Callable[[Array], Array]:
            def action(u: Array) -> Array:
                rate = ((operator(u, t) - u) / t).reshape(operator.n_nodes, -1)
                return np.asarray((rate[i] - rate[j]) / apart[:, None])

            return action

        times = [operator.horizon / 4 * scale for scale in _SCALES]
        cases = [self.search.largest(slope(t)) for t in times]
        edge = cases[-1].entry // operator.channels
        values = [case.value for case in cases]
        detail = f"slope of (T_t f - f) / t along the edge: {_course(values)}"
        ends = (float(i[edge]), float(j[edge]))
        evidence = Evidence(self._function, ends, (0.0, times[-1]), detail, functions=cases[-1].functions)
        return constant("spatial", values, _SCALES, evidence, exact=self.exact)

    def temporal(self) -> AxiomCheck:
        """``|T_{t+s,s} f - f| <= C t`` and ``|T_{t+s,s} f - T_t f| <= C s t``, for f between -1 and 1."""
        operator, half = self.operator, self._inside(0.5)

        def change(s: float, t: float) -> Callable[[Array], Array]:
            return lambda u: np.asarray((operator(u, s + t, s) - u) / t)

        def drift(s: float, t: float) -> Callable[[Array], Array]:
            return lambda u: np.asarray((operator(u, s + t, s) - operator(u, t)) / (s * t))

        checks = []
        for what, make, starts in (
            ("|T_{t+s,s} f - f| / t", change, (0.0, half)),
            ("|T_{t+s,s} f - T_t f| / (s t)", drift, (half,)),
        ):
            values: list[float] = []
            for scale in _SCALES:
                t = operator.horizon / 4 * scale
                found = [(self.search.largest(make(s, t)), s) for s in starts]
                worst, s = max(found, key=lambda pair: pair[0].value)
                values.append(worst.value)
            evidence = self._evidence(worst, (s, s + t), f"{what}: {_course(values)}")
            checks.append(constant("temporal", values, _SCALES, evidence, exact=self.exact))
        return min(checks, key=lambda check: (check.holds, -check.value))

    def _defect(self, r: float, s: float, t: float, later_first: bool) -> Callable[[Array], Array]:
        inner, outer = ((t, s), (s, r)) if later_first else ((s, r), (t, s))
        operator = self.operator
        if r == t:
            return lambda u: np.asarray(operator(u, t, r) - u)
        return lambda u: np.asarray(operator(u, t, r) - operator(operator(u, *inner), *outer))

    def _evidence(self, case: Case, times: tuple[float, ...], detail: str) -> Evidence:
        return Evidence(self._function, self._node(case), times, detail, functions=case.functions)

    @property
    def _function(self) -> str:
        return "1 or -1, the signs of the node's row" if self.exact else "found by coordinate ascent"

    def _node(self, case: Case) -> tuple[float]:
        return (float(case.entry // self.operator.channels),)

    def _on_layers(self, part: float) -> float:
        """A part of the horizon, at the border of two layers where there are any."""
        time, step = part * self.operator.horizon, self.operator.step
        return time if step is None else round(time / step) * step

    def _inside(self, part: float) -> float:
        """The same, but never at the ends."""
        time = self._on_layers(part)
        return time if 0 < time < self.operator.horizon else part * self.operator.horizon

    def _pairs(self) -> list[tuple[float, float]]:
        half, end = self._on_layers(0.5), self.operator.horizon
        first = end if self.operator.step is None else min(self.operator.step, end)
        return sorted(pair for pair in {(0.0, first), (0.0, half), (0.0, end), (half, end)} if pair[0] < pair[1])

    def _triples(self) -> list[tuple[float, float, float]]:
        quarter, half, later = (self._on_layers(part) for part in (0.25, 0.5, 0.75))
        # All at the same time: T_{s,s} must be the identity.
        return sorted({(0.0, 0.0, 0.0), (0.0, half, self.operator.horizon), (quarter, half, later)})


def _course(values: list[float]) -> str:
    return " -> ".join(f"{value:.3g}" for value in values) + " as t shrinks"
