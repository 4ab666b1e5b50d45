"""The compiled loop of few-shot tasks: all epochs of one task in one call, on columns of 64 hidden units at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

from condiff.kernels.compilation import compiled
from condiff.kernels.vectors import (
    FOLD,
    LANE,
    add_products,
    load,
    load_lane,
    plus_scaled,
    pop_sum,
    relu,
    scaled,
    store,
    store_lane,
    where_positive,
    zeros,
)


@compiled(
    "number[2], number[2], int64[1], number[3], number[3], number[3], number[3], number[3], number[2], "
    "number[1], number[1], number, number, number"
)
def train(
    gram: Any,
    rows: Any,
    truth: Any,
    x: Any,
    hidden: Any,
    velocity: Any,
    small: Any,
    small_velocity: Any,
    z: Any,
    losses: Any,
    rates: Any,
    momentum: float,
    decay: float,
    tiny: float,
) -> None:
    """Train one network by gradient descent with momentum; afterwards ``z`` holds its outputs before the softmax.

    ``gram`` is (points, points), ``rows`` (labelled, points) those of the diffusion, ``truth`` (labelled,) the classes.
    ``x`` and ``hidden`` (blocks, points, 64) are the inputs and ``X W^T``, ``small`` (blocks, classes + 2, 64) the
    biases of the units, the weights that read them out and, in the first block, the biases of the outputs; ``velocity``
    and ``small_velocity`` are their momenta. ``rates`` has every epoch's learning rate, ``losses`` receives its loss.
    """
    n_points, n_classes = z.shape
    back, sums = np.empty_like(z), np.zeros((n_points * n_classes, FOLD), z.dtype)
    units, unit_gradients = np.empty((n_points, x.shape[2]), z.dtype), np.empty((n_points, x.shape[2]), z.dtype)
    gradient = np.empty((n_classes + 2, x.shape[2]), z.dtype)
    for block in range(x.shape[0]):
        _read_out(x[block], hidden[block], small[block], sums)
    _outputs(sums, small[0], z)
    for epoch in range(rates.shape[0]):
        rate = rates[epoch]
        losses[epoch] = _loss_and_gradient(z, rows, truth, back, tiny)
        for block in range(x.shape[0]):
            values, moving = hidden[block], velocity[block]
            _unit_gradients(x[block], values, small[block], back, units, unit_gradients, gradient)
            move_units(gram, unit_gradients, values, moving, rate, momentum, decay)
            if block == 0:
                _bias_gradient(back, gradient)
            move_rows(0, n_classes + 2, gradient, small[block], small_velocity[block], rate, momentum, decay)
            _read_out(x[block], values, small[block], sums)
        _outputs(sums, small[0], z)


@compiled()
def move_units(
    gram: Any, unit_gradients: Any, values: Any, velocity: Any, rate: float, momentum: float, decay: float
) -> None:
    """One step of hidden units by ``gram @ unit_gradients``.

    Sums of five points by 16 units fill ten registers of AVX2: a row that was loaded serves five points, and enough
    sums are under way for the processor never to wait for one.
    """
    n_points = gram.shape[0]
    whole = n_points - n_points % 5
    for lane in range(unit_gradients.shape[1] // LANE):
        for point in range(0, whole, 5):
            row = load_lane(unit_gradients, 0, lane)
            sum_0 = scaled(row, gram[point, 0])
            sum_1 = scaled(row, gram[point + 1, 0])
            sum_2 = scaled(row, gram[point + 2, 0])
            sum_3 = scaled(row, gram[point + 3, 0])
            sum_4 = scaled(row, gram[point + 4, 0])
            for other in range(1, n_points):
                row = load_lane(unit_gradients, other, lane)
                sum_0 = plus_scaled(sum_0, gram[point, other], row)
                sum_1 = plus_scaled(sum_1, gram[point + 1, other], row)
                sum_2 = plus_scaled(sum_2, gram[point + 2, other], row)
                sum_3 = plus_scaled(sum_3, gram[point + 3, other], row)
                sum_4 = plus_scaled(sum_4, gram[point + 4, other], row)
            _move(values, velocity, point, lane, sum_0, rate, momentum, decay)
            _move(values, velocity, point + 1, lane, sum_1, rate, momentum, decay)
            _move(values, velocity, point + 2, lane, sum_2, rate, momentum, decay)
            _move(values, velocity, point + 3, lane, sum_3, rate, momentum, decay)
            _move(values, velocity, point + 4, lane, sum_4, rate, momentum, decay)
        for point in range(whole, n_points):
            total = scaled(load_lane(unit_gradients, 0, lane), gram[point, 0])
            for other in range(1, n_points):
                total = plus_scaled(total, gram[point, other], load_lane(unit_gradients, other, lane))
            _move(values, velocity, point, lane, total, rate, momentum, decay)


@compiled()
def move_rows(
    first: int, last: int, gradient: Any, values: Any, velocity: Any, rate: float, momentum: float, decay: float
) -> None:
    """One step of the rows from ``first`` to ``last``."""
    for row in range(first, last):
        for lane in range(values.shape[1] // LANE):
            _move(values, velocity, row, lane, load_lane(gradient, row, lane), rate, momentum, decay)


@compiled()
def _move(
    values: Any, velocity: Any, row: int, lane: int, gradient: Any, rate: float, momentum: float, decay: float
) -> None:
    """One step of gradient descent with momentum and weight decay, of 16 numbers."""
    value = load_lane(values, row, lane)
    moving = plus_scaled(gradient, decay, value)
    moving = plus_scaled(moving, momentum, load_lane(velocity, row, lane))
    store_lane(velocity, row, lane, moving)
    store_lane(values, row, lane, plus_scaled(value, -rate, moving))


@compiled()
def _read_out(x: Any, hidden: Any, small: Any, sums: Any) -> None:
    """Add what a block's units give to the outputs."""
    biases, n_classes = load(small, 0), small.shape[0] - 2
    for point in range(x.shape[0]):
        unit = relu(plus_scaled(load(hidden, point), 1.0, biases))
        unit = plus_scaled(unit, 1.0, load(x, point))
        for class_ in range(n_classes):
            add_products(sums, point * n_classes + class_, unit, load(small, class_ + 1))


