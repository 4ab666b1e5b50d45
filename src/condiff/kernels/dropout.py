"""The compiled loop of a diffusion with dropout before every layer, on 64 columns."""

from __future__ import annotations

from typing import Any

from condiff.kernels.vectors import compiled, kept, load, nothing, plus_scaled, store


@compiled
def forward(starts: Any, columns: Any, values: Any, u: Any, room: Any, layers: int, key: int, least: int) -> None:
    """``layers`` times dropout, then the product with a CSR matrix; in place on ``u`` (nodes, 64), without scaling."""
    for layer in range(layers):
        for node in range(u.shape[0]):
            store(room, node, kept(load(u, node), key, layer * u.shape[0] + node, least))
        _multiply(starts, columns, values, room, u)


@compiled
def backward(starts: Any, columns: Any, values: Any, u: Any, room: Any, layers: int, key: int, least: int) -> None:
    """The transpose of :func:`forward` for a symmetric matrix."""
    for layer in range(layers - 1, -1, -1):
        _multiply(starts, columns, values, u, room)
        for node in range(u.shape[0]):
            store(u, node, kept(load(room, node), key, layer * u.shape[0] + node, least))


@compiled
def _multiply(starts: Any, columns: Any, values: Any, dense: Any, out: Any) -> None:
    for node in range(out.shape[0]):
        total = nothing(out)
        for entry in range(starts[node], starts[node + 1]):
            total = plus_scaled(total, values[entry], load(dense, columns[entry]))
        store(out, node, total)
