"""The forecaster of series on a graph, with holes: structure first, then diffusion, mixed as the back-test says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from condiff.errors import InvalidInputError, did_you_mean
from condiff.estimators.forecasting.imputing import Imputed, fill
from condiff.estimators.forecasting.network import NetworkSettings
from condiff.estimators.forecasting.panel import (
    FOUND,
    alike,
    checked_covariates,
    checked_values,
    close,
    day_graphs,
    usual_season,
)
from condiff.estimators.forecasting.parts import PARTS, Parts, fit_parts
from condiff.estimators.forecasting.rolling import CrossValidation, Given, back_test, can_choose, fold_origins
from condiff.estimators.forecasting.shares import (
    SIMPLE,
    Backtest,
    as_before,
    best_shares,
    blind_shares,
    likeliest_deviation,
    mixed,
    spread_of,
    steps_between,
)
from condiff.estimators.forecasting.states import restored_parts, saved_parts
from condiff.estimators.saving import Saveable
from condiff.estimators.state import check_reach
from condiff.graph import Graph
from condiff.kernels.threads import one_thread
from condiff.readers.series import SeriesFile, series_of

Array = NDArray[np.float64]


class PanelForecaster(Saveable):
    """Forecast the coming days of many series at once, with holes, and with what a graph of the series knows.

    A forecast is a mixture of parts: the last value, the value of a season ago, the straight line (``drift``), level,
    trend and season of each series by itself (``smoothing``), the same with shocks that are diffused over the graph
    (``diffusion``), so that a hole is filled by what the neighbours did, a regression on the last steps of a series and
    of its neighbours that corrects the structure (``autoregression``), and a network that corrects it and whose output
    is diffused (``network``). A rolling back-test chooses the share of each. Where the last value or the
    value of a season ago is as good, it is the forecast. Quantiles come from the errors of the back-test.

    Parameters
    ----------
    horizon
        Days to forecast.
    season
        Steps of a season, or several, as ``(24, 168)`` for hours; None for none; ``auto``: found in the values.
    parts
        The names of some of them; ``auto``: all but the smoothing, which is the diffusion of a single series.
    neighbours
        How they are found where no graph is given: by the ``correlation`` of steps, or by dynamic time ``warping``,
        which also sees that one series follows another.
    folds
        Origins of the back-test, at most: they are spread over the last half of the days. Where values are missing, as
        many more as it takes to compare with as many.
    lags
        Days that the network looks back on.
    train_days
        How many of the last days, each with its ``horizon``, the network learns from; None for all. ``auto``: 14, or
        as many as it takes to have 200 known values: the course of an epidemic changes within weeks.
    level
        What the network corrects. ``structure``: the smoothing. ``recent``: the mean of the known values among the
        lags, with the region's mean counted as one more. ``mean``: the region's mean, which is the paper's network.
    hidden
        Hidden units of the network.
    layers, strength
        The network's diffusion; it is solved exactly, so that no strength is too large.
    dropout
        Probability with which outputs are dropped before each layer in training.
    epochs, learning_rate, weight_decay
        Of Adam.
    n_inits
        Networks whose forecasts are averaged.
    non_negative
        Whether forecasts below zero become zero; ``auto``: where no known value is below zero.
    random_state
        Seed of initialisations, dropout and sample paths.

    Attributes
    ----------
    shares_, blind_shares_ : dict
        The share of each part in the forecast; and in that of series whose last step is a hole, which differs where the
        back-test had hardly any.
    backtest_ : Backtest
        The forecasts of all parts at each origin, beside the truth.
    spread_ : Spread
        The errors of the forecast in the back-test, in units of what was expected: where quantiles come from.
    parts_ : Parts
        The fitted parts.
    season_ : tuple of int
        The seasons.
    names_, times_ : list of str
        Of the series, and of the days and those to come; numbers where the values had none.
    n_regions_ : int
        The number of series.

    Notes
    -----
    For the diffusion, more than 250 series are cut into groups of neighbours. For the network, a day's graph is a
    dense matrix of regions x regions, one for every training day where the graph changes.

    Examples
    --------
    >>> import numpy as np
    >>> from condiff import PanelForecaster
    >>> day, region = np.arange(60)[:, None], np.arange(12)
    >>> values = 50 + 20 * np.sin(2 * np.pi * (day + region) / 14)
    >>> values[np.random.default_rng(0).random(values.shape) < 0.5] = np.nan  # half of them missing
    >>> ring = np.roll(np.eye(12), 1, axis=1) + np.roll(np.eye(12), -1, axis=1)
    >>> model = PanelForecaster(horizon=3).fit(values, ring)
    >>> model.predict().shape
    (3, 12)
    >>> model.predict_quantiles([0.1, 0.9]).shape
    (2, 3, 12)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "horizon": [Interval(Integral, 1, None, closed="left")],
        "season": [Interval(Integral, 2, None, closed="left"), StrOptions({"auto"}), "array-like", tuple, None],
        "parts": [StrOptions({"auto"}), "array-like", tuple],
        "neighbours": [StrOptions(set(FOUND))],
        "folds": [Interval(Integral, 1, None, closed="left")],
        "lags": [Interval(Integral, 1, None, closed="left")],
        "train_days": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"}), None],
        "level": [StrOptions({"structure", "recent", "mean"})],
        "hidden": [Interval(Integral, 1, None, closed="left")],
        "layers": [Interval(Integral, 0, None, closed="left")],
        "strength": [Interval(Real, 0, None, closed="neither")],
        "dropout": [Interval(Real, 0, 1, closed="left")],
        "epochs": [Interval(Integral, 1, None, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "weight_decay": [Interval(Real, 0, None, closed="left")],
        "n_inits": [Interval(Integral, 1, None, closed="left")],
        "non_negative": ["boolean", StrOptions({"auto"})],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        *,
        horizon: int = 1,
        season: Any = "auto",
        parts: Any = "auto",
        neighbours: str = "correlation",
        folds: int = 24,
        lags: int = 8,
        train_days: Any = "auto",
        level: str = "structure",
        hidden: int = 16,
        layers: int = 10,
        strength: float = 0.5,
        dropout: float = 0.25,
        epochs: int = 100,
        learning_rate: float = 0.01,
        weight_decay: float = 5e-4,
        n_inits: int = 3,
        non_negative: Any = "auto",
        random_state: Any = 0,
    ) -> None:
        self.horizon = horizon
        self.season = season
        self.parts = parts
        self.neighbours = neighbours
        self.folds = folds
        self.lags = lags
        self.train_days = train_days
        self.level = level
        self.hidden = hidden
        self.layers = layers
        self.strength = strength
        self.dropout = dropout
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.n_inits = n_inits
        self.non_negative = non_negative
        self.random_state = random_state

    @one_thread()
    def fit(
        self, values: Any, graph: Any = None, *, positions: Any = None, static: Any = None, covariates: Any = None
    ) -> Self:
        """Learn from all days.

        Parameters
        ----------
        values
            (days, series), the oldest day first, NaN where a value is missing; or a data frame, long with the columns
            ``unique_id``, ``ds`` and ``y``, or wide with a column per series and times in the index or in ``ds``; or
            what :func:`condiff.readers.series.read_series` made of a file.
        graph
            One graph for all days, or a sequence of one per day: anything that :meth:`condiff.Graph.of` accepts.
            Weights may be directed for the network; row i lists what series i averages over. A forecast is diffused
            over the graph of the last day that it looks back on. Without a graph, neighbours are found: by
            ``positions`` or ``static`` features if given, otherwise in the values, as ``neighbours`` says.
        positions
            (series, 2 or 3): coordinates of each series in one unit.
        static
            (series, columns): other features of each series, each counted in units of its spread.
        covariates
            What is known of all days and of the ``horizon`` to come, such as holidays or prices: (days + horizon,
            columns), the same for all series, or (days + horizon, series, columns).
        """
        self._validate_params()
        table = _table_of(values)
        values = checked_values(values if table is None else table.values)
        days, regions = values.shape
        # Without names, series are numbers, and so are times: those to come from 1 on.
        self.names_ = [str(series) for series in range(regions)] if table is None else list(table.names)
        self.times_ = [str(step) for step in range(1 - days, int(self.horizon) + 1)]
        if table is not None:
            self.times_ = [*table.days, *table.coming_days(int(self.horizon))]
        graphs = None
        if graph is not None:
            graphs = day_graphs(graph, days, regions)
        elif positions is not None:
            graphs = [close(positions, regions)]
        elif static is not None:
            graphs = [alike(static, regions)]
        known = checked_covariates(covariates, days, regions, self.horizon)
        given = Given(values, graphs, known, self.neighbours)
        wanted = self._wanted(regions)
        usual = None if table is None else table.calendar.season
        self.n_regions_, self.season_ = regions, self._season(values, usual)
        clip = np.nanmin(values) >= 0 if self.non_negative == "auto" else bool(self.non_negative)
        self._lowest = 0.0 if clip else -np.inf
        self._given = given
        self.backtest_, expected = self._tested(given, wanted)
        origins = np.array(self.backtest_.origins, np.int64)
        self.shares_ = self.blind_shares_ = {wanted[0]: 1.0}
        if len(origins):
            self.shares_ = best_shares(self.backtest_)
            self.blind_shares_ = blind_shares(self.backtest_, _blind(values, origins), self.shares_)
        self.parts_ = self._fitted_parts(given, wanted, days)
        graphs = given.graphs_until(days)
        self._graph = graphs[-1]
        scores = np.empty((0, int(self.horizon), regions))
        self._measure = "smoothing"
        if len(origins):
            own = self._mixture(values, origins, self.backtest_.forecasts)
            self.backtest_.forecasts["forecast"] = own
            errors = np.where(self.backtest_.scale > 0, self.backtest_.truth - own, np.nan)
            filters = self.parts_.filtered(values, graphs, origins, int(self.horizon), given.covariates)
            sizes = {name: as_before(size, expected[name]) for name, (_, size) in filters.items() if name in expected}
            self._measure = likeliest_deviation(errors, sizes)
            scores = errors / np.maximum(sizes[self._measure], 1e-12)
        self.spread_ = spread_of(scores, self.backtest_.origins)
        middle, deviation = self._mixed(values, graphs, np.array([days]), given.covariates)
        self._forecast, self._deviation = middle[0], deviation[0]
        return self

    def predict(
        self, horizon: int | None = None, *, values: Any = None, graph: Any = None, covariates: Any = None
    ) -> Array:
        """Forecast the days after the last one.

        Parameters
        ----------
        horizon
            How many of them, at most and by default the forecaster's own ``horizon``.
        values, graph
            Days to continue from, instead of the training days, and the graph of the last of them. They begin where the
            training days began, or whole seasons later.
        covariates
            What is known of the coming days, instead of what the fit was told: (forecaster's horizon, columns), or with
            an axis for the series; with ``values``, of their days and the coming ones.

        Returns
        -------
        ndarray of shape (horizon, n_regions)
        """
        return self._coming(horizon, values, graph, covariates)[0]

    def predict_quantiles(
        self,
        quantiles: Sequence[float] = (0.1, 0.5, 0.9),
        horizon: int | None = None,
        *,
        values: Any = None,
        graph: Any = None,
        covariates: Any = None,
    ) -> Array:
        """Quantiles of the coming days, (quantiles, horizon, n_regions), from the errors of the back-test.

        Errors are taken in units of what the filter expects at that time, so that a series with a long hole has wide
        quantiles, and pooled over series. NaN where the back-test had no known value to compare with.
        """
        middle, deviation = self._coming(horizon, values, graph, covariates)
        scores = self.spread_.quantiles(quantiles)[:, : len(middle), None]
        # A constant series is its value.
        moved = np.where(deviation > 0, np.where(deviation > 0, scores, 0.0) * deviation, 0.0)
        return self._clipped(middle + moved)

    def predict_frame(self, levels: Sequence[float] = (80, 95)) -> Any:
        """The forecast as a long data frame: ``unique_id``, ``ds``, ``forecast``, and ``lo-80``, ``hi-80``, ...

        ``ds`` goes on as the times of the data frame that was fitted; steps from 1 on where there was none.
        """
        import pandas as pd

        middle = self.predict()
        chances = [0.5 + sign * level / 200 for level in levels for sign in (-1, 1)]
        bands = self.predict_quantiles(chances) if chances else np.empty((0, *middle.shape))
        times = self.times_[-len(middle) :] * self.n_regions_
        columns = {"unique_id": np.repeat(self.names_, len(middle)), "ds": times, "forecast": middle.T.ravel()}
        ends = [f"{end}-{level:g}" for level in levels for end in ("lo", "hi")]
        return pd.DataFrame(columns | {end: band.T.ravel() for end, band in zip(ends, bands, strict=True)})

    def sample(self, n: int = 100, horizon: int | None = None, *, random_state: Any = None) -> Array:
        """Possible futures, (n, horizon, n_regions): errors that occurred together stay together."""
        middle, deviation = self._coming(horizon)
        random = check_random_state(self.random_state if random_state is None else random_state)
        if not len(self.spread_.scores):
            raise InvalidInputError("there are too few days for a back-test, so that nothing is known of errors")
        scores = np.nan_to_num(self.spread_.paths(n, random)[:, : len(middle)])
        return self._clipped(middle + scores * deviation)

    @property
    def graph_(self) -> Graph:
        """The graph of the last day: given, or found."""
        check_is_fitted(self)
        return self._graph

    @property
    def known_values_(self) -> Array:
        """The training days, (days, series), NaN where a value is missing."""
        check_is_fitted(self)
        return self._given.values

    @one_thread()
    def impute(self) -> Imputed:
        """The training days without holes, and how sure each filled value is."""
        check_is_fitted(self)
        values = self._given.values
        return fill(
            values,
            self._given.graphs_until(len(values)),
            self.season_,
            self._given.covariates,
            self._lowest,
            check_random_state(self.random_state),
        )

    def cross_validation(
        self,
        values: Any,
        graph: Any = None,
        *,
        n_windows: int = 3,
        step: int | None = None,
        quantiles: Sequence[float] = (0.025, 0.1, 0.9, 0.975),
        positions: Any = None,
        static: Any = None,
        covariates: Any = None,
    ) -> CrossValidation:
        """Fit a copy on the days before each of several windows, and forecast it: how good the forecaster would be.

        The windows are the last ones, ``step`` days apart (by default ``horizon``). All that is chosen is chosen again
        in each, so that nothing of a window is known before. Values, graph and the rest are as those of :meth:`fit`.
        """
        table = _table_of(values)
        values = checked_values(values if table is None else table.values)
        horizon, (days, regions) = int(self.horizon), values.shape
        step = horizon if step is None else step
        origins = [days - horizon - step * back for back in range(n_windows)][::-1]
        if n_windows < 1 or step < 1 or origins[0] < 2:
            raise InvalidInputError(
                f"{n_windows} windows of {horizon} days, {step} apart, need "
                f"{horizon + step * (n_windows - 1) + 2} days, but there are {days}"
            )
        graphs = None if graph is None else day_graphs(graph, days, regions)
        found = []
        for origin in origins:
            until = None if graphs is None else (graphs[:origin] if len(graphs) > 1 else graphs[0])
            known = None if covariates is None else np.asarray(covariates)[: origin + horizon]
            copy = clone(self)
            if table is not None and isinstance(self.season, str) and table.calendar.season is not None:
                copy.season = table.calendar.season or None
            model = copy.fit(values[:origin], until, positions=positions, static=static, covariates=known)
            found.append((model.predict(), model.predict_quantiles(quantiles), model.shares_))
        truth = np.stack([values[origin : origin + horizon] for origin in origins])
        forecasts, bands, shares = zip(*found, strict=True)
        names = [str(series) for series in range(regions)] if table is None else list(table.names)
        times = [str(day) for day in range(days)] if table is None else list(table.days)
        return CrossValidation(
            origins, truth, np.stack(forecasts), tuple(quantiles), np.stack(bands), list(shares), names, times
        )

    def shares_in_words(self) -> str:
        """A line that says what the forecast is made of."""
        check_is_fitted(self)
        if not can_choose(self.backtest_.origins, len(self._given.values), int(self.horizon)):
            return (
                f"too few days to back-test a horizon of {self.horizon}: the forecast is the {next(iter(self.shares_))}"
            )
        said = f"the forecast is {_in_words(self.shares_)}"
        if self.shares_.keys() <= set(SIMPLE):
            said += " (nothing was better in the back-test)"
        if self.blind_shares_ != self.shares_ and np.isnan(self._given.values[-1]).any():
            said += f"; where the last step is missing, {_in_words(self.blind_shares_)}"
        return said

    # ---- within ---------------------------------------------------------------------------------------------------

    def _wanted(self, regions: int) -> tuple[str, ...]:
        if isinstance(self.parts, str):
            # The diffusion is the smoothing with shared shocks, of which it may find none; one series shares nothing.
            return tuple(part for part in PARTS if part != ("smoothing" if regions > 1 else "diffusion"))
        names = tuple(self.parts)
        for name in names:
            if name not in PARTS:
                raise InvalidInputError(f"unknown part {name!r}{did_you_mean(str(name), PARTS)}: {', '.join(PARTS)}")
        if not names:
            raise InvalidInputError(f"name at least one part of {', '.join(PARTS)}")
        return names

    def _season(self, values: Array, usual: tuple[int, ...] | None) -> tuple[int, ...]:
        if isinstance(self.season, str) and usual is not None:
            return usual
        if isinstance(self.season, str):
            found = usual_season(values)
            return (found,) if found else ()
        if self.season is None:
            return ()
        periods = tuple(int(each) for each in np.atleast_1d(self.season))
        if min(periods, default=2) < 2:
            raise InvalidInputError(f"a season has at least 2 steps, not {min(periods)}")
        return periods

    def _network_settings(self) -> NetworkSettings:
        return NetworkSettings(**{each.name: getattr(self, each.name) for each in fields(NetworkSettings)})

    def _fitted_parts(self, given: Given, wanted: tuple[str, ...], day: int) -> Parts:
        covariates = None if given.covariates is None else given.covariates[:day]
        return fit_parts(
            wanted,
            given.values[:day],
            given.graphs_until(day),
            self.season_,
            covariates,
            self._network_settings(),
            self.random_state,
            # Whatever is negative on a later day, the final fit has no logarithms to give a share to.
            logs=bool(np.nanmin(given.values) >= 0),
        )

    def _tested(self, given: Given, wanted: tuple[str, ...]) -> tuple[Backtest, dict[str, Array]]:
        """The back-test of the parts, and the deviations that the filters among them expected."""
        values, horizon = given.values, int(self.horizon)
        lags = int(self.lags) if wanted == ("network",) else 0
        origins = fold_origins(values, horizon, int(self.folds), lags, self.season_)
        if not len(origins):
            return Backtest([], np.empty((0, horizon, self.n_regions_)), {}, steps_between(values)), {}
        if not can_choose(origins, len(values), horizon):
            wanted = wanted[:1]
        # Longer seasons that the back-test could not learn are not tried without it.
        self.season_ = self.season_[:1] + tuple(period for period in self.season_[1:] if 2 * period <= origins[0])
        return back_test(given, origins, horizon, lambda day: self._fitted_parts(given, wanted, day))

    def _mixed(
        self, values: Array, graphs: Sequence[Graph], origins: NDArray[np.int64], covariates: Array | None
    ) -> tuple[Array, Array]:
        """Forecasts and the deviations that are expected of them."""
        found, deviations = self.parts_.forecasts(values, graphs, origins, int(self.horizon), covariates)
        # A constant series is its value.
        expected = np.where(self.backtest_.scale > 0, deviations[self._measure], 0.0)
        return self._mixture(values, origins, found), expected

    def _mixture(self, values: Array, origins: NDArray[np.int64], parts: dict[str, Array]) -> Array:
        """Parts with their shares, which may differ where the last step before an origin is a hole."""
        seen, blind = (mixed(parts, shares) for shares in (self.shares_, self.blind_shares_))
        return self._clipped(np.where(_blind(values, origins)[:, None], blind, seen))

    def _clipped(self, forecast: Array) -> Array:
        return np.maximum(forecast, self._lowest)

    @one_thread()
    def _coming(
        self, horizon: int | None, values: Any = None, graph: Any = None, covariates: Any = None
    ) -> tuple[Array, Array]:
        check_is_fitted(self)
        steps = self.horizon if horizon is None else horizon
        if not isinstance(steps, int | np.integer) or not 1 <= steps <= self.horizon:
            raise InvalidInputError(
                f"the forecaster was fitted for a horizon of 1 .. {self.horizon} days, not {horizon!r}: fit it with "
                "a longer one"
            )
        if values is None and graph is None and covariates is None:
            return self._forecast[:steps], self._deviation[:steps]
        known = self._given.values if values is None else checked_values(values)
        last = self._graph if graph is None else day_graphs(graph, len(known), known.shape[1])[-1]
        if known.shape[1] != self.n_regions_ or last.n_nodes != self.n_regions_:
            raise InvalidInputError(
                f"the forecaster was fitted on {self.n_regions_} regions, but values have {known.shape[1]} and the "
                f"graph has {last.n_nodes}"
            )
        given = self._told(covariates, None if values is None else len(known))
        middle, deviation = self._mixed(known, [last], np.array([len(known)]), given)
        return middle[0, :steps], deviation[0, :steps]

    def _told(self, covariates: Any, days: int | None) -> Array | None:
        """Covariates of all days and the coming ones; without ``days`` those of the training days are known."""
        fitted = self._given.covariates
        if fitted is None:
            if covariates is not None:
                raise InvalidInputError("the forecaster was fitted without covariates: fit it with them")
            return None
        if covariates is None:
            if days is None:
                return fitted
            raise InvalidInputError(f"give covariates of the {days} days and of the {self.horizon} to come as well")
        found = checked_covariates(covariates, days or 0, self.n_regions_, int(self.horizon))
        if found is None or found.shape[2] != fitted.shape[2]:
            raise InvalidInputError(f"the forecaster was fitted with {fitted.shape[2]} covariates: give as many")
        return found if days is not None else np.concatenate([fitted[: len(fitted) - int(self.horizon)], found])

    def _state(self) -> dict[str, Any]:
        values, graphs, covariates, _ = self._given
        check_reach(int(self.layers), float(self.strength), self._graph.weights)
        tested = self.backtest_
        return {
            "values": values,
            "graphs": None if graphs is None else [graph.weights for graph in graphs],
            "graph": self._graph.weights,
            "covariates": covariates,
            "season": list(self.season_),
            "lowest": self._lowest,
            "shares": self.shares_,
            "blind_shares": self.blind_shares_,
            "forecast": self._forecast,
            "deviation": self._deviation,
            "scores": self.spread_.scores,
            "measure": self._measure,
            "names": self.names_,
            "times": self.times_,
            "backtest": {"origins": tested.origins, "truth": tested.truth, "forecasts": tested.forecasts},
            "scale": tested.scale,
            "parts": saved_parts(self.parts_),
        }

    def _restore(self, state: dict[str, Any]) -> None:
        graphs = None if state["graphs"] is None else [Graph.of(each) for each in state["graphs"]]
        check_reach(self.layers, self.strength, state["graph"])
        self._given = Given(state["values"], graphs, state["covariates"], self.neighbours)
        self._graph = Graph.of(state["graph"])
        self.n_regions_, self.season_ = state["values"].shape[1], tuple(state["season"])
        self.names_, self.times_ = list(state["names"]), list(state["times"])
        self._lowest = state["lowest"]
        self.shares_, self.blind_shares_ = dict(state["shares"]), dict(state["blind_shares"])
        self._forecast, self._deviation = state["forecast"], state["deviation"]
        if len(self._forecast) != self.horizon:
            raise InvalidInputError(f"there are forecasts of {len(self._forecast)} days for {self.horizon}")
        self.backtest_ = Backtest(**state["backtest"], scale=state["scale"])
        self.spread_, self._measure = spread_of(state["scores"], self.backtest_.origins), state["measure"]
        settings = self._network_settings()
        self.parts_ = restored_parts(state["parts"], self._wanted(self.n_regions_), self.season_, settings)
        unknown = (self.shares_.keys() | self.blind_shares_.keys()) - self.parts_.names
        unknown |= {self._measure} - self.parts_.filters
        if unknown or not self.shares_ or not self.blind_shares_:
            raise InvalidInputError(f"there are shares of parts that are not there: {sorted(unknown)}")


def _table_of(values: Any) -> SeriesFile | None:
    """What has names and times: a panel that was read, or a data frame."""
    if isinstance(values, SeriesFile):
        return values
    return series_of(values) if hasattr(values, "columns") else None


def _blind(values: Array, origins: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Where the last step before an origin is a hole, (origins, series)."""
    return np.isnan(values[origins - 1])


def _in_words(shares: dict[str, float]) -> str:
    if len(shares) == 1:
        return f"the {next(iter(shares))}"
    ordered = sorted(shares.items(), key=lambda each: -each[1])
    return ", ".join(f"{100 * share:.0f} % {name}" for name, share in ordered)
