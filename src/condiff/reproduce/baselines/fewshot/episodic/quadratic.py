r"""A differentiable solver of small quadratic programs with upper bounds and equalities, for many at once.

.. math:: \min_z \tfrac12 z^\top G z + e^\top z \quad \text{with} \quad z \le h, \quad A z = b
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

# Iterations at most, and the duality gap and residuals, relative to the data, at which they end.
_MOST, _CLOSE = 50, 1e-12
# How much of the way to the border a step goes at most.
_SHORT = 0.99


def solve_bounded(quadratic: Tensor, linear: Tensor, bound: Tensor, equality: Tensor, value: Tensor) -> Tensor:
    """The minimisers, (programs, n), in double precision.

    By Mehrotra's predictor and corrector steps (1992). Gradients with respect to ``quadratic`` and ``linear`` are by
    implicit differentiation of the conditions of optimality, as Amos and Kolter (2017) do it; the others are taken as
    constants.

    Parameters
    ----------
    quadratic, linear
        G, (programs, n, n), positive definite on what the equalities leave free, and e, (programs, n).
    bound
        h, (programs, n).
    equality, value
        A, (m, n), of full rank and the same for all programs, and b, (programs, m).
    """
    wide = (part.double() for part in (quadratic, linear, bound, equality, value))
    found: Tensor = _Solver.apply(*wide)  # type: ignore[no-untyped-call]
    return found


class _Solver(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, quadratic: Tensor, linear: Tensor, bound: Tensor, equality: Tensor, value: Tensor) -> Tensor:
        z, multipliers, slack = _interior_point(quadratic, linear, bound, equality, value)
        ctx.save_for_backward(quadratic, equality, z, multipliers / slack)
        return z

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        quadratic, equality, z, barrier = ctx.saved_tensors
        zero = slope.new_zeros(len(slope), len(equality))
        moved, _ = _newton(_factor(quadratic, barrier, equality), equality, -slope, zero)
        outer = moved[:, :, None] * z[:, None, :]
        return (outer + outer.mT) / 2, moved, None, None, None


def _interior_point(
    quadratic: Tensor, linear: Tensor, bound: Tensor, equality: Tensor, value: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Minimisers, multipliers of the bounds, and what is left below the bounds."""
    z = bound - 1.0
    slack, multipliers = torch.ones_like(bound), torch.ones_like(bound)
    prices = torch.zeros_like(value)
    size = 1.0 + max(float(linear.abs().max()), float(bound.abs().max()))
    for _ in range(_MOST):
        dual = (quadratic @ z[..., None])[..., 0] + linear + multipliers + prices @ equality
        primal, over = z @ equality.mT - value, z + slack - bound
        gap = (slack * multipliers).mean(-1, keepdim=True)
        if max(float(each.abs().max()) for each in (dual, primal, over, gap)) < _CLOSE * size:
            break
        factors = _factor(quadratic, multipliers / slack, equality)

        def step(
            products: Tensor,
            factors: tuple[Tensor, Tensor] = factors,
            dual: Tensor = dual,
            primal: Tensor = primal,
            over: Tensor = over,
            slack: Tensor = slack,
            multipliers: Tensor = multipliers,
        ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
            """The Newton step towards ``slack * multipliers = products``."""
            wanted = (products - slack * multipliers + multipliers * over) / slack
            moved, priced = _newton(factors, equality, -dual - wanted, -primal)
            fallen = -over - moved
            return moved, priced, fallen, (products - slack * multipliers - multipliers * fallen) / slack

        _, _, fallen, risen = step(torch.zeros_like(slack))
        far = _room(slack, fallen, multipliers, risen)
        ahead = ((slack + far * fallen) * (multipliers + far * risen)).mean(-1, keepdim=True)
        centre = gap * (ahead / gap) ** 3
        moved, priced, fallen, risen = step(centre - fallen * risen)
        far = _SHORT * _room(slack, fallen, multipliers, risen)
        z, prices = z + far * moved, prices + far * priced
        slack, multipliers = slack + far * fallen, multipliers + far * risen
    return z, multipliers, slack


def _factor(quadratic: Tensor, barrier: Tensor, equality: Tensor) -> tuple[Tensor, Tensor]:
    """Cholesky factors of H = G + diag(barrier) and of A H^-1 A^T."""
    lower = torch.linalg.cholesky(quadratic + torch.diag_embed(barrier))
    inner = equality @ torch.cholesky_solve(equality.mT.expand(len(lower), -1, -1), lower)
    return lower, torch.linalg.cholesky(inner)


def _newton(factors: tuple[Tensor, Tensor], equality: Tensor, top: Tensor, bottom: Tensor) -> tuple[Tensor, Tensor]:
    """The solution of H x + A^T y = top, A x = bottom."""
    lower, inner = factors
    free = torch.cholesky_solve(top[..., None], lower)[..., 0]
    priced = torch.cholesky_solve((free @ equality.mT - bottom)[..., None], inner)[..., 0]
    held = torch.cholesky_solve((priced @ equality)[..., None], lower)[..., 0]
    return free - held, priced


def _room(slack: Tensor, fallen: Tensor, multipliers: Tensor, risen: Tensor) -> Tensor:
    """The largest share of a step, up to 1, that leaves slacks and multipliers positive: (programs, 1)."""
    values, moves = torch.cat([slack, multipliers], dim=-1), torch.cat([fallen, risen], dim=-1)
    shares = torch.where(moves < 0, -values / moves, torch.inf)
    return shares.amin(-1, keepdim=True).clamp(max=1.0)
