"""The compiled loop of decision trees: every row goes down every tree."""

from __future__ import annotations

from typing import Any

from condiff.kernels.compilation import compiled


@compiled("float32[2], int32[1], int32[1], float64[1], int32[1], int32[1], int32[2]")
def find_leaves(rows: Any, roots: Any, feature: Any, threshold: Any, left: Any, right: Any, out: Any) -> None:
    """Write the leaf of every row in every tree to ``out`` (rows, trees); see :class:`condiff.bases.forest.Forest`."""
    for row in range(rows.shape[0]):
        for tree in range(roots.shape[0]):
            node = roots[tree]
            while feature[node] >= 0:
                node = left[node] if rows[row, feature[node]] <= threshold[node] else right[node]
            out[row, tree] = node
