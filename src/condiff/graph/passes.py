"""Explicit diffusion layers of arrays by compiled loops, in blocks of columns: what large graphs are diffused with.

A layer written with operations on whole arrays reads and writes ``u`` five times and gathers rows that straddle lines
of the cache. Here a layer is one pass: up to 64 columns of a node are summed in registers, padded to whole lines, and
rows that will be needed are prefetched.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from condiff.kernels.threads import thread_count

# Columns that are diffused together: the most that a row's running sums may hold in registers.
_WIDEST, LANE = 64, 16


class Matrix(NamedTuple):
    """A square CSR matrix in the form that the loops take: int32 indices, contiguous arrays."""

    starts: NDArray[np.int32]
    columns: NDArray[np.int32]
    values: NDArray[Any]


def layered(matrix: Matrix, u: NDArray[Any], kept: NDArray[Any], strength: float, layers: int) -> NDArray[Any]:
    """``kept * u + strength * W u``, so many times, on as many threads as torch would take.

    Every row is summed by one thread in the order of its entries: the result does not depend on their number.

    Parameters
    ----------
    matrix, kept
        W, and one number for each node, in the precision of ``u``.
    u
        (n, c).
    strength, layers
        Strength of a layer, and their number.
    """
    out = np.empty(u.shape, u.dtype)
    with ThreadPoolExecutor(thread_count()) as pool:
        if layers == 1 and u.shape[1] <= _WIDEST and u.shape[1] % LANE == 0 and u.flags.c_contiguous:
            _run(pool, matrix, kept, strength, 1, [u, out])  # as it is: nothing is padded
            return out
        for first in range(0, u.shape[1], _WIDEST):
            block = u[:, first : first + _WIDEST]
            width = block.shape[1]
            first_buffer = padded(block)
            buffers = [first_buffer, np.zeros_like(first_buffer)]
            _run(pool, matrix, kept, strength, layers, buffers)
            out[:, first : first + width] = buffers[layers % 2][:, :width]
    return out


def padded(u: NDArray[Any]) -> NDArray[Any]:
    """The columns with zeros beside them, as many as make the rows whole lines of the cache."""
    out = np.zeros((u.shape[0], -(-u.shape[1] // LANE) * LANE), u.dtype)
    out[:, : u.shape[1]] = u
    return out


def _run(
    pool: ThreadPoolExecutor,
    matrix: Matrix,
    kept: NDArray[Any],
    strength: float,
    layers: int,
    buffers: list[NDArray[Any]],
) -> None:
    """All layers of one block of columns, from one buffer to the other and back."""
    from condiff.kernels.diffusion import euler_rows

    step = kept.dtype.type(strength)
    for layer in range(layers):
        source, target = (buffers[(layer + side) % 2] for side in (0, 1))
        by_parts(pool, matrix, euler_rows, kept, step, source, target)


def by_parts(pool: ThreadPoolExecutor, matrix: Matrix, kernel: Callable[..., None], *arguments: Any) -> None:
    """All rows of a product, some for each thread."""
    # More parts than threads: rows whose neighbours lie far apart take longer.
    shares = np.linspace(0, matrix.starts[-1], 8 * thread_count() + 1)
    bounds = np.searchsorted(matrix.starts, shares[1:-1]).tolist()
    parts = zip([0, *bounds], [*bounds, len(matrix.starts) - 1], strict=True)
    for _ in pool.map(partial(_rows, kernel, *matrix, *arguments), parts):
        pass


def _rows(kernel: Callable[..., None], *arguments: Any) -> None:
    *arrays, (first, last) = arguments
    kernel(first, last, *arrays)
