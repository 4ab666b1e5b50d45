"""The compiled loop of few-shot tasks: all epochs of one task in one call, on columns of 64 hidden units at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

from condiff.training.vectors import (
    FOLD,
    add_products,
    compiled,
    load,
    move,
    nothing,
    plus_scaled,
    positive,
    store,
    taken,
    where_positive,
)


@compiled
def train(
    gram: Any,
    rows: Any,
    truth: Any,
    x: Any,
    hidden: Any,
    speed: Any,
    small: Any,
    small_speed: Any,
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
    biases of the units, the weights that read them out and, in the first block, the biases of the outputs; ``speed``
    and ``small_speed`` are their momenta. ``rates`` has the learning rate of every epoch, ``losses`` receives its loss.
    """
    n_points, n_classes = z.shape
    back, sums = np.empty_like(z), np.zeros((n_points * n_classes, FOLD), z.dtype)
    units, pulls = np.empty((n_points, x.shape[2]), z.dtype), np.empty((n_points, x.shape[2]), z.dtype)
    gradient = np.empty((n_classes + 2, x.shape[2]), z.dtype)
    for block in range(x.shape[0]):
        _read_out(x[block], hidden[block], small[block], sums)
    _outputs(sums, small[0], z)
    for epoch in range(rates.shape[0]):
        rate = rates[epoch]
        losses[epoch] = _pull_of_outputs(z, rows, truth, back, tiny)
        for block in range(x.shape[0]):
            values, moving = hidden[block], speed[block]
            _pulls_of_units(x[block], values, small[block], back, units, pulls, gradient)
            for point in range(n_points):
                step = nothing(pulls)
                for other in range(n_points):
                    step = plus_scaled(step, gram[point, other], load(pulls, other))
                move(values, moving, point, step, rate, momentum, decay)
            if block == 0:
                _pull_of_last(back, gradient)
            for row in range(n_classes + 2):
                move(small[block], small_speed[block], row, load(gradient, row), rate, momentum, decay)
            _read_out(x[block], values, small[block], sums)
        _outputs(sums, small[0], z)


@compiled
def _read_out(x: Any, hidden: Any, small: Any, sums: Any) -> None:
    """Add what a block's units give to the outputs."""
    biases, n_classes = load(small, 0), small.shape[0] - 2
    for point in range(x.shape[0]):
        unit = positive(plus_scaled(load(hidden, point), 1.0, biases))
        unit = plus_scaled(unit, 1.0, load(x, point))
        for class_ in range(n_classes):
            add_products(sums, point * n_classes + class_, unit, load(small, class_ + 1))


@compiled
def _outputs(sums: Any, small: Any, z: Any) -> None:
    """The outputs, from what all blocks have added; the sums begin anew."""
    n_points, n_classes = z.shape
    for point in range(n_points):
        for class_ in range(n_classes):
            z[point, class_] = small[n_classes + 1, class_] + taken(sums, point * n_classes + class_)


@compiled
def _pulls_of_units(x: Any, hidden: Any, small: Any, back: Any, units: Any, pulls: Any, gradient: Any) -> None:
    """Fill the gradients by a block's units and by its small weights; ``units`` receives what its units give."""
    n_points, n_classes = back.shape
    biases, to_biases = load(small, 0), nothing(gradient)
    for point in range(n_points):
        active = positive(plus_scaled(load(hidden, point), 1.0, biases))
        store(units, point, plus_scaled(active, 1.0, load(x, point)))
        pull = nothing(gradient)
        for class_ in range(n_classes):
            pull = plus_scaled(pull, back[point, class_], load(small, class_ + 1))
        pull = where_positive(pull, active)
        to_biases = plus_scaled(to_biases, 1.0, pull)
        store(pulls, point, pull)
    store(gradient, 0, to_biases)
    for class_ in range(n_classes):  # a class at a time, so that its sum stays in the registers
        total = nothing(gradient)
        for point in range(n_points):
            total = plus_scaled(total, back[point, class_], load(units, point))
        store(gradient, class_ + 1, total)
    store(gradient, n_classes + 1, nothing(gradient))


@compiled
def _pull_of_last(back: Any, gradient: Any) -> None:
    """The gradient of the outputs' biases."""
    last = gradient.shape[0] - 1
    for class_ in range(back.shape[1]):
        total = 0.0
        for point in range(back.shape[0]):
            total += back[point, class_]
        gradient[last, class_] = total


@compiled
def _pull_of_outputs(z: Any, rows: Any, truth: Any, back: Any, tiny: float) -> float:
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
