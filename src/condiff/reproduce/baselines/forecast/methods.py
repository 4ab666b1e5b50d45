"""Forecasters of panels with holes: ours, those without parameters, and what forecasters use.

Methods of one series at a time see its holes filled by straight lines, as their packages ask for; the last value and
its kin see the last known value. Quantiles are those of :data:`QUANTILES`.
"""

from __future__ import annotations

import time
import warnings
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm
from threadpoolctl import threadpool_limits

from condiff.estimators import PanelForecaster
from condiff.estimators.forecasting import structure
from condiff.estimators.forecasting.structure import straight_lines
from condiff.reproduce.baselines.method import Method

Array = NDArray[np.float64]

#: The ends of intervals of 50, 80 and 95 %, and the middle.
QUANTILES = (0.025, 0.1, 0.25, 0.5, 0.75, 0.9, 0.975)
# Longer seasons are not for ETS and ARIMA, which would take minutes for a series.
_LONGEST_SEASON = 24


@dataclass(frozen=True, eq=False)
class SeriesProblem:
    """Values with holes, (steps, series), their graphs or None, the seasons, and how many steps to forecast.

    There is one graph for all steps, or one for each.
    """

    values: Array
    graphs: Sequence[Any] | None
    season: tuple[int, ...]
    horizon: int

    @property
    def graph(self) -> Any:
        """The graph or graphs as :class:`condiff.PanelForecaster` takes them."""
        if self.graphs is None:
            return None
        return self.graphs[0] if len(self.graphs) == 1 else list(self.graphs)


@dataclass(frozen=True, eq=False)
class Outcome:
    """Forecasts (horizon, series), or all values (steps, series); and their quantiles, if it has any."""

    middle: Array
    quantiles: Array | None
    seconds: float
    epochs: int = 0


@dataclass(frozen=True)
class SeriesMethod(Method):
    """A way to forecast, or to fill holes."""

    #: Which of the two: ``forecast`` or ``impute``.
    task: ClassVar[str] = "forecast"
    #: A package that it needs, and whether it needs a graph.
    needs: ClassVar[str] = ""
    needs_graph: ClassVar[bool] = False

    @classmethod
    def missing(cls) -> str:
        """What it lacks here, or nothing."""
        return f"pip install {cls.needs}" if cls.needs and find_spec(cls.needs) is None else ""

    @abstractmethod
    def found(self, problem: SeriesProblem, seed: int) -> tuple[Array, Array | None]:
        """The answer and its quantiles."""

    def solve(self, problem: SeriesProblem, seed: int) -> Outcome:
        """Answer on one thread; seconds are the processor's."""
        with threadpool_limits(1), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            started = time.process_time()
            middle, quantiles = self.found(problem, seed)
            return Outcome(middle, quantiles, time.process_time() - started)


@dataclass(frozen=True)
class Own(SeriesMethod):
    """:class:`condiff.PanelForecaster` with its defaults."""

    def found(self, problem: SeriesProblem, seed: int) -> tuple[Array, Array | None]:
        model = PanelForecaster(horizon=problem.horizon, season=problem.season or None, random_state=seed)
        model.fit(problem.values, problem.graph)
        return model.predict(), model.predict_quantiles(QUANTILES)


@dataclass(frozen=True)
class LastValue(SeriesMethod):
    """The last known value; the spread is that of its own errors in the past at each step of the horizon."""

    def forecasts(self, problem: SeriesProblem, origins: NDArray[np.int64]) -> Array:
        """Forecasts begun at each origin."""
        return structure.naive(problem.values, origins, problem.horizon)

    def found(self, problem: SeriesProblem, seed: int) -> tuple[Array, Array | None]:
        values, horizon = problem.values, problem.horizon
        middle = self.forecasts(problem, np.array([len(values)]))[0]
        origins = np.arange(max(2, len(values) - 200), len(values) - horizon + 1)
        errors = np.stack([values[o : o + horizon] for o in origins]) - self.forecasts(problem, origins)
        known = np.isfinite(errors)
        size = np.sqrt(np.where(known, errors**2, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1))
        return middle, middle + norm.ppf(QUANTILES)[:, None, None] * size


@dataclass(frozen=True)
class SeasonalNaive(LastValue):
    """The last known value of the same season."""

    def forecasts(self, problem: SeriesProblem, origins: NDArray[np.int64]) -> Array:
        period = problem.season[0] if problem.season else 1
        return structure.seasonal_naive(problem.values, origins, problem.horizon, period)


@dataclass(frozen=True)
class Drift(LastValue):
    """The line through the first and the last known value."""

    def forecasts(self, problem: SeriesProblem, origins: NDArray[np.int64]) -> Array:
        return structure.drift(problem.values, origins, problem.horizon)