@compiled()
def _outputs(sums: Any, small: Any, z: Any) -> None:
    """The outputs, from what all blocks have added; the sums are set to zero."""
    n_points, n_classes = z.shape
    for point in range(n_points):
        for class_ in range(n_classes):
            z[point, class_] = small[n_classes + 1, class_] + pop_sum(sums, point * n_classes + class_)


@compiled()
def _unit_gradients(x: Any, hidden: Any, small: Any, back: Any, units: Any, unit_gradients: Any, gradient: Any) -> None:
    """Fill the gradients by a block's units and by its small weights; ``units`` receives what its units give."""
    n_points, n_classes = back.shape
    biases, to_biases = load(small, 0), zeros(gradient)
    for point in range(n_points):
        active = relu(plus_scaled(load(hidden, point), 1.0, biases))
        store(units, point, plus_scaled(active, 1.0, load(x, point)))
        unit_gradient = zeros(gradient)
        for class_ in range(n_classes):
            unit_gradient = plus_scaled(unit_gradient, back[point, class_], load(small, class_ + 1))
        unit_gradient = where_positive(unit_gradient, active)
        to_biases = plus_scaled(to_biases, 1.0, unit_gradient)
        store(unit_gradients, point, unit_gradient)
    store(gradient, 0, to_biases)
    for class_ in range(n_classes):  # a class at a time, so that its sum stays in the registers
        total = zeros(gradient)
        for point in range(n_points):
            total = plus_scaled(total, back[point, class_], load(units, point))
        store(gradient, class_ + 1, total)
    store(gradient, n_classes + 1, zeros(gradient))


@compiled()
def _bias_gradient(back: Any, gradient: Any) -> None:
    """The gradient of the outputs' biases."""
    last = gradient.shape[0] - 1
    for class_ in range(back.shape[1]):
        total = 0.0
        for point in range(back.shape[0]):
            total += back[point, class_]
        gradient[last, class_] = total


@compiled()
def _loss_and_gradient(z: Any, rows: Any, truth: Any, back: Any, tiny: float) -> float:
    """The mean negative log of the diffused softmax, and its gradient by the outputs; ``z`` becomes the softmax."""
    n_points, n_classes = z.shape
    n_labelled, loss = rows.shape[0], 0.0
    for point in range(n_points):
        largest = z[point].max()
        total = 0.0
        for class_ in range(n_classes):
            z[point, class_] = np.exp(z[point, class_] - largest)
            total += z[point, class_]
        for class_ in range(n_classes):
            z[point, class_] /= total
            back[point, class_] = 0.0
    for label in range(n_labelled):
        class_ = truth[label]
        answer = 0.0
        for point in range(n_points):
            answer += rows[label, point] * z[point, class_]
        loss -= np.log(max(answer, tiny)) / n_labelled
        if answer > tiny:  # below it the loss is cut off, and flat
            scale = -1.0 / (answer * n_labelled)
            for point in range(n_points):
                back[point, class_] += scale * rows[label, point]
    for point in range(n_points):
        mean = 0.0
        for class_ in range(n_classes):
            mean += z[point, class_] * back[point, class_]
        for class_ in range(n_classes):
            back[point, class_] = z[point, class_] * (back[point, class_] - mean)
    return loss
