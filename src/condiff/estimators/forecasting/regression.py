"""A regression that corrects what is known of a series by itself, by the last steps of it and of its neighbours.

It is one for all series, each in its own units, and one for each step of the horizon: for what a damped trend cannot
follow, such as waves, momentum and neighbours that lead. It makes absolute errors small, as the back-test asks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from condiff.errors import InvalidInputError
from condiff.estimators.forecasting.structure import Structure, extrapolated, filtered
from condiff.graph import Graph

Array = NDArray[np.float64]

# Steps of a series and of its neighbours that it looks back on, of the latter also the first.
_LAGS, _NEAR = 24, 4
#: Its columns: lags, level and slope; of the neighbours steps, height above the series, and rise.
COLUMNS = _LAGS + 2 + _NEAR + 1
# Origins to learn from at most and, of many series, at least; and how many values there should be of them.
_MOST_ORIGINS, _LEAST_ORIGINS, _VALUES = 300, 20, 40_000
# How strongly coefficients are drawn to zero: as by so many values of the usual size. Rounds of reweighting.
_RIDGE, _ROUNDS = 10.0, 4


@dataclass(frozen=True, eq=False)
class Autoregression:
    """A fitted regression.

    Attributes
    ----------
    coefficients
        (horizon, columns).
    largest
        The largest correction that was wanted at each step of the horizon: it never does more.
    """

    coefficients: Array
    largest: Array

    @classmethod
    def fit(
        cls, values: Array, graphs: Sequence[Graph], structure: Structure, covariates: Array | None, horizon: int
    ) -> Self:
        """Learn from all days, of which ``graphs`` has one or one each."""
        days, series = values.shape
        most = int(np.clip(_VALUES // series, _LEAST_ORIGINS, _MOST_ORIGINS))
        origins = np.arange(min(_LAGS, max(days // 3, 2)), days - horizon + 1)[-most:]
        z = structure.left(values, covariates)
        known = np.isfinite(z) & (structure.trend.scale > 0)
        coming = origins[:, None] + np.arange(horizon)
        if not len(origins) or known[coming].sum(axis=(0, 2)).min() < COLUMNS:
            raise InvalidInputError(f"a regression on {COLUMNS} columns needs more values than that: give more days")
        columns, level = _columns(z, graphs, origins, structure, horizon)
        found, largest = [], []
        for step in range(horizon):
            used = known[coming[:, step]]
            target = (z[coming[:, step]] - level[:, step])[used]
            found.append(_least_absolute(columns[used], target))
            largest.append(np.abs(target).max())
        return cls(np.stack(found), np.array(largest))

    def forecasts(
        self,
        values: Array,
        graphs: Sequence[Graph],
        origins: NDArray[np.int64],
        structure: Structure,
        covariates: Array | None,
    ) -> Array:
        """Forecasts begun at each origin from the days before, (origins, horizon, series)."""
        z = structure.left(values, covariates)
        columns, level = _columns(z, graphs, origins, structure, len(self.coefficients))
        moved = np.einsum("osc,hc->ohs", columns, self.coefficients)
        limit = self.largest[:, None]
        corrected = level + np.clip(moved, -limit, limit)
        return structure.restored(corrected, np.zeros_like(corrected), origins, covariates)[0]


def _columns(
    z: Array, graphs: Sequence[Graph], origins: NDArray[np.int64], structure: Structure, horizon: int
) -> tuple[Array, Array]:
    """What a correction is made of, (origins, series, columns), and the forecasts to correct, standardised.

    In place of a hole there is the level that the filter had there, which knows only what was before.
    """
    found = filtered(z, structure.trend)
    at = origins - 1
    level, slope = found.level[at], found.slope[at]
    coming, _ = extrapolated(structure.trend, level, slope, found.covariance[:, at], horizon)
    whole = np.where(np.isnan(z), found.level, z)
    past = np.concatenate([np.repeat(whole[:1], _LAGS, axis=0), whole])
    lagged = np.stack([past[origin : origin + _LAGS] for origin in origins])
    around = _neighbours(lagged[:, [0, *range(_LAGS - _NEAR, _LAGS)]], graphs, origins)
    now = around[:, -1]
    columns = [*(lagged - level[:, None]).swapaxes(0, 1), level, slope]
    columns += [*(around[:, :-1] - now[:, None]).swapaxes(0, 1), now - level]
    return np.stack(columns, axis=-1), coming.swapaxes(0, 1)


def _neighbours(lagged: Array, graphs: Sequence[Graph], origins: NDArray[np.int64]) -> Array:
    """The mean of the neighbours on the last day before each origin; a series without any is its own."""
    means: list[Array] = []
    for origin, own in zip(origins.tolist(), lagged, strict=True):
        weights = graphs[min(origin, len(graphs)) - 1].weights
        total = np.asarray(weights.sum(axis=1)).ravel()
        found = (weights @ own.T).T / np.where(total > 0, total, 1.0)
        means.append(np.where(total > 0, found, own))
    return np.stack(means)


def _least_absolute(columns: Array, target: Array) -> Array:
    """Ridge regression of least absolute errors, by least squares that are weighted again and again."""
    ridge = _RIDGE * max(float((columns**2).mean()), 1e-9) * np.eye(columns.shape[1])
    weights, found = np.ones(len(target)), np.zeros(columns.shape[1])
    for _ in range(_ROUNDS):
        weighted = columns * (weights / weights.mean())[:, None]
        found = np.linalg.solve(weighted.T @ columns + ridge, weighted.T @ target)
        errors = np.abs(target - columns @ found)
        weights = 1 / np.maximum(errors, 0.1 * np.median(errors) + 1e-9)
    return found
