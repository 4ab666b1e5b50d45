"""The compiled loops of the node engine: a block is 64 hidden units, and its weights are rows of 64 numbers.

The rows of a block's array are, in this order: one for each feature (the weights that leave it), the units' biases, and
one for each class (the weights that read the units out). Rows beyond these are updated like the others.
"""

from __future__ import annotations

from typing import Any

from condiff.kernels.compilation import compiled
from condiff.kernels.vectors import adam, dot, load, plus_scaled, relu, store, where_positive, zeros


@compiled()
def n_features_of(weights: Any, n_classes: int) -> int:
    """The number of features of a block: its rows without biases, read-out and the last row."""
    return int(weights.shape[0] - n_classes - 2)


@compiled("int64, int64, int32[1], int32[1], number[1], number[3], number[3], number[3]")
def forward(
    first: int, last: int, starts: Any, columns: Any, values: Any, weights: Any, active: Any, parts: Any
) -> None:
    """Hidden units and outputs of some blocks.

    ``starts``, ``columns`` and ``values`` are the inputs in CSR form, ``weights`` is (blocks, rows, 64), ``active``
    (blocks, nodes, 64) receives the hidden units, and ``parts`` (blocks, classes, nodes) what a block adds to the
    outputs.
    """
    n_classes, n_nodes = parts.shape[1], parts.shape[2]
    for block in range(first, last):
        here, units = weights[block], active[block]
        n_features = n_features_of(here, n_classes)
        biases = load(here, n_features)
        for node in range(n_nodes):
            unit = biases
            for entry in range(starts[node], starts[node + 1]):
                unit = plus_scaled(unit, values[entry], load(here, columns[entry]))
            unit = relu(unit)
            store(units, node, unit)
            for class_ in range(n_classes):
                parts[block, class_, node] = dot(unit, load(here, n_features + 1 + class_))


@compiled(
    "int64, int64, int32[1], int32[1], number[1], int64[1], int64[2], int32[1], number[1], number[2], "
    "number[3], number[2], number[2], number[3], number[3], number[3], number[3], number[3], number[3], "
    "float64, float64, float64"
)
def step(
    first: int,
    last: int,
    starts: Any,
    columns: Any,
    values: Any,
    tile_nodes: Any,
    tile_starts: Any,
    tile_columns: Any,
    tile_values: Any,
    to_z: Any,
    gradients: Any,
    unit_gradients: Any,
    gradient: Any,
    active: Any,
    parts: Any,
    weights: Any,
    new: Any,
    means: Any,
    squares: Any,
    rate: float,
    root: float,
    decay: float,
) -> None:
    """Gradients and Adam's update of some blocks, and their next forward pass while the new weights are in cache.

    The transposed inputs come in tiles of nodes: tile t has those from ``tile_nodes[t]`` on, and feature f's entries in
    it stand at ``tile_starts[t, f]`` to ``tile_starts[t, f + 1]``, their nodes counted from the tile's first. ``to_z``
    is (nodes, classes); ``gradients`` (blocks, classes + 1, 64) holds what the shortcut adds to the gradient of the
    read-out, and the gradient of the last row. ``unit_gradients`` (tile, 64) and ``gradient`` (rows, 64) are scratch.
    """
    n_classes = to_z.shape[1]
    for block in range(first, last):
        here, units = weights[block], active[block]
        n_features = n_features_of(here, n_classes)
        for feature in range(n_features):
            store(gradient, feature, zeros(gradient))
        for row in range(n_classes + 1):
            store(gradient, n_features + 1 + row, load(gradients[block], row))
        to_biases = zeros(gradient)
        for tile in range(tile_nodes.shape[0] - 1):
            start = tile_nodes[tile]
            for node in range(start, tile_nodes[tile + 1]):
                unit = load(units, node)
                unit_gradient = zeros(gradient)
                for class_ in range(n_classes):
                    row, back = n_features + 1 + class_, to_z[node, class_]
                    unit_gradient = plus_scaled(unit_gradient, back, load(here, row))
                    store(gradient, row, plus_scaled(load(gradient, row), back, unit))
                unit_gradient = where_positive(unit_gradient, unit)
                to_biases = plus_scaled(to_biases, 1.0, unit_gradient)
                store(unit_gradients, node - start, unit_gradient)
            for feature in range(n_features):
                total = load(gradient, feature)
                for entry in range(tile_starts[tile, feature], tile_starts[tile, feature + 1]):
                    total = plus_scaled(total, tile_values[entry], load(unit_gradients, tile_columns[entry]))
                store(gradient, feature, total)
        store(gradient, n_features, to_biases)
        for row in range(here.shape[0]):
            moved, mean, square = adam(
                load(here, row),
                load(gradient, row),
                load(means[block], row),
                load(squares[block], row),
                rate,
                root,
                decay,
            )
            store(new[block], row, moved)
            store(means[block], row, mean)
            store(squares[block], row, square)
        forward(block, block + 1, starts, columns, values, new, active, parts)


@compiled("int64, int64, int32[1], int32[1], number[1], number[2], number[2]")
def narrow_product(first: int, last: int, starts: Any, columns: Any, values: Any, dense: Any, out: Any) -> None:
    """Some rows of a CSR matrix times a dense matrix of few columns."""
    for row in range(first, last):
        for column in range(dense.shape[1]):
            out[row, column] = 0.0
        for entry in range(starts[row], starts[row + 1]):
            for column in range(dense.shape[1]):
                out[row, column] += values[entry] * dense[columns[entry], column]
