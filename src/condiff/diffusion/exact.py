"""The heat semigroup's action to working precision, without forming the exponential."""

from __future__ import annotations

import math

import numpy as np
import torch
from scipy.special import pdtrc
from torch import Tensor

from condiff.diffusion.solver import Solver
from condiff.graph import Laplacian


class Exact(Solver):
    r""":math:`e^{-t L} u` with :math:`t` = strength x layers, by shifted Taylor sums.

    With :math:`\mu = \max_i L_{ii}`, :math:`e^{-tL} = e^{-t\mu} e^{t(\mu I - L)}`. The matrix :math:`\mu I - L` has no
    negative entry and rows that sum to :math:`\mu`, so the sum loses nothing to cancellation, and what is left out
    after degree m is at most the tail :math:`P(N > m)` of a Poisson variable of mean :math:`t\mu`: below the rounding
    of the tensor's precision. Positive and stable for any strength, on directed graphs too. In double precision 58
    products for :math:`t\mu = 16` and 139 for 64; longer times are cut into steps.
    """

    def __call__(self, laplacian: Laplacian, u: Tensor, strength: float | Tensor, layers: int) -> Tensor:
        time = strength * layers
        shift = float(laplacian.diagonal.detach().max())
        reach = abs(float(torch.as_tensor(time).detach())) * shift
        if reach == 0.0:
            return u - time * laplacian(u) if isinstance(time, Tensor) else u
        kind = torch.finfo(u.dtype)
        # The sum grows to e^reach before it is damped, and must not overflow on the way.
        steps = math.ceil(reach / (0.7 * math.log(kind.max)))
        step = time / steps
        damping = torch.exp(-torch.as_tensor(step * shift, dtype=u.dtype, device=u.device))
        for _ in range(steps):
            term = u
            for order in range(1, _taylor_degree(reach / steps, kind.eps) + 1):
                term = (step / order) * (shift * term - laplacian(term))
                u = u + term
            u = damping * u
        return u


def _taylor_degree(reach: float, tolerance: float) -> int:
    """The smallest degree m with ``P(N > m) < tolerance`` for a Poisson variable N of mean ``reach``."""
    degrees = np.arange(1, 40 + math.ceil(reach + 12 * math.sqrt(reach)))
    return int(degrees[np.argmax(pdtrc(degrees, reach) < tolerance)])
