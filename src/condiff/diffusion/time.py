"""How long to diffuse: the time at which a graph's heat has as many degrees of freedom left as are wanted."""

from __future__ import annotations

import itertools
import math
import weakref
from collections.abc import Iterator

import numpy as np
import torch

from condiff.diffusion.chebyshev import Chebyshev
from condiff.diffusion.stability import max_diagonal
from condiff.graph import DenseLaplacian, Graph, Laplacian, SparseLaplacian

#: Random sign vectors that a trace is measured on.
PROBES = 32
# Up to this many nodes all eigenvalues cost less than the probes.
_EXACT_UP_TO = 256
# Times at which the trace is measured: each is so many times the one before.
_GROWTH = 1.5
# No time is longer than this many steps at the positivity limit.
_LONGEST_REACH = 20_000.0
# Nodes whose own heat is followed, and how much longer than half of them need a robust time may last.
_SINGLES, _AT_MOST = 16, 2.0
# The trace has come to rest where so many steps of growth, about ten times as long, leave this share of it.
_REST_STEPS, _REST_SHARE = 6, 0.9


def diffusion_time(
    graph: Graph | Laplacian, dimension: float, *, probes: int = PROBES, seed: int = 0, robust: bool = False
) -> float:
    r"""The time at which the heat trace :math:`\operatorname{tr} e^{-tL} = \sum_k e^{-t \lambda_k}` is ``dimension``.

    The trace counts the modes that time t has not yet smoothed away: n at t = 0, and the number of connected components
    in the end. It is measured on random signs z as the mean of :math:`\|e^{-tL/2} z\|^2`, whose relative error is
    about :math:`\sqrt{2 / (d \cdot probes)}` at the trace d; the signs depend on ``seed`` alone.

    Parts that exchange no heat, or next to none (components, duplicates, clusters joined by tiny weights), keep the
    trace up for thousands of layers in which nothing changes. So the time ends earlier where the trace comes to rest:
    at the first time, once a typical node has exchanged its heat with its neighbours, from which ten times as long
    would smooth away less than a tenth of what is left. On anything that keeps mixing, even a path, where the trace
    falls as slowly as :math:`t^{-1/2}`, ten times as long smooths away two thirds.

    A few pockets that hang on the rest by a thread may hold more degrees of freedom than are wanted, and keep the trace
    up while everything else is mixed. The trace is the sum of the shares :math:`(e^{-tL})_{ii}` of its own heat that a
    node has kept; ``robust`` asks for their median too. Where that alone would give the dimension after a time s, the
    time is at most 2 s. On points without such pockets it is 1 to 1.6 s, and nothing changes.

    Parameters
    ----------
    graph
        A symmetric Laplacian, or a graph of one; what was measured on a graph is remembered for as long as it lives.
    dimension
        The number of degrees of freedom that should be left.
    probes
        Number of random sign vectors.
    seed
        Seed of their generator.
    robust
        Whether to follow the heat of single nodes too.
    """
    trace = _Trace.of(graph, probes, seed, _SINGLES if robust else 0)
    if trace.largest == 0 or dimension >= trace.passed[0][1]:
        return 0.0
    limit = math.inf
    for step in itertools.count(1):
        if step == len(trace.passed) and not trace.go_on():
            break
        time, left = trace.passed[step]
        if robust and trace.typical[step] <= dimension < trace.typical[step - 1]:
            spread = [(trace.passed[at][0], trace.typical[at]) for at in (step - 1, step)]
            limit = _AT_MOST * _between(spread[0], spread[1], dimension)
        if left <= dimension:
            return min(limit, _between(trace.passed[step - 1], (time, left), dimension, trace.eigenvalues))
        if time >= limit:
            return limit
        before = trace.passed[max(0, step - _REST_STEPS)]
        if before[0] >= trace.exchanged and left > _REST_SHARE * before[1]:
            return before[0]
    return trace.longest


def degrees_of_freedom(graph: Graph | Laplacian, time: float, *, probes: int = PROBES, seed: int = 0) -> float:
    """The heat trace at a time: :func:`diffusion_time` of it is that time, unless the trace has come to rest before."""
    trace = _Trace.of(graph, probes, seed, 0)
    if trace.largest == 0 or time <= 0:
        return trace.passed[0][1]
    step = 1
    while step < len(trace.passed) or trace.go_on():
        (low, above), (high, below) = trace.passed[step - 1 : step + 1]
        if high >= time:
            if trace.eigenvalues is not None:
                return float(np.exp(-time * trace.eigenvalues).sum())
            return float(above * (below / above) ** ((time - low) / (high - low)))
        step += 1
    return trace.passed[-1][1]


