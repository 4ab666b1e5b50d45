"""Many explicit Euler layers in few products: their polynomial, truncated where the rest is negligible."""

from __future__ import annotations

import torch
from torch import Tensor

from condiff.diffusion.chebyshev import chebyshev_coefficients, chebyshev_series
from condiff.diffusion.euler import Euler
from condiff.diffusion.solver import Solver
from condiff.errors import InvalidInputError
from condiff.graph import Laplacian


class Power(Solver):
    r""":math:`(I - \sigma^2 L)^K u`, the paper's K layers, within a tolerance and with fewer products.

    The power is a polynomial of degree K. Its Chebyshev coefficients on :math:`[0, b]`, :math:`b = 2 \max_i L_{ii} \ge
    \lambda_{max}`, fall off fast beyond about :math:`\sqrt{K}`; those whose absolute values sum to less than
    ``tolerance`` are left out. Chebyshev polynomials are at most 1 there, so the sum bounds the error in the 2-norm
    relative to u: the tolerance holds for every u. Where nothing can be left out, the layers are run as they are.
    Symmetric graphs only; limits of the step are those of :class:`Euler`.

    Parameters
    ----------
    tolerance
        Largest error.
    """

    limited = True

    def __init__(self, tolerance: float = 1e-6) -> None:
        if not 0 < tolerance < 1:
            raise InvalidInputError(f"tolerance must lie between 0 and 1, not {tolerance}")
        self.tolerance = tolerance

    def __call__(self, laplacian: Laplacian, u: Tensor, strength: float | Tensor, layers: int) -> Tensor:
        if not laplacian.symmetric:
            raise InvalidInputError("the power solver needs a symmetric graph; use solver='euler' for a directed one")
        bound = 2.0 * float(laplacian.diagonal.detach().max())
        step = torch.as_tensor(strength, dtype=torch.float64).cpu()
        # A polynomial of degree K is known at K + 1 nodes.
        coefficients = chebyshev_coefficients(lambda x: (1.0 - step * x) ** layers, bound, layers, layers + 1)
        # tails[m] bounds what is lost if everything from degree m on is left out.
        tails = coefficients.detach().abs().flip(0).cumsum(0).flip(0)
        degree = max(1, int((tails >= self.tolerance).sum()) - 1)
        if bound == 0.0 or degree >= layers:
            return Euler()(laplacian, u, strength, layers)
        return chebyshev_series(laplacian, u, coefficients[: degree + 1], bound)
