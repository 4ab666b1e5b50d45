"""The compiled loop of a diffusion with dropout before every layer, on 64 columns."""

from __future__ import annotations

from typing import Any

from condiff.kernels.compilation import compiled
from condiff.kernels.vectors import dropout, load, plus_scaled, store, zeros


@compiled("int32[1], int32[1], number[1], number[2], number[2], int64, uint64, int64")
def forward(starts: Any, columns: Any, values: Any, u: Any, scratch: Any, layers: int, key: int, least: int) -> None:
    """``layers`` times dropout, then the product with a CSR matrix; in place on ``u`` (nodes, 64), without scaling."""
    for layer in range(layers):
        for node in range(u.shape[0]):
            store(scratch, node, dropout(load(u, node), key, layer * u.shape[0] + node, least))
        _multiply(starts, columns, values, scratch, u)


@compiled("int32[1], int32[1], number[1], number[2], number[2], int64, uint64, int64")
def backward(starts: Any, columns: Any, values: Any, u: Any, scratch: Any, layers: int, key: int, least: int) -> None:
    """The transpose of :func:`forward` for a symmetric matrix."""
    for layer in range(layers - 1, -1, -1):
        _multiply(starts, columns, values, u, scratch)
        for node in range(u.shape[0]):
            store(u, node, dropout(load(scratch, node), key, layer * u.shape[0] + node, least))


@compiled()
def _multiply(starts: Any, columns: Any, values: Any, dense: Any, out: Any) -> None:
    for node in range(out.shape[0]):
        total = zeros(out)
        for entry in range(starts[node], starts[node + 1]):
            total = plus_scaled(total, values[entry], load(dense, columns[entry]))
        store(out, node, total)
