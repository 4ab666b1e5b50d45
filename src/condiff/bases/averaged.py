"""A linear map of columns that are averaged over a graph's neighbours, as arrays, which answers without torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import softmax

Array = NDArray[np.float64]
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Averaged:
    r""":math:`\mathrm{softmax}(W^k \hat x \Theta + b)` with rows :math:`\hat x` of one length.

    :math:`W = D^{-1}(A + I)` is the mean over a node and its neighbours: what a node's own columns say too little of,
    those around it may tell. The map comes first and the means after it, on as many columns as there are classes, so
    that sparse columns stay sparse.

    Attributes
    ----------
    weight, bias
        (columns, outputs) and (outputs,).
    centre, unit
        Rows are centred, divided by their length, and then by one common number.
    hops
        How often the mean is taken, :math:`k`.
    of_edges
        Whether the columns are the nodes' own numbers, one for each: averaged, they say whom a node is joined to.
    share
        How much this one counts among others.
    spread
        What columns are divided by first, where they mix units; None where they are read as they are.
    """

    weight: Array
    bias: Array
    centre: Array
    unit: float
    hops: int
    of_edges: bool
    share: float
    spread: Array | None = None

    def values(self, rows: Any) -> Array:
        """What the linear map makes of the rows themselves, before any mean."""
        rows = rows if self.spread is None else divided(rows, self.spread)
        return np.asarray((rows @ self.weight - self.centre @ self.weight) * (scales(rows, self.centre) / self.unit))

    def at_nodes(self, points: Any, walk: sp.csr_array) -> Array:
        """Probabilities at the nodes, given their rows and :math:`W`."""
        found = self._values_of_nodes(points, walk)
        for _ in range(self.hops):
            found = walk @ found
        return np.asarray(softmax(found + self.bias, axis=1))

    def at_new(self, rows: Any, towards: sp.csr_array, points: Any, walk: sp.csr_array) -> Array:
        """Probabilities at rows that are no nodes.

        ``towards``, (rows, nodes), is the share of each node in the mean over a row and its neighbours; what is missing
        to one is the row's own.
        """
        # A new row has no number of its own among the nodes: its neighbours' are all that is known.
        found = np.zeros((rows.shape[0], len(self.bias))) if self.of_edges else self.values(rows)
        around, own = self._values_of_nodes(points, walk), 1 - np.asarray(towards.sum(axis=1)).reshape(-1, 1)
        for _ in range(self.hops):
            found, around = own * found + towards @ around, walk @ around
        return np.asarray(softmax(found + self.bias, axis=1))

    def _values_of_nodes(self, points: Any, walk: sp.csr_array) -> Array:
        return self.values(sp.eye_array(walk.shape[0], format="csr") if self.of_edges else points)


def divided(rows: Any, spread: NDArray[Any]) -> Any:
    """Rows, dense or CSR, whose columns are divided by numbers of their own."""
    return sp.csr_array(rows @ sp.diags_array(1 / spread)) if sp.issparse(rows) else rows / spread


def scales(rows: Any, centre: NDArray[Any]) -> Array:
    """What brings rows, dense or CSR, less a centre, to length one, (rows, 1); zero for a row at the centre."""
    sums = rows.multiply(rows).sum(axis=1) if sp.issparse(rows) else (rows**2).sum(axis=1)
    own, middle = np.asarray(sums, np.float64).ravel(), float(centre @ centre)
    squares = own - 2 * np.asarray(rows @ centre, np.float64) + middle
    # What is left of two equal numbers is rounding.
    apart = squares > _ROUNDING * (own + middle)
    return np.where(apart, 1 / np.sqrt(np.where(apart, squares, 1.0)), 0.0)[:, None]
