"""How long to diffuse: the time at which a graph's heat has as many degrees of freedom left as are wanted."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch

from condiff.diffusion.chebyshev import Chebyshev
from condiff.diffusion.stability import max_diagonal
from condiff.graph import DenseLaplacian, Laplacian, SparseLaplacian

# Up to this many nodes all eigenvalues cost less than the probes.
_EXACT_UP_TO = 256
_GROWTH = 1.5
# A mode this slow is, for any practical time, a component of its own.
_LONGEST_REACH = 20_000.0


def diffusion_time(operator: Laplacian, dimension: float, *, probes: int = 32, seed: int = 0) -> float:
    r"""The time at which the heat trace :math:`\operatorname{tr} e^{-tL} = \sum_k e^{-t \lambda_k}` is ``dimension``.

    The trace counts the modes that time t has not yet smoothed away: n at t = 0, and the number of connected components
    in the end. It is measured on random signs z as the mean of :math:`\|e^{-tL/2} z\|^2`, whose relative error is
    about :math:`\sqrt{2 / (d \cdot probes)}` at the trace d; the signs depend on ``seed`` alone. Where the trace never
    falls so far, the longest sensible time is returned.

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
    if n <= _EXACT_UP_TO:
        eigenvalues = _eigenvalues(operator)
        return _solve(lambda t: float(np.exp(-t * eigenvalues).sum()), dimension, longest)
    generator = torch.Generator().manual_seed(seed)
    signs = torch.randint(0, 2, (n, probes), generator=generator).to(operator.device, operator.dtype) * 2 - 1
    heat, solver = signs, Chebyshev(tolerance=1e-4)
    time, trace = 0.0, float(n)
    following = 0.1 / largest
    # The semigroup lets each longer time go on from the last one.
    while following < longest:
        heat = solver(operator, heat, (following - time) / 2, 1)
        before, previous = trace, time
        time, trace = following, float((heat.double() ** 2).sum()) / probes
        if trace <= dimension:
            fraction = math.log(before / dimension) / math.log(before / trace)
            return previous + fraction * (time - previous)
        following *= _GROWTH
    return longest


def _eigenvalues(operator: Laplacian) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    assert isinstance(operator, SparseLaplacian | DenseLaplacian)
    identity = torch.eye(operator.n_nodes, dtype=operator.dtype, device=operator.device)
    with torch.no_grad():
        matrix = operator(identity).double()
    return np.asarray(torch.linalg.eigvalsh((matrix + matrix.mT) / 2).clamp_min(0).cpu().numpy())


def _solve(trace: Callable[[float], float], dimension: float, longest: float) -> float:
    """Bisect a falling function of time."""
    if trace(longest) >= dimension:
        return longest
    low, high = 0.0, longest
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if trace(middle) > dimension else (low, middle)
    return high
