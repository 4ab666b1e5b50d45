"""Explicit diffusion layers by compiled loops, in blocks of columns: what large graphs are diffused with.

A layer written with torch's operations reads and writes ``u`` five times and gathers rows that straddle lines of the
cache. Here a layer is one pass: up to 64 columns of a node are summed in registers, padded to whole lines, and rows
that will be needed are prefetched.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeGuard

import numpy as np
import torch
from torch import Tensor

from condiff import kernels
from condiff.graph.laplacian import Laplacian, SparseLaplacian

#: From this many nodes on the compiled loops pay off; below, everything fits the caches and torch is fast enough.
COMPILED_FROM = 5_000
# The same for a single product, and the fewest columns that fill enough of a lane.
_PRODUCT_FROM, _NARROWEST = 20_000, 8
# Columns that are diffused together: the most that a row's running sums may hold in registers.
_WIDEST, _LANE = 64, 16


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
    u, factors = u.detach(), kept.numpy()
    out = torch.empty_like(u, memory_format=torch.contiguous_format)
    with ThreadPoolExecutor(torch.get_num_threads()) as pool:
        if layers == 1 and u.shape[1] <= _WIDEST and u.shape[1] % _LANE == 0 and u.is_contiguous():
            _run(pool, operator, factors, strength, 1, [u, out])  # as it is: nothing is padded
            return out
        for first in range(0, u.shape[1], _WIDEST):
            block = u[:, first : first + _WIDEST]
            width = block.shape[1]
            buffers = [torch.zeros(u.shape[0], -(-width // _LANE) * _LANE, dtype=u.dtype) for _ in range(2)]
            buffers[0][:, :width] = block
            _run(pool, operator, factors, strength, layers, buffers)
            out[:, first : first + width] = buffers[layers % 2][:, :width]
    return out


def chebyshev_series(operator: SparseLaplacian, u: Tensor, coefficients: Tensor, bound: float) -> Tensor:
    r""":math:`\sum_k c_k T_k(2 L / b - I) u` of degree 1 at least: each degree is one pass over ``u`` and the sum."""
    from condiff.kernels.diffusion import chebyshev_rows

    kind = operator.weights.detach().numpy().dtype.type
    width = -(-u.shape[1] // _LANE) * _LANE
    before = torch.zeros(u.shape[0], width, dtype=u.dtype)
    before[:, : u.shape[1]] = u.detach()
    with ThreadPoolExecutor(torch.get_num_threads()) as pool:
        now = (2.0 / bound) * product(operator, before) - before
        total = coefficients[0] * before + coefficients[1] * now
        kept = ((4.0 / bound) * operator.degree - 2.0).numpy()
        for share in coefficients[2:].tolist():
            factors = kept, kind(-4.0 / bound), kind(share)
            _share(pool, operator, chebyshev_rows, *factors, now.numpy(), before.numpy(), total.numpy())
            before, now = now, before
    return total[:, : u.shape[1]]


def _run(
    pool: ThreadPoolExecutor,
    operator: SparseLaplacian,
    kept: np.ndarray[tuple[int], np.dtype[np.floating]],
    strength: float,
    layers: int,
    buffers: list[Tensor],
) -> None:
    """All layers of one block of columns, from one buffer to the other and back."""
    from condiff.kernels.diffusion import euler_rows

    step = kept.dtype.type(strength)
    for layer in range(layers):
        source, target = (buffers[(layer + side) % 2].numpy() for side in (0, 1))
        _share(pool, operator, euler_rows, kept, step, source, target)


def _share(pool: ThreadPoolExecutor, operator: SparseLaplacian, kernel: Callable[..., None], *arguments: Any) -> None:
    """All rows of a product, some for each thread."""
    starts, columns, weights = (
        each.detach().numpy() for each in (operator.crow_indices, operator.col_indices, operator.weights)
    )
    # More parts than threads: rows whose neighbours lie far apart take longer.
    shares = np.linspace(0, starts[-1], 8 * torch.get_num_threads() + 1)
    bounds = np.searchsorted(starts, shares[1:-1]).tolist()
    parts = zip([0, *bounds], [*bounds, operator.n_nodes], strict=True)
    for _ in pool.map(partial(_rows, kernel, starts, columns, weights, *arguments), parts):
        pass


def _rows(kernel: Callable[..., None], *arguments: Any) -> None:
    *arrays, (first, last) = arguments
    kernel(first, last, *arrays)
