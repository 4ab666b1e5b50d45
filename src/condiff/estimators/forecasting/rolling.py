"""Forecasts from the past alone: what was known until a day, the days to begin from, and how the windows went."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from condiff.estimators.forecasting.panel import correlated
from condiff.graph import Graph

Array = NDArray[np.float64]

# Days that must be before the first origin of a back-test.
_FEWEST_DAYS = 6


class Given(NamedTuple):
    """What a fit was given: values, the graph of all days or of each, and covariates of all days and those to come."""

    values: Array
    graphs: Sequence[Graph] | None
    covariates: Array | None

    def graphs_until(self, day: int) -> Sequence[Graph]:
        """The graphs of the days before; those that correlations of these days give, where there are no others."""
        if self.graphs is None:
            return [correlated(self.values[:day])]
        return self.graphs[:day] if len(self.graphs) > 1 else self.graphs


class CrossValidation(NamedTuple):
    """What :meth:`PanelForecaster.cross_validation` found.

    Attributes
    ----------
    origins
        The first day of each window.
    truth, forecasts
        (windows, horizon, series); the truth is NaN where it is unknown.
    quantiles, bands
        The quantiles, and their forecasts, (windows, quantiles, horizon, series).
    shares
        Of the parts in each window.
    """

    origins: list[int]
    truth: Array
    forecasts: Array
    quantiles: tuple[float, ...]
    bands: Array
    shares: list[dict[str, float]]

    def coverage(self, low: float, high: float) -> float:
        """The share of known values between two of the quantiles."""
        ends = [self.bands[:, self.quantiles.index(each)] for each in (low, high)]
        known = np.isfinite(self.truth)
        held = (ends[0] <= self.truth) & (self.truth <= ends[1])
        return float(held[known].mean()) if known.any() else float("nan")


def fold_origins(
    values: Array, horizon: int, folds: int, lags: int = 0, season: tuple[int, ...] = ()
) -> NDArray[np.int64]:
    """Days that a back-test begins a forecast on: at most ``folds``, spread over the last half of the days.

    Before the first there are half of the days, at least one known value and, where there is room, two of the shortest
    season. The last ones have no known value to compare with where a panel ends with holes; they do no harm.
    """
    days = len(values)
    least = max(_FEWEST_DAYS, lags + horizon if lags else 0)
    first_known = int(np.flatnonzero(np.isfinite(values).any(axis=1))[0])
    end = days - horizon
    two = min(2 * min(season, default=0), end - _FEWEST_DAYS)
    begin = max(end // 2, least, first_known + 2, two)
    if end < begin:
        return np.empty(0, np.int64)
    count = min(folds, end - begin + 1)
    return np.unique(np.linspace(end, begin, count).round().astype(np.int64))
