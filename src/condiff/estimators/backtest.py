"""Rolling back-tests: how good forecasts would have been, had they been made on each of the last days."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from condiff.errors import InvalidInputError
from condiff.estimators.forecaster import PanelForecaster
from condiff.estimators.series import Array, checked_values, day_graphs

_WEEK = 7


@dataclass(frozen=True, eq=False)
class Backtest:
    """Forecasts that were made of the past alone, and what came.

    Attributes
    ----------
    origins
        The days, counted from 0, that were the first to be forecast.
    truth
        (origins, horizon, regions), NaN where the value is missing.
    forecasts
        By method, of the same shape. Beside the forecaster there are the two that need no learning.
    """

    origins: list[int]
    truth: Array
    forecasts: dict[str, Array]

    def mean_absolute_error(self, name: str) -> float:
        """Over all known values; NaN where none is."""
        errors = np.abs(self.forecasts[name] - self.truth)
        return float(np.nanmean(errors)) if not np.isnan(errors).all() else float("nan")

    def root_mean_square_error(self, name: str) -> float:
        """Over all known values; NaN where none is."""
        squares = (self.forecasts[name] - self.truth) ** 2
        return float(np.sqrt(np.nanmean(squares))) if not np.isnan(squares).all() else float("nan")

    def margin(self, name: str, scale: Array, coverage: float) -> Array:
        """How far truth was from the forecast at most in ``coverage`` of the cases, (horizon, regions).

        Errors are divided by the regions' ``scale`` and pooled, because a region alone has too few; each day of the
        horizon has a margin of its own. NaN where nothing was known to compare with.
        """
        if not 0 < coverage < 1:
            raise InvalidInputError(f"the coverage must be above 0 and below 1, not {coverage}")
        varied = scale > 0
        errors = np.abs(self.forecasts[name] - self.truth)[:, :, varied] / scale[varied]
        found = [np.nan if np.isnan(step).all() else np.nanquantile(step, coverage) for step in errors.swapaxes(0, 1)]
        return np.array(found)[:, None] * scale


def backtest(
    forecaster: PanelForecaster,
    values: Any,
    graph: Any,
    folds: int = 8,
    *,
    follow: Callable[[Iterator[int], int], Iterator[int]] = lambda days, _: days,
) -> Backtest:
    """Fit a copy of the forecaster on the days before each of the last ``folds`` days, and forecast from there.

    Parameters
    ----------
    forecaster
        Whose settings to use; it is left as it is.
    values, graph
        As for :meth:`PanelForecaster.fit`.
    folds
        How many days to begin a forecast on, the last ones whose whole horizon is in ``values``; fewer where there are
        not enough days before them.
    follow
        Wraps the days and their number, for progress displays.
    """
    values = checked_values(values)
    graphs = day_graphs(graph, *values.shape)
    horizon, lags = int(forecaster.horizon), int(forecaster.lags)
    last = len(values) - horizon
    origins = [day for day in range(last - folds + 1, last + 1) if day >= lags + horizon]
    if folds < 1 or not origins:
        raise InvalidInputError(
            f"a back-test with {lags} lags and a horizon of {horizon} needs at least {lags + 2 * horizon} days and one "
            f"fold, but there are {len(values)} days and {folds} folds"
        )
    found: dict[str, list[Array]] = {"COIN": [], "last value": [], "mean of the last week": []}
    for origin in follow(iter(origins), len(origins)):
        past = values[:origin]
        fitted = clone(forecaster).fit(past, graphs[:origin] if len(graphs) > 1 else graphs[0])
        found["COIN"].append(fitted.predict())
        for name, flat in (("last value", last_values(past)), ("mean of the last week", week_means(past))):
            # What is not known at all is taken to be what the forecaster takes it for.
            found[name].append(np.tile(np.where(np.isnan(flat), fitted.mean_, flat), (horizon, 1)))
    truth = np.stack([values[origin : origin + horizon] for origin in origins])
    return Backtest(origins, truth, {name: np.stack(each) for name, each in found.items()})


def last_values(values: Array) -> Array:
    """The last known value of each region; NaN where there is none."""
    days = np.where(np.isnan(values), -1, np.arange(len(values))[:, None]).max(axis=0)
    return np.where(days < 0, np.nan, values[np.maximum(days, 0), np.arange(values.shape[1])])


def week_means(values: Array) -> Array:
    """The mean of each region's known values of the last seven days; its last known value where there are none."""
    week = values[-_WEEK:]
    counts = (~np.isnan(week)).sum(axis=0)
    means = np.nansum(week, axis=0) / np.maximum(counts, 1)
    return np.where(counts > 0, means, last_values(values))
