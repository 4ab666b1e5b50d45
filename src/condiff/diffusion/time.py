"""How long to diffuse: the time at which a graph's heat has as many degrees of freedom left as are wanted."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import torch

from condiff.diffusion.chebyshev import Chebyshev
from condiff.diffusion.stability import max_diagonal
from condiff.graph import DenseLaplacian, Laplacian, SparseLaplacian

# Up to this many nodes all eigenvalues cost less than the probes.
_EXACT_UP_TO = 256
# Times at which the trace is measured: each is so many times the one before.
_GROWTH = 1.5
# No time is longer than this many steps at the positivity limit.
_LONGEST_REACH = 20_000.0
# The trace has come to rest where so many steps of growth, about ten times as long, leave this share of it.
_REST_STEPS, _REST_SHARE = 6, 0.9


def diffusion_time(operator: Laplacian, dimension: float, *, probes: int = 32, seed: int = 0) -> float:
    r"""The time at which the heat trace :math:`\operatorname{tr} e^{-tL} = \sum_k e^{-t \lambda_k}` is ``dimension``.

    The trace counts the modes that time t has not yet smoothed away: n at t = 0, and the number of connected components
    in the end. It is measured on random signs z as the mean of :math:`\|e^{-tL/2} z\|^2`, whose relative error is
    about :math:`\sqrt{2 / (d \cdot probes)}` at the trace d; the signs depend on ``seed`` alone.

    Parts that exchange no heat, or next to none (components, duplicates, clusters joined by tiny weights), keep the
    trace up for thousands of layers in which nothing changes. So the time ends earlier where the trace comes to rest:
    at the first time, once a typical node has exchanged its heat with its neighbours, from which ten times as long
    would smooth away less than a tenth of what is left. On anything that keeps mixing, even a path, where the trace
    falls as slowly as :math:`t^{-1/2}`, ten times as long smooths away two thirds.

    Parameters
    ----------
    operator
        A symmetric Laplacian.
    dimension
        The number of degrees of freedom that should be left.
    probes
        Number of random sign vectors.
    seed
        Seed of their generator.
    """
    n, largest = operator.n_nodes, max_diagonal(operator)
    if largest == 0 or dimension >= n:
        return 0.0
    longest = _LONGEST_REACH / largest
    eigenvalues = _eigenvalues(operator) if n <= _EXACT_UP_TO else None
    diagonal = operator.diagonal.detach()
    typical = 1.0 / float(diagonal[diagonal > 0].median())
    passed: list[tuple[float, float]] = [(0.0, float(n))]
    for time, trace in _measured(operator, eigenvalues, largest, longest, probes, seed):
        if trace <= dimension:
            return _between(passed[-1], (time, trace), dimension, eigenvalues)
        passed.append((time, trace))
        before = passed[max(0, len(passed) - 1 - _REST_STEPS)]
        if before[0] >= typical and trace > _REST_SHARE * before[1]:
            return before[0]
    return longest


def _measured(
    operator: Laplacian,
    eigenvalues: np.ndarray[tuple[int], np.dtype[np.float64]] | None,
    largest: float,
    longest: float,
    probes: int,
    seed: int,
) -> Iterator[tuple[float, float]]:
    """Longer and longer times, and the trace at each."""
    generator = torch.Generator().manual_seed(seed)
    shape = (operator.n_nodes, probes)
    heat = torch.randint(0, 2, shape, generator=generator).to(operator.device, operator.dtype) * 2 - 1
    solver, last, time = Chebyshev(tolerance=1e-4), 0.0, 0.1 / largest
    while time < longest:
        if eigenvalues is not None:
            yield time, float(np.exp(-time * eigenvalues).sum())
        else:
            # The semigroup lets each longer time continue from the last one.
            heat = solver(operator, heat, (time - last) / 2, 1)
            yield time, float((heat.double() ** 2).sum()) / probes
        last, time = time, time * _GROWTH


def _between(
    before: tuple[float, float],
    after: tuple[float, float],
    dimension: float,
    eigenvalues: np.ndarray[tuple[int], np.dtype[np.float64]] | None,
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
