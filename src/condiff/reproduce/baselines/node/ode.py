"""Differential equations for the baselines that have one, solved by torchdiffeq."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from condiff.errors import InvalidInputError, MissingDependencyError
from condiff.graph.sparse import Pattern, SparseMatrix


class Solver:
    """An integrator of torchdiffeq with its tolerances; autograd goes through its steps.

    Parameters
    ----------
    method
        ``dopri5``, which adapts its step, or ``rk4`` or ``euler``, whose steps are given.
    relative, absolute
        Tolerances of the error of a step of ``dopri5``.
    step
        Length of the steps of ``rk4`` and ``euler``, of which the last may be shorter; by default one for all of the
        time.

    Attributes
    ----------
    evaluations
        How often the last solution evaluated the vector field.
    """

    def __init__(self, method: str, relative: float = 1e-7, absolute: float = 1e-9, step: float | None = None) -> None:
        try:
            from torchdiffeq import odeint
        except ImportError as error:
            raise MissingDependencyError("this method needs torchdiffeq: pip install 'condiff[baselines]'") from error
        if method not in ("dopri5", "rk4", "euler"):
            raise InvalidInputError(f"solver must be 'dopri5', 'rk4' or 'euler', not {method!r}")
        if step is not None and step <= 0:
            raise InvalidInputError(f"the step of a solver must be positive, not {step}")
        self._integrate = odeint
        self.method, self.relative, self.absolute, self.step = method, relative, absolute, step
        self.evaluations = 0

    def __call__(self, field: Callable[[Tensor], Tensor], start: Tensor, time: float) -> Tensor:
        """The state at ``time`` of ``d state / dt = field(state)`` from ``start`` at zero."""
        self.evaluations = 0
        if time == 0:
            return start

        def counted(_: Tensor, state: Tensor) -> Tensor:
            self.evaluations += 1
            return field(state)

        times = torch.tensor([0.0, time], dtype=start.dtype)
        options = {} if self.step is None else {"step_size": self.step}
        states: Tensor = self._integrate(
            counted, start, times, rtol=self.relative, atol=self.absolute, method=self.method, options=options
        )
        return states[-1]


def linear_weights(recurrence: Tensor, time: float, solver: Solver) -> tuple[Tensor, Tensor]:
    r"""Weights that write the solution of a linear equation with constant coefficients as a sum of fixed terms.

    In :math:`h' = L h + s` with a fixed matrix :math:`L` and polynomials :math:`P_k` with :math:`P_0 = 1` and
    :math:`z P_j(z) = \sum_k M_{kj} P_k(z)`, the solution is
    :math:`h(t) = \sum_k a_k(t) P_k(L) h(0) + \sum_k b_k(t) P_k(L) s`, where :math:`a' = M a` from the first unit vector
    :math:`e` and :math:`b' = M b + e` from zero. That small equation is solved here instead of the large one: its
    vector field costs next to nothing and does not depend on features or graph.

    Parameters
    ----------
    recurrence
        The matrix M, (terms, terms), in float64.
    time
        The time t.
    solver
        What solves the small equation.

    Returns
    -------
    tuple
        The vectors a and b, without the end that changes a sum by less than a hundredth of the solver's absolute
        tolerance, or less than float32 can show.
    """
    terms = recurrence.shape[0]
    start, inflow = torch.zeros(2, 2, terms, dtype=recurrence.dtype)
    start[0, 0] = inflow[1, 0] = 1.0
    transposed = recurrence.T.contiguous()
    weights = solver(lambda state: torch.addmm(inflow, state, transposed), start, time)
    negligible = max(solver.absolute / 100, torch.finfo(torch.float32).eps / 2)
    ends = weights.abs().flip(-1).cumsum(-1).flip(-1).amax(0)
    kept = max(int((ends > negligible).sum()), 2)
    return weights[0, :kept], weights[1, :kept]


def power_sum(matrix: SparseMatrix, x: Tensor, start: Tensor, source: Tensor) -> Tensor:
    """``sum_k (start_k + source_k) A^k x``, differentiable in all; but no gradient reaches x through ``source``."""
    total: Tensor = _PowerSum.apply(matrix.values, x, start, source, matrix.pattern)  # type: ignore[no-untyped-call]
    return total


def chebyshev_sum(matrix: SparseMatrix, rates: Tensor, x: Tensor, start: Tensor, source: Tensor) -> Tensor:
    """``sum_k (start_k + source_k) T_k(C) x`` with ``C = I + diag(rates)(S - I)``.

    The matrix S must be symmetric with its whole diagonal stored. Differentiable in ``rates``, which is (n, 1) and
    positive, and in ``x``, but no gradient reaches ``x`` through ``source``.
    """
    total: Tensor = _ChebyshevSum.apply(rates, x, start, source, matrix)  # type: ignore[no-untyped-call]
    return total


class _PowerSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, x: Tensor, start: Tensor, source: Tensor, pattern: Pattern) -> Tensor:
        weights: list[float] = (start + source).tolist()
        powers = [x]
        total = x * weights[0]
        for weight in weights[1:]:
            powers.append(pattern.product(values, powers[-1]))
            total.add_(powers[-1], alpha=weight)
        ctx.pattern = pattern
        ctx.save_for_backward(values, start, source, *powers)
        return total

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, None]:
        values, start, source, *powers = ctx.saved_tensors
        gradient = gradient.contiguous()
        to_weights = torch.stack([torch.vdot(gradient.flatten(), power.flatten()) for power in powers])
        crow, col, order = ctx.pattern.mirror
        transposed = _csr(Pattern(crow, col, ctx.pattern.shape[0]), values.index_select(0, order))
        for_x, for_values = start.tolist(), (start + source).tolist()
        to_values = torch.zeros_like(values)
        # Horner's rule from the highest power down, with the weights of each kind.
        to_x, adjoint = gradient * for_x[-1], gradient * for_values[-1]
        for k in range(len(powers) - 2, -1, -1):
            to_values.add_(ctx.pattern.outer(adjoint, powers[k]))
            if k:
                adjoint = torch.addmm(gradient, transposed, adjoint, beta=for_values[k])
            to_x = torch.addmm(gradient, transposed, to_x, beta=for_x[k])
        return to_values, to_x, to_weights, to_weights, None


class _ChebyshevSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rates: Tensor, x: Tensor, start: Tensor, source: Tensor, matrix: SparseMatrix) -> Tensor:
        weights: list[float] = (start + source).tolist()
        stepped = _csr(matrix.pattern, _lazy(matrix, rates, matrix.pattern.rows))
        terms = [x, stepped @ x]
        total = torch.add(x * weights[0], terms[1], alpha=weights[1])
        for weight in weights[2:]:
            terms.append(torch.addmm(terms[-2], stepped, terms[-1], beta=-1, alpha=2))
            total.add_(terms[-1], alpha=weight)
        ctx.matrix = matrix
        ctx.save_for_backward(rates, start, source, *terms)
        return total

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        rates, start, source, *terms = ctx.saved_tensors
        pattern, width = ctx.matrix.pattern, gradient.shape[1]
        transposed = _csr(pattern, _lazy(ctx.matrix, rates, pattern.columns))
        # The adjoints of the weights of each kind stand side by side, so that one product serves both.
        pairs = torch.stack((start + source, start), -1).repeat_interleave(width, 1)
        gradients = gradient.repeat(1, 2)
        to_rates = torch.zeros_like(rates)
        after, now = torch.zeros_like(gradients), gradients * pairs[-1]
        for k in range(len(terms) - 2, -1, -1):
            # diag(rates)(S - I) T_k x, of which the recurrence of the terms holds the double.
            flow = terms[k + 1] - terms[k] if k == 0 else (terms[k + 1] + terms[k - 1]).sub_(terms[k], alpha=2)
            to_rates += flow.mul_(now[:, :width]).sum(-1, keepdim=True)
            step = torch.addmm(after, transposed, now, beta=-1, alpha=2 if k else 1)
            after, now = now, step.addcmul_(gradients, pairs[k])
        return to_rates.div_(rates), now[:, width:], None, None, None


def _lazy(matrix: SparseMatrix, rates: Tensor, nodes: Tensor) -> Tensor:
    """The entries of ``I + diag(rates)(S - I)``, or of its transpose if the rates of the columns are taken."""
    values = matrix.values * rates.flatten().index_select(0, nodes)
    return torch.where(matrix.pattern.rows == matrix.pattern.columns, values + 1 - rates.flatten()[nodes], values)


def _csr(pattern: Pattern, values: Tensor) -> Tensor:
    return torch.sparse_csr_tensor(
        pattern.crow_indices, pattern.col_indices, values, pattern.shape, check_invariants=False
    )
