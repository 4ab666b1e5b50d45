"""The compiled product of a sparse matrix with 64 columns."""

from __future__ import annotations

from typing import Any

from condiff.kernels.compilation import compiled
from condiff.kernels.vectors import load, plus, scaled, store, zeros


@compiled("int32[1], int32[1], number[1], number[2], number[2]")
def product(starts: Any, columns: Any, values: Any, dense: Any, out: Any) -> None:
    """A CSR matrix times ``dense`` (columns, 64), into ``out`` (rows, 64).

    Entries are added in their order, products and sums rounded apart: digit for digit what torch's own product gives.
    """
    for row in range(out.shape[0]):
        total = zeros(out)
        for entry in range(starts[row], starts[row + 1]):
            total = plus(total, scaled(load(dense, columns[entry]), values[entry]))
        store(out, row, total)