@dataclass(frozen=True)
class OneByOne(SeriesMethod):
    """A model of statsforecast for each series by itself, its holes filled by straight lines."""

    needs: ClassVar[str] = "statsforecast"
    model: ClassVar[str]

    def found(self, problem: SeriesProblem, seed: int) -> tuple[Array, Array | None]:
        season = problem.season[0] if problem.season and problem.season[0] <= _LONGEST_SEASON else 1
        season = season if len(problem.values) >= 2 * season else 1
        filled = straight_lines(problem.values)
        steps = max(problem.horizon, _USUAL_STEPS)
        each = [_of_one_series(self.model, season, series.tobytes(), steps) for series in filled.T]
        quantiles = np.stack(each, axis=-1)[:, : problem.horizon]
        last = structure.last_values(filled)[-1]
        quantiles = np.where(np.isfinite(quantiles), quantiles, last)
        return quantiles[3], quantiles


# The forecast of a model for fewer steps is the beginning of that for more: it is made once for all horizons.
_USUAL_STEPS = 14


@lru_cache(maxsize=512)
def _of_one_series(name: str, season: int, series: bytes, steps: int) -> Array:
    """The quantiles of one series, (quantiles, steps)."""
    from statsforecast import models

    values = np.frombuffer(series)
    try:
        answer = getattr(models, name)(season_length=season).forecast(values.copy(), h=steps, level=[50, 80, 95])
    except Exception:  # some series, such as constant ones, have no model
        answer = models.Naive().forecast(values.copy(), h=steps, level=[50, 80, 95])
    return np.array([answer[end] for end in ("lo-95", "lo-80", "lo-50", "mean", "hi-50", "hi-80", "hi-95")])


@dataclass(frozen=True)
class AutoETS(OneByOne):
    """Exponential smoothing, its form chosen by an information criterion."""

    model = "AutoETS"


@dataclass(frozen=True)
class AutoARIMA(OneByOne):
    """ARIMA, its orders chosen by an information criterion; without a season, whose search takes minutes."""

    model = "AutoARIMA"

    def found(self, problem: SeriesProblem, seed: int) -> tuple[Array, Array | None]:
        short = tuple(period for period in problem.season[:1] if period <= 12)
        return super().found(SeriesProblem(problem.values, problem.graphs, short, problem.horizon), seed)


@dataclass(frozen=True)
class Theta(OneByOne):
    """The theta method, its form chosen."""

    model = "AutoTheta"


@dataclass(frozen=True)
class Boosting(SeriesMethod):
    """Boosted trees of the last values, the season's and the step of the horizon, one model for all series.

    Series are standardised, holes stay holes, and quantiles are those of the errors on the last fifth of the rows.
    """

    lags: int = 12
    rounds: int = 100

    def found(self, problem: SeriesProblem, seed: int) -> tuple[Array, Array | None]:
        from sklearn.ensemble import HistGradientBoostingRegressor

        mean, scale = structure.standards(problem.values)
        z = structure.standardised(problem.values, mean, scale)
        steps, horizon = len(z), problem.horizon
        origins = np.arange(min(self.lags, steps // 3), steps - horizon + 1)[-200:]
        rows, targets = self._rows(z, origins, problem), np.stack([z[o : o + horizon] for o in origins])
        known = np.isfinite(targets)
        late = np.zeros_like(known)
        late[-max(1, len(origins) // 5) :] = True

        def fitted(used: NDArray[np.bool_]) -> Any:
            model = HistGradientBoostingRegressor(
                loss="absolute_error", max_iter=self.rounds, min_samples_leaf=10, random_state=seed
            )
            return model.fit(rows[used], targets[used])

        early = fitted(known & ~late) if (known & ~late).sum() > 50 else None
        coming = self._rows(z, np.array([steps]), problem)[0]
        shape = coming.shape[:2]
        middle = fitted(known).predict(coming.reshape(-1, coming.shape[-1])).reshape(shape)
        if early is None:
            return middle * scale + mean, None
        errors = targets[known & late] - early.predict(rows[known & late])
        spread = np.quantile(errors, QUANTILES)[:, None, None]
        return middle * scale + mean, (middle + spread) * scale + mean

    def _rows(self, z: Array, origins: NDArray[np.int64], problem: SeriesProblem) -> Array:
        """Features of (origins, horizon, series)."""
        horizon, series = problem.horizon, z.shape[1]
        padded = np.concatenate([np.full((self.lags, series), np.nan), z])
        lagged = np.stack([padded[o : o + self.lags] for o in origins])  # (origins, lags, series)
        last = structure.last_values(np.concatenate([np.zeros((1, series)), z]))[origins]
        period = problem.season[0] if problem.season else 1
        seasonal = structure.seasonal_naive(z, origins, horizon, period)
        shape = (len(origins), horizon, series)
        columns = [np.broadcast_to(lagged[:, lag, None], shape) for lag in range(self.lags)]
        columns += [np.broadcast_to(last[:, None], shape), seasonal]
        columns.append(np.broadcast_to(np.arange(horizon)[None, :, None], shape))
        return np.stack(columns, axis=-1)
