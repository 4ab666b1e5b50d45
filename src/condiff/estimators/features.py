"""What the graph and the network see of the data: columns on one scale, and the leading principal components."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.extmath import randomized_svd

from condiff.estimators.blocks import moments, slices

Scaling = Literal["auto", "standard", "none"]

# Below this share of alike columns the data mix units, and a few columns would decide every distance.
_DOMINATED = 0.2
# Above this width the covariance matrix costs more than a randomised decomposition.
_WIDE = 2000


@dataclass(frozen=True)
class FeatureMap:
    """Centre and scale the columns, then reduce them for the network.

    Attributes
    ----------
    mean, scale
        Per column; None for sparse data, which stay as they are.
    components
        (columns, width) directions of the network's input, or None where all columns are kept.
    offset, unit
        The network's input is centred and divided by one common number, so that its mean variance is one.
    """

    mean: NDArray[np.float64] | None
    scale: NDArray[np.float64] | None
    components: NDArray[np.float64] | None
    offset: NDArray[np.float64]
    unit: float

    @classmethod
    def fit(cls, rows: Any, *, scaling: Scaling, width: int) -> FeatureMap:
        """Learn the map from distinct rows, dense or CSR."""
        n = rows.shape[0]
        mean = scale = None
        if not sp.issparse(rows):
            mean, variance = moments(n, lambda here: rows[here])
            standardise = scaling == "standard" or (scaling == "auto" and _is_dominated(variance))
            spread = np.sqrt(variance)
            # A column whose spread is rounding noise carries nothing; dividing by it would make it loud.
            constant = spread <= 1e-10 * np.maximum(np.abs(mean), 1e-300)
            scale = np.where(constant, 1.0, spread) if standardise else np.ones_like(spread)
        start = cls(mean, scale, None, np.zeros(1), 1.0)
        components = _components(start, rows, width)
        reduced = cls(mean, scale, components, np.zeros(1), 1.0)
        offset, variance = moments(n, lambda here: reduced.inputs(rows[here]))
        unit = float(np.sqrt(variance.mean())) if variance.mean() > 0 else 1.0
        return cls(mean, scale, components, offset, unit)

    def scaled(self, rows: Any) -> Any:
        """What distances are measured on, in the precision of the rows."""
        if self.mean is None:
            return rows
        out = np.empty(rows.shape, rows.dtype if rows.dtype == np.float32 else np.float64)
        for here in slices(len(rows)):
            out[here] = self._scaled(rows[here])
        return out

    def inputs(self, rows: Any, dtype: type[np.floating[Any]] = np.float64) -> NDArray[Any]:
        """What the base network reads, always dense."""
        width = rows.shape[1] if self.components is None else self.components.shape[1]
        out = np.empty((rows.shape[0], width), dtype)
        for here in slices(rows.shape[0]):
            scaled = self._scaled(rows[here])
            out[here] = (
                _dense(scaled if self.components is None else scaled @ self.components) - self.offset
            ) / self.unit
        return out

    def _scaled(self, block: Any) -> Any:
        """A block of rows in double precision."""
        return block if self.mean is None else (block - self.mean) / self.scale


def _is_dominated(variance: NDArray[np.float64]) -> bool:
    """Whether a few columns carry nearly all the variance: a participation ratio, 0 for one column, 1 for all alike."""
    if len(variance) < 2 or not (variance > 0).any():
        return False
    relative = variance / variance.max()
    participation = relative.sum() ** 2 / (relative**2).sum()
    return bool((participation - 1) / (len(variance) - 1) < _DOMINATED)


def _components(features: FeatureMap, rows: Any, width: int) -> NDArray[np.float64] | None:
    n, columns = rows.shape
    if columns <= width:
        return None
    if not sp.issparse(rows) and columns <= _WIDE:
        covariance = np.zeros((columns, columns))
        for here in slices(n):
            block = features._scaled(rows[here])
            covariance += block.T @ block
        return np.ascontiguousarray(np.linalg.eigh(covariance)[1][:, ::-1][:, :width])
    directions = randomized_svd(features.scaled(rows), min(width, n), random_state=0)[2]
    return np.ascontiguousarray(directions.T, dtype=np.float64)


def _dense(matrix: Any) -> NDArray[np.float64]:
    return np.asarray(matrix.toarray() if sp.issparse(matrix) else matrix, dtype=np.float64)
