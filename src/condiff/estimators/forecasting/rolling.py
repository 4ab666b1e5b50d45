"""Forecasts from the past alone: what was known until a day, the days to begin from, and how the windows went."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from condiff.estimators.forecasting.panel import FOUND
from condiff.estimators.forecasting.parts import Parts
from condiff.estimators.forecasting.shares import Backtest, representative, steps_between
from condiff.graph import Graph

Array = NDArray[np.float64]

# Days that must be before the first origin of a back-test; and of one that says no more than how wide intervals are.
_FEWEST_DAYS, _FEWEST_FOR_SPREAD = 6, 3
# Values to compare with at a step of the horizon, from which on holes are no reason for more origins.
_ENOUGH = 1000
# How often a back-test fits its parts: what half of the days taught may be no longer so.
_FITS = 3


class Given(NamedTuple):
    """What a fit was given: values, the graph of all days or of each, and covariates of all days and those to come.

    ``neighbours`` says how they are found where there is no graph.
    """

    values: Array
    graphs: Sequence[Graph] | None
    covariates: Array | None
    neighbours: str = "correlation"

    def graphs_until(self, day: int) -> Sequence[Graph]:
        """The graphs of the days before; that which the values of these days give, where there are no others."""
        if self.graphs is None:
            return [FOUND[self.neighbours](self.values[:day])]
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
    names, times
        Of the series and of all days; their numbers where they have none.
    """

    origins: list[int]
    truth: Array
    forecasts: Array
    quantiles: tuple[float, ...]
    bands: Array
    shares: list[dict[str, float]]
    names: Sequence[str]
    times: Sequence[str]

    def frame(self) -> Any:
        """All windows as a long data frame: ``unique_id``, ``ds``, ``cutoff``, ``y``, ``forecast``, ``q-0.1``, ..."""
        import pandas as pd

        found = []
        for place, origin in enumerate(self.origins):
            horizon = len(self.truth[place])
            columns = {
                "unique_id": np.repeat(list(self.names), horizon),
                "ds": list(self.times[origin : origin + horizon]) * len(self.names),
                "cutoff": self.times[origin - 1],
                "y": self.truth[place].T.ravel(),
                "forecast": self.forecasts[place].T.ravel(),
            }
            bands = zip(self.quantiles, self.bands[place], strict=True)
            found.append(pd.DataFrame(columns | {f"q-{chance:g}": band.T.ravel() for chance, band in bands}))
        return pd.concat(found, ignore_index=True)

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

    Where values are missing, there are as many more as it takes to compare with as many values, or with a thousand at
    each step of the horizon. Before the first there are half of the days, at least one known value and, where there is
    room, two of the shortest season. The last ones have no known value to compare with where a panel ends with holes;
    they do no harm. Where no whole horizon has room, they are those of which a part has.
    """
    days = len(values)
    first_known = int(np.flatnonzero(np.isfinite(values).any(axis=1))[0])
    for end, fewest in ((days - horizon, _FEWEST_DAYS), (days - 1, _FEWEST_FOR_SPREAD)):
        two = min(2 * min(season, default=0), end - fewest)
        begin = max(end // 2, fewest, lags + horizon if lags else 0, first_known + 2, two)
        if begin <= end:
            known = max(float(np.isfinite(values[begin:]).mean()), 1 / values.size)
            wanted = min(folds / known, max(_ENOUGH / (known * values.shape[1]), folds))
            count = min(round(wanted), end - begin + 1)
            return np.unique(np.linspace(end, begin, count).round().astype(np.int64))
    return np.empty(0, np.int64)


def can_choose(origins: Sequence[int] | NDArray[np.int64], days: int, horizon: int) -> bool:
    """Whether a back-test from these days is of whole horizons, so that it can choose between parts."""
    return bool(len(origins)) and bool(origins[0] >= _FEWEST_DAYS and origins[-1] + horizon <= days)


def back_test(
    given: Given, origins: NDArray[np.int64], horizon: int, fit: Callable[[int], Parts]
) -> tuple[Backtest, dict[str, Array]]:
    """Forecasts from each origin on, by parts that ``fit`` fitted to the days before, a few times on the way.

    The second has the deviations that the filters among them expected.
    """
    values, found, truth = given.values, [], []
    known = np.concatenate([values, np.full((horizon, values.shape[1]), np.nan)])
    for some in np.array_split(origins, min(_FITS, len(origins))):
        first = int(some[0])
        graphs = given.graphs if given.graphs is not None else given.graphs_until(first)
        found.append(fit(first).forecasts(values, graphs, some, horizon, given.covariates))
        true = np.stack([known[origin : origin + horizon] for origin in some])
        truth.append(representative(true, values, first))
    # Regression and network are not there as long as there are too few days for them.
    middles, deviations = (_joined(each) for each in zip(*found, strict=True))
    return Backtest(origins.tolist(), np.concatenate(truth), middles, steps_between(values)), deviations


def _joined(found: Sequence[dict[str, Array]]) -> dict[str, Array]:
    """Arrays of several dictionaries, one after the other, by the names that all of them have."""
    names = [name for name in found[-1] if all(name in each for each in found)]
    return {name: np.concatenate([each[name] for each in found]) for name in names}
