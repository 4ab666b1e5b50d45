"""The compiled loop of TIM: all steps of one task in one call, on columns of 64 features at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

from condiff.kernels.compilation import compiled
from condiff.kernels.vectors import FOLD, adam, add_products, load, plus_scaled, pop_sum, store, zeros


@compiled("number[3], int64[1], number[3], number[2], number[1], number[1], number, number, number, number")
def descend(
    points: Any,
    truth: Any,
    weights: Any,
    logits: Any,
    rates: Any,
    roots: Any,
    temperature: float,
    support_weight: float,
    condition_weight: float,
    tiny: float,
) -> None:
    """Move the class weights by Adam; afterwards ``logits`` (points, classes) are those of the last weights.

    ``points`` (blocks, points, 64) begin with the labelled ones, whose classes are ``truth``; ``weights`` is (blocks,
    classes, 64). ``rates`` and ``roots`` have the rate of every step and the factor of the second moment's root.
    """
    n_points, n_classes = logits.shape
    means, squares = np.zeros_like(weights), np.zeros_like(weights)
    sums = np.zeros(((n_points + 1) * n_classes, FOLD), logits.dtype)
    slope, totals = np.empty_like(logits), np.empty(n_classes, logits.dtype)
    none = logits.dtype.type(0.0)
    for block in range(points.shape[0]):
        _read_out(points[block], weights[block], sums)
    _logits(sums, temperature, logits)
    for step in range(rates.shape[0]):
        _slopes(logits, truth, temperature, support_weight, condition_weight, tiny, slope, totals)
        for block in range(points.shape[0]):
            here, rows = points[block], weights[block]
            for class_ in range(n_classes):
                row = load(rows, class_)
                gradient = plus_scaled(zeros(rows), -totals[class_], row)
                for point in range(n_points):
                    gradient = plus_scaled(gradient, slope[point, class_], load(here, point))
                row, mean, square = adam(
                    row,
                    gradient,
                    load(means[block], class_),
                    load(squares[block], class_),
                    rates[step],
                    roots[step],
                    none,
                )
                store(rows, class_, row)
                store(means[block], class_, mean)
                store(squares[block], class_, square)
            _read_out(here, rows, sums)
        _logits(sums, temperature, logits)


@compiled()
def _read_out(points: Any, weights: Any, sums: Any) -> None:
    """Add a block's part of the products of points with weights and, behind these, of the weights' squares."""
    n_points, n_classes = points.shape[0], weights.shape[0]
    for point in range(n_points):
        row = load(points, point)
        for class_ in range(n_classes):
            add_products(sums, point * n_classes + class_, row, load(weights, class_))
    for class_ in range(n_classes):
        row = load(weights, class_)
        add_products(sums, n_points * n_classes + class_, row, row)


@compiled()
def _logits(sums: Any, temperature: float, logits: Any) -> None:
    """From the sums of all blocks, which are set to zero."""
    n_points, n_classes = logits.shape
    for class_ in range(n_classes):
        half = pop_sum(sums, n_points * n_classes + class_) / 2
        for point in range(n_points):
            logits[point, class_] = temperature * (pop_sum(sums, point * n_classes + class_) - half)


@compiled()
def _slopes(
    logits: Any,
    truth: Any,
    temperature: float,
    support_weight: float,
    condition_weight: float,
    tiny: float,
    slope: Any,
    totals: Any,
) -> None:
    """The gradient of the loss by the products of points with weights, and its sum over the points."""
    n_points, n_classes = logits.shape
    n_known = truth.shape[0]
    n_queries = n_points - n_known
    average = np.zeros(n_classes, logits.dtype)
    for point in range(n_points):
        largest = logits[point].max()
        total = 0.0
        for class_ in range(n_classes):
            slope[point, class_] = np.exp(logits[point, class_] - largest)
            total += slope[point, class_]
        # From here on the logits' places hold the logarithms of the chances, and the slopes' places the chances.
        level = largest + np.log(total)
        for class_ in range(n_classes):
            logits[point, class_] -= level
            slope[point, class_] /= total
            if point >= n_known:
                average[class_] += slope[point, class_] / n_queries
    for class_ in range(n_classes):
        average[class_] = np.log(max(average[class_], tiny))
        totals[class_] = 0.0
    for point in range(n_points):
        if point < n_known:
            for class_ in range(n_classes):
                known = 1.0 if truth[point] == class_ else 0.0
                slope[point, class_] = support_weight * (slope[point, class_] - known) / n_known
        else:
            mean = 0.0
            for class_ in range(n_classes):
                mean += slope[point, class_] * (condition_weight * logits[point, class_] - average[class_])
            for class_ in range(n_classes):
                surprise = condition_weight * logits[point, class_] - average[class_]
                slope[point, class_] *= (mean - surprise) / n_queries
        for class_ in range(n_classes):
            slope[point, class_] *= temperature
            totals[class_] += slope[point, class_]
