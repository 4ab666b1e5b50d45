"""Products with the Laplacian of a large graph by compiled loops (:mod:`condiff.graph.passes`), for tensors."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TypeGuard

import torch
from torch import Tensor

from condiff import kernels
from condiff.graph.laplacians import Laplacian, SparseLaplacian
from condiff.graph.passes import LANE, Matrix, by_parts, layered
from condiff.kernels.threads import thread_count

#: From this many nodes on the compiled loops pay off; below, everything fits the caches and torch is fast enough.
COMPILED_FROM = 5_000
# The same for a single product, and the fewest columns that fill enough of a lane.
_PRODUCT_FROM, _NARROWEST = 20_000, 8


def runs_compiled(operator: Laplacian, u: Tensor) -> bool:
    """Whether explicit layers can and should take the compiled loops, which leave no trace for autograd."""
    return (
        isinstance(operator, SparseLaplacian)
        and operator.n_nodes >= COMPILED_FROM
        and operator.device.type == u.device.type == "cpu"
        and operator.dtype == u.dtype
        and u.dtype in (torch.float32, torch.float64)
        and not (torch.is_grad_enabled() and (u.requires_grad or operator.weights.requires_grad))
        and kernels.available()
    )


def multiplies_compiled(operator: Laplacian, u: Tensor) -> TypeGuard[SparseLaplacian]:
    """Whether products with a matrix, one at a time, should take the compiled loops."""
    return operator.n_nodes > _PRODUCT_FROM and u.shape[1] >= _NARROWEST and runs_compiled(operator, u)


def euler_layers(operator: SparseLaplacian, u: Tensor, strength: float, layers: int) -> Tensor:
    r"""``layers`` explicit steps :math:`u - \sigma^2 L u`, on as many threads as torch has.

    Every row is summed by one thread in the order of its entries: the result does not depend on their number.

    Parameters
    ----------
    operator
        The Laplacian, on the CPU and in the precision of ``u``.
    u
        (n, c), or (..., n, c) for a batch, which is treated as more columns.
    strength, layers
        Strength of a layer, and their number.
    """
    if u.ndim != 2:
        columns = u.movedim(-2, 0) if u.ndim > 1 else u[:, None]
        flat = euler_layers(operator, columns.reshape(operator.n_nodes, -1), strength, layers)
        return flat.reshape(columns.shape).movedim(0, -2) if u.ndim > 1 else flat[:, 0]
    if layers == 0:
        return u
    return _layers(operator, u, (1.0 - strength * operator.degree.double()).to(u.dtype), strength, layers)


def product(operator: SparseLaplacian, u: Tensor) -> Tensor:
    """``L u`` for a matrix ``u``, by the same loops."""
    return _layers(operator, u, operator.degree, -1.0, 1)


def combination(operator: SparseLaplacian, u: Tensor, kept: Tensor, scale: float) -> Tensor:
    """``kept * u + scale * W u`` for a matrix ``u``, with one number of ``kept`` for each node."""
    if multiplies_compiled(operator, u):
        return _layers(operator, u, kept, scale, 1)
    return kept[:, None] * u + scale * operator.pattern.product(operator.weights.detach(), u)


def _layers(operator: SparseLaplacian, u: Tensor, kept: Tensor, strength: float, layers: int) -> Tensor:
    """``kept * u + strength * W u``, so many times."""
    return torch.from_numpy(layered(_matrix(operator), u.detach().numpy(), kept.numpy(), strength, layers))


def _matrix(operator: SparseLaplacian) -> Matrix:
    return Matrix(*(each.detach().numpy() for each in (operator.crow_indices, operator.col_indices, operator.weights)))


def chebyshev_series(operator: SparseLaplacian, u: Tensor, coefficients: Tensor, bound: float) -> Tensor:
    r""":math:`\sum_k c_k T_k(2 L / b - I) u` of degree 1 at least: each degree is one pass over ``u`` and the sum."""
    width = -(-u.shape[1] // LANE) * LANE
    before = torch.zeros(u.shape[0], width, dtype=u.dtype)
    before[:, : u.shape[1]] = u.detach()
    now = (2.0 / bound) * product(operator, before) - before
    kept = (4.0 / bound) * operator.degree - 2.0
    return chebyshev_sum(operator, before, now, coefficients, kept, -4.0 / bound)[:, : u.shape[1]]


def chebyshev_sum(
    operator: SparseLaplacian, before: Tensor, now: Tensor, coefficients: Tensor, kept: Tensor, scale: float
) -> Tensor:
    r""":math:`\sum_k c_k u_k` with :math:`u_{k+1}` = ``kept`` :math:`u_k` + ``scale`` :math:`W u_k - u_{k-1}`.

    Parameters
    ----------
    operator
        Whose weights W are.
    before, now
        :math:`u_0` and :math:`u_1`, whole lanes of columns; both are overwritten.
    coefficients
        Two at least.
    kept, scale
        One number for each node, and one for the weights.
    """
    total = coefficients[0] * before + coefficients[1] * now
    if not multiplies_compiled(operator, now):
        for coefficient in coefficients[2:]:
            before, now = now, combination(operator, now, kept, scale) - before
            total += coefficient * now
        return total
    from condiff.kernels.diffusion import chebyshev_rows

    kind = operator.weights.detach().numpy().dtype.type
    with ThreadPoolExecutor(thread_count()) as pool:
        for share in coefficients[2:].tolist():
            factors = kept.numpy(), kind(scale), kind(share)
            by_parts(pool, _matrix(operator), chebyshev_rows, *factors, now.numpy(), before.numpy(), total.numpy())
            before, now = now, before
    return total
