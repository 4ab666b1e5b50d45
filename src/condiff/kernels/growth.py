"""Growing extremely randomised trees on few rows: plain Python that numba compiles where it is installed.

scikit-learn spends a millisecond on every tree before the first row is looked at, a hundred times what twenty labelled
rows need. Numbers are drawn by a generator of its own, so that trees are the same with and without numba.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def grow(
    rows: Any,
    targets: Any,
    weights: Any,
    seeds: Any,
    n_tried: int,
    fewest: int,
    feature: Any,
    threshold: Any,
    left: Any,
    value: Any,
    size: Any,
) -> None:
    """Grow one tree for each seed (Geurts et al., 2006): at every node ``n_tried`` columns, one random threshold each.

    ``rows`` is (rows, columns), ``targets`` (rows, outputs): indicators of classes, for which the loss in variance that
    decides between splits is the loss in Gini impurity, or values. Leaves have at least ``fewest`` rows. Node 0 of a
    tree is its root; ``feature`` (trees, nodes) is -1 at leaves, and the children of a node stand at ``left`` and
    ``left + 1``. ``value`` (trees, nodes, outputs) gets the weighted means, ``size`` the number of nodes of each tree.
    """
    n_rows, n_columns = rows.shape
    n_outputs = targets.shape[1]
    order = np.empty(n_rows, np.int64)
    aside = np.empty(n_rows, np.int64)
    columns = np.arange(n_columns)
    stack = np.empty((2 * n_rows + 1, 3), np.int64)
    here = np.empty(n_outputs)
    below = np.empty(n_outputs)
    for tree in range(seeds.shape[0]):
        state = int(seeds[tree])
        for row in range(n_rows):
            order[row] = row
        n_nodes = 1
        stack[0, 0], stack[0, 1], stack[0, 2] = 0, 0, n_rows
        top = 1
        while top > 0:
            top -= 1
            node, start, stop = stack[top, 0], stack[top, 1], stack[top, 2]
            total = 0.0
            for output in range(n_outputs):
                here[output] = 0.0
            for place in range(start, stop):
                row = order[place]
                total += weights[row]
                for output in range(n_outputs):
                    here[output] += weights[row] * targets[row, output]
            impurity = 0.0
            for output in range(n_outputs):
                value[tree, node, output] = here[output] / total
            for place in range(start, stop):
                row = order[place]
                for output in range(n_outputs):
                    impurity += weights[row] * (targets[row, output] - value[tree, node, output]) ** 2
            if stop - start < 2 * fewest or impurity <= 1e-12 * total:
                continue
            best, best_column, best_threshold, tried = -1.0, -1, 0.0, 0
            for position in range(n_columns):
                state = (state * 25214903917 + 11) & 281474976710655
                other = position + int(state / 281474976710656.0 * (n_columns - position))
                column = columns[other]
                columns[other] = columns[position]
                columns[position] = column
                low = high = rows[order[start], column]
                for place in range(start + 1, stop):
                    low = min(low, rows[order[place], column])
                    high = max(high, rows[order[place], column])
                if high <= low:
                    continue
                tried += 1
                state = (state * 25214903917 + 11) & 281474976710655
                split = low + state / 281474976710656.0 * (high - low)
                if split >= high:
                    split = low
                weight, count = 0.0, 0
                for output in range(n_outputs):
                    below[output] = 0.0
                for place in range(start, stop):
                    row = order[place]
                    if rows[row, column] <= split:
                        weight += weights[row]
                        count += 1
                        for output in range(n_outputs):
                            below[output] += weights[row] * targets[row, output]
                if count >= fewest and stop - start - count >= fewest:
                    gain = 0.0
                    for output in range(n_outputs):
                        above = here[output] - below[output]
                        gain += below[output] ** 2 / weight + above**2 / (total - weight)
                    # Equal gains differ by rounding, which may not choose: the column that came first stays.
                    if gain > best + 1e-9 * abs(best):
                        best, best_column, best_threshold = gain, column, split
                if tried >= n_tried and best_column >= 0:
                    break
            if best_column < 0:
                continue
            middle, moved = start, 0
            for place in range(start, stop):
                row = order[place]
                if rows[row, best_column] <= best_threshold:
                    order[middle] = row
                    middle += 1
                else:
                    aside[moved] = row
                    moved += 1
            for place in range(moved):
                order[middle + place] = aside[place]
            feature[tree, node], threshold[tree, node], left[tree, node] = best_column, best_threshold, n_nodes
            stack[top, 0], stack[top, 1], stack[top, 2] = n_nodes, start, middle
            stack[top + 1, 0], stack[top + 1, 1], stack[top + 1, 2] = n_nodes + 1, middle, stop
            top += 2
            n_nodes += 2
        size[tree] = n_nodes
