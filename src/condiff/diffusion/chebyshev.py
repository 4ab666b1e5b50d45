"""The heat semigroup by a Chebyshev expansion: the fewest products for long times on symmetric graphs."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from scipy.special import ive
from torch import Tensor

from condiff.diffusion.solver import Solver
from condiff.errors import InvalidInputError
from condiff.graph import Laplacian, steps


class Chebyshev(Solver):
    r""":math:`e^{-t L} u`, :math:`t` = strength x layers, as a Chebyshev series in L.

    On :math:`[0, b]` with :math:`b = 2 \max_i L_{ii} \ge \lambda_{max}`, the series
    :math:`\sum_k c_k T_k(2L/b - I)` has coefficients that fall off faster than any power once
    :math:`k > \sqrt{t b}`, so about :math:`\sqrt{t b \log(1/\epsilon)}` products do where explicit steps need
    :math:`t b / 2`. The degree is the smallest whose tail, bounded by scaled Bessel functions, is below ``tolerance``
    in the 2-norm relative to u. Symmetric graphs only; values may leave their range by ``tolerance``.

    Parameters
    ----------
    tolerance
        Largest error; ten times the rounding of the tensor's precision by default.
    """

    def __init__(self, tolerance: float | None = None) -> None:
        if tolerance is not None and not 0 < tolerance < 1:
            raise InvalidInputError(f"tolerance must lie between 0 and 1, not {tolerance}")
        self.tolerance = tolerance

    def __call__(self, laplacian: Laplacian, u: Tensor, strength: float | Tensor, layers: int) -> Tensor:
        if not laplacian.symmetric:
            raise InvalidInputError(
                "the Chebyshev solver needs a symmetric graph; use solver='exact' for a directed one"
            )
        time = torch.as_tensor(strength, dtype=torch.float64) * layers
        bound = 2.0 * float(laplacian.diagonal.detach().max())
        if bound == 0.0:
            return u
        tolerance = self.tolerance or 10 * torch.finfo(u.dtype).eps
        degree = chebyshev_degree(float(time.detach()) * bound / 2, tolerance)
        # As many nodes as the whole series has digits for, so that aliasing stays below rounding.
        coefficients = chebyshev_coefficients(lambda x: torch.exp(-time.cpu() * x), bound, degree, degree + 32)
        return chebyshev_series(laplacian, u, coefficients, bound)


def chebyshev_degree(reach: float, tolerance: float) -> int:
    """The smallest degree of ``e^{-reach (1 + x)}`` on [-1, 1] with a tail below ``tolerance``."""
    orders = np.arange(0, 32 + math.ceil(reach + 12 * math.sqrt(reach + 1)))
    tails = np.cumsum((2.0 * ive(orders, reach))[::-1])[::-1]
    # tails[m + 1] bounds everything after degree m.
    return max(1, int(np.argmax(np.append(tails, 0.0) < tolerance)) - 1)


def chebyshev_coefficients(function: Callable[[Tensor], Tensor], bound: float, degree: int, nodes: int) -> Tensor:
    """Coefficients of a function on [0, bound] up to a degree, by a cosine sum over some nodes; differentiable."""
    angles = (torch.arange(nodes, dtype=torch.float64) + 0.5) * (math.pi / nodes)
    values = function((bound / 2) * (1.0 + torch.cos(angles)))
    orders = torch.arange(degree + 1, dtype=torch.float64)
    coefficients = (2.0 / nodes) * torch.cos(orders[:, None] * angles) @ values
    return torch.cat([coefficients[:1] / 2, coefficients[1:]])


def chebyshev_series(laplacian: Laplacian, u: Tensor, coefficients: Tensor, bound: float) -> Tensor:
    """``sum_k c_k T_k(2 L / bound - I) u``, of degree 1 at least: one product per degree."""
    coefficients = coefficients.to(u)
    if u.ndim == 2 and not coefficients.requires_grad and steps.multiplies_compiled(laplacian, u):
        return steps.chebyshev_series(laplacian, u, coefficients, bound)
    previous, current = u, (2.0 / bound) * laplacian(u) - u
    total = coefficients[0] * previous + coefficients[1] * current
    for coefficient in coefficients[2:]:
        previous, current = current, (4.0 / bound) * laplacian(current) - 2.0 * current - previous
        total = total + coefficient * current
    return total
