"""Implicit Euler by conjugate gradients, with the gradient by one adjoint solve."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import torch
from torch import Tensor

from condiff.diffusion.solver import Solver
from condiff.errors import InvalidInputError
from condiff.graph import Laplacian


class Implicit(Solver):
    r"""``layers`` implicit steps :math:`(I + \sigma^2 L) u^{k+1} = u^k`.

    First order in the strength, unconditionally stable, and positive for any strength, because
    :math:`(I + \sigma^2 L)^{-1}` has no negative entry and rows that sum to one. Each step is solved for all columns at
    once by conjugate gradients with a diagonal preconditioner. The backward pass solves with the same matrix for the
    adjoint instead of unrolling the iterations, so its memory does not depend on their number. Symmetric graphs only.

    Parameters
    ----------
    tolerance
        Relative residual at which a column is done; a hundred times the rounding of its precision by default.
    max_iterations
        Give up, with a warning, after this many products per step.
    """

    def __init__(self, tolerance: float | None = None, max_iterations: int = 1000) -> None:
        self.tolerance = tolerance
        self.max_iterations = max_iterations

    def __call__(self, laplacian: Laplacian, u: Tensor, strength: float | Tensor, layers: int) -> Tensor:
        if not laplacian.symmetric:
            raise InvalidInputError(
                "the implicit solver needs a symmetric graph; use solver='exact' for a directed one"
            )
        if u.ndim == 1:
            return self(laplacian, u[:, None], strength, layers)[:, 0]
        for _ in range(layers):
            u = self._step(laplacian, u, strength)
        return u

    def _step(self, laplacian: Laplacian, u: Tensor, strength: float | Tensor) -> Tensor:
        fixed = torch.as_tensor(strength, dtype=u.dtype, device=u.device).detach()
        preconditioner = 1.0 / (1.0 + fixed * laplacian.diagonal.detach()[..., None])

        def solve(right: Tensor) -> Tensor:
            with torch.no_grad():
                return self._conjugate_gradients(lambda x: x + fixed * laplacian(x), right, preconditioner)

        solution = solve(u.detach())
        # The residual is zero in value; its gradient, sent through the inverse by the hook, is that of the solution.
        residual = u - (solution + strength * laplacian(solution))
        if not residual.requires_grad:
            return solution
        residual.register_hook(lambda gradient: None if gradient is None else solve(gradient))
        return solution + (residual - residual.detach())

    def _conjugate_gradients(self, matrix: Callable[[Tensor], Tensor], right: Tensor, preconditioner: Tensor) -> Tensor:
        tolerance = self.tolerance or 100 * torch.finfo(right.dtype).eps
        goal = (tolerance * right.norm(dim=-2, keepdim=True)).clamp_min(torch.finfo(right.dtype).tiny)
        x = preconditioner * right
        residual = right - matrix(x)
        scaled = preconditioner * residual
        direction = scaled
        product = (residual * scaled).sum(-2, keepdim=True)
        for _ in range(self.max_iterations):
            active = residual.norm(dim=-2, keepdim=True) > goal
            if not bool(active.any()):
                return x
            image = matrix(direction)
            curvature = (direction * image).sum(-2, keepdim=True)
            # A column that is done must stand still: its curvature may be zero.
            length = torch.where(active, product / torch.where(active, curvature, 1.0), 0.0)
            x = x + length * direction
            residual = residual - length * image
            scaled = preconditioner * residual
            following = (residual * scaled).sum(-2, keepdim=True)
            direction = scaled + torch.where(active, following / torch.where(active, product, 1.0), 0.0) * direction
            product = following
        worst = float((residual.norm(dim=-2) / right.norm(dim=-2).clamp_min(1e-30)).max())
        warnings.warn(
            f"conjugate gradients stopped after {self.max_iterations} iterations at the relative residual {worst:.1e}; "
            "raise max_iterations or tolerance",
            RuntimeWarning,
            stacklevel=2,
        )
        return x
