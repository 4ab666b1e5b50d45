"""Rows of a data set some at a time: what double precision makes of them is then never larger than a block."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

#: Rows of a block.
ROWS = 65_536


def slices(n_rows: int) -> Iterator[slice]:
    """The blocks of a data set; one, and empty, where there are no rows."""
    for start in range(0, max(n_rows, 1), ROWS):
        yield slice(start, min(start + ROWS, n_rows))


def moments(n_rows: int, block: Callable[[slice], Any]) -> tuple[Array, Array]:
    """Mean and variance of every column, from ``block``, which gives some rows as a dense array; two passes."""

    def total(of: Callable[[Array], Array]) -> Array:
        sums = [of(np.asarray(block(here), np.float64)).sum(axis=0) for here in slices(n_rows)]
        return np.asarray(np.sum(sums, axis=0) / n_rows)

    mean = total(lambda rows: rows)
    return mean, total(lambda rows: (rows - mean) ** 2)
