"""The compiled loops of decision trees: every row goes down every tree, and finds those that end where it does."""

from __future__ import annotations

from typing import Any

import numpy as np

from condiff.kernels import growth
from condiff.kernels.compilation import compiled

grow = compiled(
    "float64[2], float64[2], float64[1], int64[1], int64, int64, int32[2], float64[2], int32[2], float64[3], int64[1]"
)(growth.grow)


# Rows that go down one tree after another: a tree stays in the nearest cache, and so does what it asks of the rows.
_TOGETHER = 1024


@compiled("float32[2], int32[1], int32[1], float64[1], int32[1], int32[1], int32[2]")
def find_leaves(rows: Any, roots: Any, feature: Any, threshold: Any, left: Any, right: Any, out: Any) -> None:
    """Write the leaf of every row in every tree to ``out`` (rows, trees); see :class:`condiff.bases.forest.Forest`."""
    for start in range(0, rows.shape[0], _TOGETHER):
        for tree in range(roots.shape[0]):
            for row in range(start, min(start + _TOGETHER, rows.shape[0])):
                node = roots[tree]
                asked = feature[node]
                while asked >= 0:
                    # Both are read and one is taken: no processor guesses which way a row goes.
                    below, above = left[node], right[node]
                    node = below if rows[row, asked] <= threshold[node] else above
                    asked = feature[node]
                out[row, tree] = node


@compiled("int32[2], float64[2], float64[2]")
def mean_values(leaves: Any, value: Any, out: Any) -> None:
    """Write the mean of what leaves answer to ``out`` (rows, outputs), added up in the order of the trees."""
    for row in range(leaves.shape[0]):
        for output in range(value.shape[1]):
            out[row, output] = value[leaves[row, 0], output]
        for tree in range(1, leaves.shape[1]):
            for output in range(value.shape[1]):
                out[row, output] += value[leaves[row, tree], output]
        for output in range(value.shape[1]):
            out[row, output] /= leaves.shape[1]


@compiled("int64[2], int64[1], int64[1], int64[1], float64[1], int64[2], float64[2]")
def most_alike(leaves: Any, starts: Any, members: Any, own: Any, score: Any, found: Any, likeness: Any) -> None:
    """For every row the points that share most with it, the most alike first; see :mod:`condiff.graph.leaves`.

    ``leaves`` (rows, trees) are numbers of leaves or -1; the points of leaf l are ``members[starts[l]:starts[l + 1]]``.
    ``own`` is the point that a row is itself, or -1. ``score``, one zero for each point, is room to work in. ``found``
    begins as -1, ``likeness`` as 0, both (rows, neighbours).
    """
    most = found.shape[1]
    touched = np.empty(score.shape[0], np.int64)
    for row in range(leaves.shape[0]):
        count = 0
        for tree in range(leaves.shape[1]):
            leaf = leaves[row, tree]
            if leaf < 0:
                continue
            share = 1.0 / (starts[leaf + 1] - starts[leaf])
            for place in range(starts[leaf], starts[leaf + 1]):
                point = members[place]
                if score[point] == 0.0:
                    touched[count] = point
                    count += 1
                score[point] += share
        kept = 0
        for number in range(count):
            point = touched[number]
            value = score[point]
            score[point] = 0.0
            if point == own[row]:
                continue
            if kept == most:
                last = likeness[row, most - 1]
                if value < last or (value == last and point > found[row, most - 1]):
                    continue
                place = most - 1
            else:
                place = kept
                kept += 1
            while place > 0:
                before = likeness[row, place - 1]
                if before > value or (before == value and found[row, place - 1] < point):
                    break
                likeness[row, place], found[row, place] = before, found[row, place - 1]
                place -= 1
            likeness[row, place], found[row, place] = value, point
