"""The compiled loops of residual base networks on dense features: hidden units live in registers and one small tile.

Features and hidden units come in blocks of 64. ``x`` is (nodes * x blocks, 64), rows of a node one after another, and
``order`` says which node stands where in the outputs. Weights are ``inner`` (networks, blocks, features, 64), what
leaves each feature; ``biases`` (networks, blocks, 1, 64); and ``outer`` (networks, blocks, classes, 64).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from condiff.kernels.compilation import compiled
from condiff.kernels.vectors import (
    FOLD,
    WIDTH,
    add_products,
    load,
    plus_scaled,
    pop_sum,
    relu,
    store,
    where_positive,
    zeros,
)

# Nodes whose features, and whose units' gradients, fit the first-level cache together.
_TILE = 64


@compiled("int64, int64, int64[1], number[2], number[4], number[4], number[4], number[2]")
def outputs(first: int, last: int, order: Any, x: Any, inner: Any, biases: Any, outer: Any, z: Any) -> None:
    """Rows ``first`` to ``last`` of ``z`` (nodes, networks * classes), without the outputs' own biases."""
    networks, blocks, n_classes = outer.shape[:3]
    x_blocks = x.shape[0] // order.shape[0]
    sums = np.zeros((_TILE * n_classes, FOLD), z.dtype)
    for start in range(first, last, _TILE):
        stop = min(start + _TILE, last)
        for network in range(networks):
            for block in range(blocks):
                here, bias, readout = inner[network, block], biases[network, block], outer[network, block]
                for row in range(start, stop):
                    place = order[row] * x_blocks
                    unit = relu(_before(x, place, x_blocks, here, bias))
                    if block < x_blocks:
                        unit = plus_scaled(unit, 1.0, load(x, place + block))
                    for class_ in range(n_classes):
                        add_products(sums, (row - start) * n_classes + class_, unit, load(readout, class_))
            for row in range(start, stop):
                for class_ in range(n_classes):
                    z[row, network * n_classes + class_] = pop_sum(sums, (row - start) * n_classes + class_)


@compiled(
    "int64, int64, int64[1], number[2], number[4], number[4], number[4], number[2], number[4], number[4], number[4]"
)
def add_gradients(
    first: int,
    last: int,
    order: Any,
    x: Any,
    inner: Any,
    biases: Any,
    outer: Any,
    to_z: Any,
    to_inner: Any,
    to_biases: Any,
    to_outer: Any,
) -> None:
    """Add what rows ``first`` to ``last`` give to the gradients of the weights; ``to_z`` has these rows alone."""
    networks, blocks, n_classes = outer.shape[:3]
    x_blocks = x.shape[0] // order.shape[0]
    unit_gradients = np.empty((_TILE, WIDTH), x.dtype)
    for start in range(first, last, _TILE):
        stop = min(start + _TILE, last)
        for network in range(networks):
            for block in range(blocks):
                here, bias, readout = inner[network, block], biases[network, block], outer[network, block]
                to_here, to_readout = to_inner[network, block], to_outer[network, block]
                to_bias = load(to_biases[network, block], 0)
                for row in range(start, stop):
                    place = order[row] * x_blocks
                    active = relu(_before(x, place, x_blocks, here, bias))
                    unit = active
                    if block < x_blocks:
                        unit = plus_scaled(unit, 1.0, load(x, place + block))
                    unit_gradient = zeros(unit_gradients)
                    for class_ in range(n_classes):
                        back = to_z[row - first, network * n_classes + class_]
                        unit_gradient = plus_scaled(unit_gradient, back, load(readout, class_))
                        store(to_readout, class_, plus_scaled(load(to_readout, class_), back, unit))
                    unit_gradient = where_positive(unit_gradient, active)
                    to_bias = plus_scaled(to_bias, 1.0, unit_gradient)
                    store(unit_gradients, row - start, unit_gradient)
                store(to_biases[network, block], 0, to_bias)
                for feature in range(here.shape[0]):
                    total = load(to_here, feature)
                    part, lane = feature // WIDTH, feature % WIDTH
                    for row in range(start, stop):
                        value = x[order[row] * x_blocks + part, lane]
                        total = plus_scaled(total, value, load(unit_gradients, row - start))
                    store(to_here, feature, total)


@compiled()
def _before(x: Any, place: int, x_blocks: int, weights: Any, bias: Any) -> Any:
    """64 hidden units of a node before their activation."""
    unit = load(bias, 0)
    for part in range(x_blocks):
        for lane in range(min(WIDTH, weights.shape[0] - part * WIDTH)):
            unit = plus_scaled(unit, x[place + part, lane], load(weights, part * WIDTH + lane))
    return unit