class _Trace:
    """The heat trace at longer and longer times, as far as it has been asked for.

    ``typical`` is what it would be if every node had kept as much of its own heat as the median of some single ones.
    """

    def __init__(self, operator: Laplacian, probes: int, seed: int, singles: int) -> None:
        self.n_nodes, self.largest, self.probes = operator.n_nodes, max_diagonal(operator), probes
        self.singles = min(singles, self.n_nodes)
        self.passed: list[tuple[float, float]] = [(0.0, float(self.n_nodes))]
        self.typical = [float(self.n_nodes)]
        if self.largest == 0:
            return
        self.longest = _LONGEST_REACH / self.largest
        self.eigenvalues = _eigenvalues(operator) if self.n_nodes <= _EXACT_UP_TO else None
        diagonal = operator.diagonal.detach()
        self.exchanged = 1.0 / float(diagonal[diagonal > 0].median())
        self._measured = self._measure(operator, seed)

    @classmethod
    def of(cls, graph: Graph | Laplacian, probes: int, seed: int, singles: int) -> _Trace:
        """Of a graph as it is known, or a new one."""
        if isinstance(graph, Laplacian):
            return cls(graph, probes, seed, singles)
        known = _known.setdefault(graph, {})
        if (probes, seed, singles) not in known:
            known[probes, seed, singles] = cls(graph.laplacian(torch.float32), probes, seed, singles)
        return known[probes, seed, singles]

    def go_on(self) -> bool:
        """Measure once more; False where the time would be too long."""
        found = next(self._measured, None)
        if found is not None:
            self.passed.append(found[:2])
            self.typical.append(found[2])
        return found is not None

    def _measure(self, operator: Laplacian, seed: int) -> Iterator[tuple[float, float, float]]:
        """Longer and longer times, the trace at each, and the typical one."""
        generator = torch.Generator().manual_seed(seed)
        shape = (self.n_nodes, self.probes)
        heat = torch.randint(0, 2, shape, generator=generator).to(operator.device, operator.dtype) * 2 - 1
        if self.singles:
            nodes = torch.randperm(self.n_nodes, generator=generator)[: self.singles]
            heat = torch.cat([heat, heat.new_zeros(self.n_nodes, self.singles)], dim=1)
            heat[nodes, torch.arange(self.probes, heat.shape[1])] = 1.0
        solver, last, time = Chebyshev(tolerance=1e-4), 0.0, 0.1 / self.largest
        while time < self.longest:
            if self.eigenvalues is None or self.singles:
                # The semigroup lets each longer time continue from the last one.
                heat = solver(operator, heat, (time - last) / 2, 1)
            signs, singles = heat[:, : self.probes], heat[:, self.probes :]
            typical = self.n_nodes * float((singles.double() ** 2).sum(dim=0).median()) if self.singles else math.nan
            if self.eigenvalues is not None:
                yield time, float(np.exp(-time * self.eigenvalues).sum()), typical
            else:
                yield time, float((signs.double() ** 2).sum()) / self.probes, typical
            last, time = time, time * _GROWTH


_known: weakref.WeakKeyDictionary[Graph, dict[tuple[int, int, int], _Trace]] = weakref.WeakKeyDictionary()


def _between(
    before: tuple[float, float],
    after: tuple[float, float],
    dimension: float,
    eigenvalues: np.ndarray[tuple[int], np.dtype[np.float64]] | None = None,
) -> float:
    """When the trace is ``dimension``: by bisection, or as if it fell exponentially between two measurements."""
    (low, above), (high, below) = before, after
    if eigenvalues is None:
        return low + math.log(above / dimension) / math.log(above / below) * (high - low)
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if np.exp(-middle * eigenvalues).sum() > dimension else (low, middle)
    return high


def _eigenvalues(operator: Laplacian) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    assert isinstance(operator, SparseLaplacian | DenseLaplacian)
    identity = torch.eye(operator.n_nodes, dtype=operator.dtype, device=operator.device)
    with torch.no_grad():
        matrix = operator(identity).double()
    return np.asarray(torch.linalg.eigvalsh((matrix + matrix.mT) / 2).clamp_min(0).cpu().numpy())
