"""The compiled loop of Diff-ResNet: all epochs of one task in one call, on columns of 64 units at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

from condiff.kernels.compilation import compiled
from condiff.kernels.gram import move_rows, move_units
from condiff.kernels.vectors import (
    FOLD,
    add_products,
    load,
    plus_scaled,
    pop_sum,
    relu,
    store,
    where_positive,
    zeros,
)

# Rows of the wide weight that are used for both products before the next ones are read: eight make sums enough that
# none waits for another, and stay in the first cache.
_TILE = 8
# Rows of the past that stay in the first cache while all classes read them.
_PAST = 32


@compiled(
    "number[2], number[2], int64[1], number[3], number[3], number[2], number[3], number[1], number[2], "
    "number[1], number, number, number[2]"
)
def train(
    gram: Any,
    known: Any,
    truth: Any,
    x: Any,
    hidden: Any,
    wide: Any,
    small: Any,
    outer: Any,
    factors: Any,
    rates: Any,
    momentum: float,
    decay: float,
    plain: Any,
) -> None:
    """Train one network by gradient descent with momentum; afterwards ``plain`` holds its logits before the diffusion.

    ``gram`` is (points, points), ``known`` (labelled, points) the labelled rows of the diffusion, ``truth`` (labelled,)
    their classes. ``x`` and ``hidden`` (blocks, points, 64) are the inputs and ``X U^T``; ``wide`` (units * blocks, 64)
    the first value of V by rows; ``small`` (blocks, classes + 2, 64) the classifier and the biases before and behind
    the ReLU; ``outer`` (classes,) the last bias. ``factors`` (epochs + 1, epochs + 1) say what is left of V's first
    value and of what each epoch added to it; ``rates`` are those of the epochs.
    """
    n_points, n_classes = plain.shape
    blocks, epochs, width = x.shape[0], rates.shape[0], x.shape[2]
    kind = plain.dtype
    velocity, small_velocity, outer_velocity = np.zeros_like(hidden), np.zeros_like(small), np.zeros_like(outer)
    gradient, product = np.empty_like(small), np.zeros((blocks, n_classes, width), kind)
    readout, summed = np.empty_like(product), np.empty_like(product)
    lefts = np.empty((blocks, epochs * n_classes, width), kind)
    rights = np.empty_like(lefts)
    sums = np.zeros((max(n_points, epochs * n_classes, _TILE) * n_classes, FOLD), kind)
    slope, active = np.empty_like(plain), np.empty((n_points, width), kind)
    unit_gradients = np.empty_like(active)
    _product(wide, small, product)
    for epoch in range(epochs + 1):
        past, factor = epoch * n_classes, factors[epoch, 0]
        for block in range(blocks):
            for class_ in range(n_classes):
                row = plus_scaled(zeros(readout), factor, load(product[block], class_))
                store(readout[block], class_, row)
        _add_past(small, lefts, rights, past, factors[epoch], sums, readout)
        _read_out(x, hidden, small, readout, sums, plain)
        if epoch == epochs:
            break
        rate = rates[epoch]
        _slopes(plain, known, truth, outer, outer_velocity, slope, rate, momentum, decay)
        for block in range(blocks):
            _unit_gradients(hidden[block], small[block], readout[block], slope, active, unit_gradients)
            _sums_over_points(x[block], small[block], slope, active, unit_gradients, gradient[block], summed[block])
            move_units(gram, unit_gradients, hidden[block], velocity[block], rate, momentum, decay)
        _add_past(summed, rights, lefts, past, factors[epoch], sums, gradient)
        for block in range(blocks):
            for class_ in range(n_classes):
                store(lefts[block], past + class_, load(small[block], class_))
                store(rights[block], past + class_, load(summed[block], class_))
            last = n_classes + 2
            move_rows(n_classes, last, gradient[block], small[block], small_velocity[block], rate, momentum, decay)
        _move_and_read(wide, factor, summed, gradient, small, small_velocity, product, sums, rate, momentum, decay)


@compiled()
def _product(wide: Any, small: Any, product: Any) -> None:
    """The classifier's product with V."""
    blocks, n_classes, width = product.shape
    for unit in range(wide.shape[0] // blocks):
        for block in range(blocks):
            for class_ in range(n_classes):
                row = load(product[block], class_)
                value = small[unit // width, class_, unit % width]
                store(product[block], class_, plus_scaled(row, value, load(wide, unit * blocks + block)))


@compiled()
def _add_past(rows: Any, first: Any, second: Any, past: int, factors: Any, sums: Any, into: Any) -> None:
    """Add ``rows first^T factors second``, over what the past epochs have left, to the classes' rows of ``into``."""
    n_classes = min(rows.shape[1], into.shape[1])  # behind the classes are the biases
    for block in range(first.shape[0]):
        for place in range(past):
            row = load(first[block], place)
            for class_ in range(n_classes):
                add_products(sums, place * n_classes + class_, row, load(rows[block], class_))
    shares = np.empty((past, n_classes), sums.dtype)
    for place in range(past):
        for class_ in range(n_classes):
            shares[place, class_] = factors[1 + place // n_classes] * pop_sum(sums, place * n_classes + class_)
    for block in range(first.shape[0]):
        for start in range(0, past, _PAST):
            for class_ in range(n_classes):
                row = load(into[block], class_)
                for place in range(start, min(start + _PAST, past)):
                    row = plus_scaled(row, shares[place, class_], load(second[block], place))
                store(into[block], class_, row)


@compiled()
def _read_out(x: Any, hidden: Any, small: Any, readout: Any, sums: Any, plain: Any) -> None:
    """The logits of all points before the diffusion, without the last bias."""
    n_points, n_classes = plain.shape
    for block in range(x.shape[0]):
        biases = load(small[block], n_classes)
        for point in range(n_points):
            unit = relu(plus_scaled(load(hidden[block], point), 1.0, biases))
            outside = plus_scaled(load(x[block], point), 1.0, load(small[block], n_classes + 1))
            for class_ in range(n_classes):
                add_products(sums, point * n_classes + class_, unit, load(readout[block], class_))
                add_products(sums, point * n_classes + class_, outside, load(small[block], class_))
    for point in range(n_points):
        for class_ in range(n_classes):
            plain[point, class_] = pop_sum(sums, point * n_classes + class_)


@compiled()
def _slopes(
    plain: Any,
    known: Any,
    truth: Any,
    outer: Any,
    outer_velocity: Any,
    slope: Any,
    rate: float,
    momentum: float,
    decay: float,
) -> None:
    """The gradient of the mean cross-entropy by what is diffused; the last bias moves along its own."""
    (n_points, n_classes), n_known = plain.shape, known.shape[0]
    error, totals = np.empty(n_classes, plain.dtype), np.zeros(n_classes, plain.dtype)
    slope[:] = 0.0
    for label in range(n_known):
        for class_ in range(n_classes):
            error[class_] = outer[class_]
            for point in range(n_points):
                error[class_] += known[label, point] * plain[point, class_]
        largest, total = error.max(), 0.0
        for class_ in range(n_classes):
            error[class_] = np.exp(error[class_] - largest)
            total += error[class_]
        for class_ in range(n_classes):
            error[class_] = (error[class_] / total - (1.0 if truth[label] == class_ else 0.0)) / n_known
            totals[class_] += error[class_]
        for point in range(n_points):
            for class_ in range(n_classes):
                slope[point, class_] += known[label, point] * error[class_]
    for class_ in range(n_classes):
        outer_velocity[class_] = momentum * outer_velocity[class_] + totals[class_] + decay * outer[class_]
        outer[class_] -= rate * outer_velocity[class_]


@compiled()
def _unit_gradients(hidden: Any, small: Any, readout: Any, slope: Any, active: Any, unit_gradients: Any) -> None:
    """What a block's units give, and the gradients by what they are given."""
    n_points, n_classes = slope.shape
    biases = load(small, n_classes)
    for point in range(n_points):
        unit, unit_gradient = relu(plus_scaled(load(hidden, point), 1.0, biases)), zeros(active)
        for class_ in range(n_classes):
            unit_gradient = plus_scaled(unit_gradient, slope[point, class_], load(readout, class_))
        store(active, point, unit)
        store(unit_gradients, point, where_positive(unit_gradient, unit))


@compiled()
def _sums_over_points(
    x: Any, small: Any, slope: Any, active: Any, unit_gradients: Any, gradient: Any, summed: Any
) -> None:
    """A block's gradients of the classifier, as far as they come from the points alone, and of both biases."""
    n_points, n_classes = slope.shape
    behind = zeros(gradient)
    for class_ in range(n_classes):
        units, inputs, total = zeros(gradient), zeros(gradient), 0.0
        for point in range(n_points):
            units = plus_scaled(units, slope[point, class_], load(active, point))
            total += slope[point, class_]
        for point in range(n_points):
            inputs = plus_scaled(inputs, slope[point, class_], load(x, point))
        store(summed, class_, units)
        store(gradient, class_, plus_scaled(inputs, total, load(small, n_classes + 1)))
        behind = plus_scaled(behind, total, load(small, class_))
    before = zeros(gradient)
    for point in range(n_points):
        before = plus_scaled(before, 1.0, load(unit_gradients, point))
    store(gradient, n_classes, before)
    store(gradient, n_classes + 1, behind)


@compiled()
def _move_and_read(
    wide: Any,
    factor: float,
    summed: Any,
    gradient: Any,
    small: Any,
    small_velocity: Any,
    product: Any,
    sums: Any,
    rate: float,
    momentum: float,
    decay: float,
) -> None:
    """Move the classifier along ``gradient + factor * summed V^T``, and write its new product with V.

    A row of V makes one column of the classifier, which is all that the row's share of the new product needs: so V is
    read once for both.
    """
    blocks, n_classes, width = product.shape
    for block in range(blocks):
        for class_ in range(n_classes):
            store(product[block], class_, zeros(product))
    for start in range(0, wide.shape[0] // blocks, _TILE):
        home, first = start // width, start % width
        for block in range(blocks):
            for unit in range(_TILE):
                row = load(wide, (start + unit) * blocks + block)
                for class_ in range(n_classes):
                    add_products(sums, unit * n_classes + class_, row, load(summed[block], class_))
        for unit in range(_TILE):
            for class_ in range(n_classes):
                place = first + unit
                value = small[home, class_, place]
                total = gradient[home, class_, place] + factor * pop_sum(sums, unit * n_classes + class_)
                moving = momentum * small_velocity[home, class_, place] + total + decay * value
                small_velocity[home, class_, place] = moving
                small[home, class_, place] = value - rate * moving
        for block in range(blocks):
            for class_ in range(n_classes):
                row = load(product[block], class_)
                for unit in range(_TILE):
                    value = small[home, class_, first + unit]
                    row = plus_scaled(row, value, load(wide, (start + unit) * blocks + block))
                store(product[block], class_, row)
