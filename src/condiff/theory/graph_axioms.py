"""The six axioms for operators on node functions: exact worst cases from matrices, a search where there is none."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from condiff.theory.node_search import FIRST, SECOND, Case, NodeSearch
from condiff.theory.operators import Array, GraphOperator
from condiff.theory.verdicts import AxiomCheck, Evidence, constant, violation

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
