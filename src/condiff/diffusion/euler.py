"""Explicit Euler: the paper's diffusion layers."""

from __future__ import annotations

from torch import Tensor

from condiff.diffusion.solver import Solver
from condiff.graph import Laplacian, SparseLaplacian
from condiff.graph.steps import euler_layers, runs_compiled


class Euler(Solver):
    r"""``layers`` explicit steps :math:`u^{k+1} = u^k - \sigma^2 L u^k`, so :math:`u^K = (I - \sigma^2 L)^K u^0`.

    First order in the strength. Stable for :math:`\sigma^2 \le 2 / \lambda_{max}(L)`; keeps values within the range of
    the initial ones, and so probabilities on the simplex, for :math:`\sigma^2 \le 1 / \max_i L_{ii}`.
    One product per layer; where no gradient is needed, large graphs are diffused by compiled loops.
    """

    limited = True

    def __call__(self, laplacian: Laplacian, u: Tensor, strength: float | Tensor, layers: int) -> Tensor:
        if runs_compiled(laplacian, u) and not isinstance(strength, Tensor):
            assert isinstance(laplacian, SparseLaplacian)
            return euler_layers(laplacian, u, strength, layers)
        for _ in range(layers):
            u = u - strength * laplacian(u)
        return u
