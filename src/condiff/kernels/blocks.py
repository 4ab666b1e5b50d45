"""The compiled loops of the node engine: a block is 64 hidden units, and its weights are rows of 64 numbers.

The rows of a block's array are, in this order: one for each feature (the weights that leave it), the units' biases, and
one for each class (the weights that read the units out). Rows beyond these are updated like the others.
"""

from __future__ import annotations

from typing import Any

from condiff.kernels.compilation import compiled
from condiff.kernels.vectors import (
    LANE,
    adam,
    dot,
    load,
    load_lane,
    plus,
    plus_scaled,
    relu,
    scaled,
    store,
    store_lane,
    where_positive,
    zeros,
    zeros_lane,
)

#: Nodes whose units stay in the first-level cache between two passes over them.
_AT_ONCE = 64


@compiled()
def n_features_of(weights: Any, n_classes: int) -> int:
    """The number of features of a block: its rows without biases, read-out and the last row."""
    return int(weights.shape[0] - n_classes - 2)


@compiled()
def _sum_of_rows(rows: Any) -> Any:
    """The sum of all rows, for what it does to the cache.

    Read in order they come quickly, and are there when words point to them in any order.
    """
    total = zeros(rows)
    for row in range(rows.shape[0]):
        total = plus_scaled(total, 1.0, load(rows, row))
    return total


@compiled("int64, int64, int32[1], int32[1], number[1], number[3], number[3], number[3]")
def forward(
    first: int, last: int, starts: Any, columns: Any, values: Any, weights: Any, active: Any, parts: Any
) -> None:
    """Hidden units and outputs of some blocks.

    ``starts``, ``columns`` and ``values`` are the inputs in CSR form, ``weights`` is (blocks, rows, 64), ``active``
    (blocks, nodes, 64) receives the hidden units, and ``parts`` (blocks, classes, nodes) what a block adds to the
    outputs. The units of some nodes come first and what they give to the outputs then: the processor loads the weights
    of the next node ahead while it adds those of this one, and has no room for that beside the sums of a read-out.
    """
    n_classes, n_nodes = parts.shape[1], parts.shape[2]
    for block in range(first, last):
        here, units = weights[block], active[block]
        n_features = n_features_of(here, n_classes)
        biases = load(here, n_features)
        store(units, 0, _sum_of_rows(here))  # overwritten below; unused, it would not be computed
        for start in range(0, n_nodes, _AT_ONCE):
            stop = min(start + _AT_ONCE, n_nodes)
            for node in range(start, stop):
                unit = biases
                for entry in range(starts[node], starts[node + 1]):
                    unit = plus_scaled(unit, values[entry], load(here, columns[entry]))
                store(units, node, relu(unit))
            for class_ in range(n_classes):
                weight = load(here, n_features + 1 + class_)
                for node in range(start, stop):
                    parts[block, class_, node] = dot(load(units, node), weight)


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
            first_node, last_node = tile_nodes[tile], tile_nodes[tile + 1]
            for start in range(first_node, last_node, _AT_ONCE):
                stop = min(start + _AT_ONCE, last_node)
                for node in range(start, stop):
                    unit_gradient = zeros(gradient)
                    for class_ in range(n_classes):
                        unit_gradient = plus_scaled(
                            unit_gradient, to_z[node, class_], load(here, n_features + 1 + class_)
                        )
                    unit_gradient = where_positive(unit_gradient, load(units, node))
                    to_biases = plus_scaled(to_biases, 1.0, unit_gradient)
                    store(unit_gradients, node - first_node, unit_gradient)
                for class_ in range(n_classes):
                    total = load(gradient, n_features + 1 + class_)
                    for node in range(start, stop):
                        total = plus_scaled(total, to_z[node, class_], load(units, node))
                    store(gradient, n_features + 1 + class_, total)
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
    """Some rows of a CSR matrix times a dense matrix of few columns, a multiple of 16."""
    for row in range(first, last):
        for lane in range(dense.shape[1] // LANE):
            total = zeros_lane(dense)
            for entry in range(starts[row], starts[row + 1]):
                product = scaled(load_lane(dense, columns[entry], lane), values[entry])
                total = plus(total, product)
            store_lane(out, row, lane, total)
