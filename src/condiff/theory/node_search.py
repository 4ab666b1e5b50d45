"""The worst node functions of a graph operator: from its matrix if it is linear, by coordinate ascent if it is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from condiff.theory.operators import Array, GraphOperator

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
