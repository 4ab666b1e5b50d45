"""The forecaster of series on a graph, with missing values in targets and inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from condiff.errors import InvalidInputError
from condiff.estimators.saving import Saveable
from condiff.estimators.state import check_reach
from condiff.graph import DenseLaplacian, Graph
from condiff.graph.batch import directed_laplacians
from condiff.model import COIN
from condiff.training import Problem, Training, fit

Array = NDArray[np.float64]


def checked_values(source: Any) -> Array:
    """The values as float64, days x regions, NaN where missing."""
    try:
        values = np.array(source, dtype=np.float64)
    except (ValueError, TypeError) as error:
        raise InvalidInputError(f"values must be numbers, days x regions ({error})") from error
    if values.ndim != 2 or 0 in values.shape:
        raise InvalidInputError(f"values must be days x regions, at least one each, not of shape {values.shape}")
    infinite = np.argwhere(np.isinf(values))
    if infinite.size:
        day, region = infinite[0]
        raise InvalidInputError(f"the value of region {region} on day {day} is infinite: correct it, or write NaN")
    return values


def day_graphs(graph: Any, days: int, regions: int) -> Sequence[Graph]:
    """One graph, or one per day, each with one node per region."""
    several = _is_sequence(graph)
    graphs = [Graph.of(each) for each in graph] if several else [Graph.of(graph)]
    if several and len(graphs) != days:
        raise InvalidInputError(f"there are {days} days but {len(graphs)} graphs: give one for all, or one per day")
    for day, each in enumerate(graphs):
        if each.n_nodes != regions:
            which = f"graph {day}" if several else "the graph"
            raise InvalidInputError(f"{which} joins {each.n_nodes} regions, but the values are of {regions}")
    return graphs


def _is_sequence(graph: Any) -> bool:
    """Whether these are graphs, rather than one graph, perhaps as a list of the rows of its matrix."""
    if hasattr(graph, "ndim"):
        return bool(graph.ndim == 3)
    if not isinstance(graph, list | tuple) or not graph:
        return False
    if isinstance(graph[0], list | tuple):
        return len(graph[0]) > 0 and isinstance(graph[0][0], list | tuple)
    # A row of a matrix has one axis, a matrix two, and other descriptions of a graph have none.
    return bool(getattr(graph[0], "ndim", 2) == 2)


def standards(values: Array) -> tuple[Array, Array]:
    """Mean and scale of each region, those of all known values together where a region has fewer than two."""
    known = ~np.isnan(values)
    if not known.any():
        raise InvalidInputError("no value is known at all: there is nothing to learn from")
    together = values[known]
    counts = known.sum(axis=0)
    mean = np.where(known, values, 0.0).sum(axis=0) / np.maximum(counts, 1)
    scale = np.sqrt(np.where(known, (values - mean) ** 2, 0.0).sum(axis=0) / np.maximum(counts, 1))
    # The mean of equal numbers differs from them by rounding, which must not be amplified to a signal.
    low = np.min(values, axis=0, initial=np.inf, where=known)
    constant = low == np.max(values, axis=0, initial=-np.inf, where=known)
    mean, scale = np.where(constant, low, mean), np.where(constant, 0.0, scale)
    few = counts < 2
    return np.where(few, together.mean(), mean), np.where(few, together.std(), scale)


# With train_days="auto": the fewest days to learn from, and the fewest known values.
_RECENT_DAYS, _FEWEST_TARGETS = 14, 200


class PanelForecaster(Saveable):
    """Forecast the coming days of many regions at once, with a network whose output is diffused over their graph.

    Every region is scaled to mean zero and variance one by its known values. The forecast is the region's recent level
    plus a correction: the output of a small residual network of the last ``lags`` days, diffused over the graph. A
    missing value counts as the region's mean as an input, and not at all as a target. All days of the horizon are
    outputs of one network.

    Parameters
    ----------
    horizon
        Days to forecast.
    lags
        Days to look back on.
    train_days
        How many of the last days, each with its ``horizon``, to learn from; None for all. ``auto``: 14, or as many as
        it takes to have 200 known values: the course of an epidemic changes within weeks.
    level
        What the network corrects. ``recent``: the mean of the known values among the lags, with the region's mean
        counted as one more. ``mean``: the region's mean, which is the paper's network.
    hidden
        Hidden units of the network.
    layers, strength
        The diffusion; it is solved exactly, so that no strength is too large.
    dropout
        Probability with which outputs are dropped before each layer in training.
    epochs, learning_rate, weight_decay
        Of Adam.
    n_inits
        Networks whose forecasts are averaged.
    non_negative
        Whether forecasts below zero become zero; ``auto``: where no known value is below zero.
    random_state
        Seed of initialisations and dropout.

    Attributes
    ----------
    mean_, scale_ : ndarray of shape (n_regions,)
        For standardising the regions. A region with fewer than two known values has those of all values together; a
        constant one has the scale zero, so that its forecast is its value.
    models_ : list of COIN
        The networks.
    losses_ : ndarray of shape (n_inits,)
        Their last training losses.
    n_regions_ : int
        The number of regions.

    Notes
    -----
    A day's graph is a dense matrix of regions x regions here, one for every training day where the graph changes.

    Examples
    --------
    >>> import numpy as np
    >>> from condiff.estimators.forecaster import PanelForecaster
    >>> day, region = np.arange(60)[:, None], np.arange(12)
    >>> values = 50 + 20 * np.sin(2 * np.pi * (day + region) / 14)
    >>> values[np.random.default_rng(0).random(values.shape) < 0.5] = np.nan  # half of them missing
    >>> ring = np.roll(np.eye(12), 1, axis=1) + np.roll(np.eye(12), -1, axis=1)
    >>> forecast = PanelForecaster(horizon=3).fit(values, ring).predict()
    >>> forecast.shape
    (3, 12)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "horizon": [Interval(Integral, 1, None, closed="left")],
        "lags": [Interval(Integral, 1, None, closed="left")],
        "train_days": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"}), None],
        "level": [StrOptions({"recent", "mean"})],
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
        lags: int = 8,
        train_days: Any = "auto",
        level: str = "recent",
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

    def fit(self, values: Any, graph: Any) -> Self:
        """Learn from all days.

        Parameters
        ----------
        values
            (days, regions), the oldest day first, NaN where a value is missing.
        graph
            One graph for all days, or a sequence of one per day: anything that :meth:`condiff.Graph.of` accepts.
            Weights may be directed; row i lists what region i averages over. A forecast is diffused over the graph of
            the last day that it looks back on.
        """
        self._validate_params()
        values = checked_values(values)
        days, regions = values.shape
        if days < self.lags + self.horizon:
            raise InvalidInputError(
                f"{self.lags} lags and a horizon of {self.horizon} need {self.lags + self.horizon} days, but there are "
                f"{days}: give more days, or fewer lags"
            )
        weights = day_graphs(graph, days, regions)
        self.n_regions_ = regions
        self.mean_, self.scale_ = standards(values)
        self._lowest = _lowest(self.non_negative, values)
        scaled = self._scaled(values)
        windows = self._windows(scaled)
        snapshots = days - self.lags - self.horizon + 1
        # (snapshots, regions, horizon)
        targets = np.lib.stride_tricks.sliding_window_view(scaled[self.lags :], self.horizon, axis=0)
        targets = targets - windows.level[:snapshots, :, None]
        if np.isnan(targets).all():
            raise InvalidInputError(
                f"no value is known after the first {self.lags} days, so there is nothing to learn from: give more"
            )
        used = slice(self._first(targets), snapshots)
        seeds = check_random_state(self.random_state).randint(2**31 - 1, size=self.n_inits).tolist()
        self.models_ = [self._network(seed) for seed in seeds]
        problem = Problem(
            self.models_[0],
            torch.from_numpy(windows.inputs[used]).float(),
            # The graph of the last day that a snapshot looks back on.
            _operator(weights[self.lags - 1 :][used] if len(weights) > 1 else weights),
            torch.from_numpy(targets[used]).float(),
            settings=Training(
                "adam", self.learning_rate, weight_decay=self.weight_decay, epochs=self.epochs, patience=None
            ),
        )
        pairs = zip(self.models_, seeds, strict=True)
        fitted = fit([problem.replace(model=model, seed=seed) for model, seed in pairs])
        self.losses_ = np.array([each.losses[-1] for each in fitted])
        self._last = values[-self.lags :], weights[-1]
        return self

    def predict(self, horizon: int | None = None, *, values: Any = None, graph: Any = None) -> Array:
        """Forecast the days after the last one.

        Parameters
        ----------
        horizon
            How many of them, at most and by default the forecaster's own ``horizon``.
        values, graph
            Days to continue from, instead of the training days, and the graph of the last of them; only the last
            ``lags`` days count.

        Returns
        -------
        ndarray of shape (horizon, n_regions)
        """
        check_is_fitted(self)
        steps = self.horizon if horizon is None else horizon
        if not isinstance(steps, int | np.integer) or not 1 <= steps <= self.horizon:
            raise InvalidInputError(
                f"the forecaster was fitted for a horizon of 1 .. {self.horizon} days, not {horizon!r}: fit it with "
                "a longer one"
            )
        recent, weights = self._last
        if values is not None:
            recent = checked_values(values)[-self.lags :]
        if graph is not None:
            weights = day_graphs(graph, len(recent), recent.shape[1])[-1]
        if recent.shape[1] != self.n_regions_ or weights.n_nodes != self.n_regions_:
            raise InvalidInputError(
                f"the forecaster was fitted on {self.n_regions_} regions, but values have {recent.shape[1]} and the "
                f"graph has {weights.n_nodes}"
            )
        missing = np.full((self.lags - len(recent), self.n_regions_), np.nan)
        windows = self._windows(self._scaled(np.concatenate([missing, recent])))
        operator = directed_laplacians([weights])
        with torch.no_grad():
            inputs = torch.from_numpy(windows.inputs).float()
            found = torch.stack([network(inputs, operator)[0] for network in self.models_]).double().mean(0).numpy()
        corrected = found.T + windows.level[-1]
        forecast: Array = np.maximum(corrected * self.scale_ + self.mean_, self._lowest)[:steps]
        return forecast

    def _state(self) -> dict[str, Any]:
        values, graph = self._last
        check_reach(int(self.layers), float(self.strength), graph.weights)
        networks = [{k: v.numpy() for k, v in m.convection.state_dict().items()} for m in self.models_]
        return self._fitted() | {"models_": networks, "_last": {"values": values, "graph": graph.weights}}

    def _restore(self, state: dict[str, Any]) -> None:
        last, networks = state.pop("_last"), state.pop("models_")
        self._last = last["values"], Graph.of(last["graph"])
        if len(last["values"]) > self.lags:
            raise InvalidInputError(f"there are {len(last['values'])} recent days for {self.lags} lags")
        check_reach(self.layers, self.strength, last["graph"])
        self.models_ = [self._network(0) for _ in networks]
        for model, arrays in zip(self.models_, networks, strict=True):
            model.convection.load_state_dict({name: torch.as_tensor(value) for name, value in arrays.items()})
            model.eval()
        self.__dict__.update(state)

    def _first(self, targets: Array) -> int:
        """The first snapshot to learn from."""
        known = (~np.isnan(targets)).sum(axis=(1, 2))
        days = len(known) if self.train_days is None else self.train_days
        if self.train_days == "auto":
            enough = np.searchsorted(known[::-1].cumsum(), _FEWEST_TARGETS) + 1
            days = max(_RECENT_DAYS, int(enough))
        # Go further back if none of these has a known value to learn from.
        return min(max(len(known) - days, 0), int(np.flatnonzero(known)[-1]))

    def _network(self, seed: int) -> COIN:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return COIN.build(
                self.lags,
                int(self.horizon),
                hidden_features=int(self.hidden),
                activation="elu",
                head="identity",
                layers=int(self.layers),
                strength=float(self.strength),
                solver="exact",
                dropout=float(self.dropout),
            )

    def _scaled(self, values: Array) -> Array:
        return np.asarray((values - self.mean_) / np.where(self.scale_ > 0, self.scale_, 1.0))

    def _windows(self, scaled: Array) -> _Windows:
        """The inputs: every window of ``lags`` days."""
        lagged = np.lib.stride_tricks.sliding_window_view(scaled, self.lags, axis=0)
        known = ~np.isnan(lagged)
        inputs = np.where(known, lagged, 0.0)
        level = inputs.sum(axis=2) / (known.sum(axis=2) + 1)
        return _Windows(inputs, level if self.level == "recent" else np.zeros_like(level))


class _Windows(NamedTuple):
    """Inputs (snapshots, regions, lags) without NaN, and the level that the network corrects."""

    inputs: Array
    level: Array


def _operator(graphs: Sequence[Graph]) -> DenseLaplacian:
    found = directed_laplacians(graphs)
    # One graph serves any number of snapshots.
    return found if len(graphs) > 1 else DenseLaplacian(found.weights[0], symmetric=found.symmetric)


def _lowest(non_negative: Any, values: Array) -> float:
    clip = np.nanmin(values) >= 0 if non_negative == "auto" else bool(non_negative)
    return 0.0 if clip else -np.inf


_WEEK = 7


@dataclass(frozen=True, eq=False)
class Backtest:
    """Forecasts made from the past alone, and the true values.

    Attributes
    ----------
    origins
        The first forecast day of each fold, counted from 0.
    truth
        (origins, horizon, regions), NaN where the value is missing.
    forecasts
        By method, of the same shape: the forecaster's, and two that need no learning.
    """

    origins: list[int]
    truth: Array
    forecasts: dict[str, Array]

    def mean_absolute_error(self, name: str) -> float:
        """Over all known values; NaN if there are none."""
        errors = np.abs(self.forecasts[name] - self.truth)
        return float(np.nanmean(errors)) if not np.isnan(errors).all() else float("nan")

    def root_mean_square_error(self, name: str) -> float:
        """Over all known values; NaN if there are none."""
        squares = (self.forecasts[name] - self.truth) ** 2
        return float(np.sqrt(np.nanmean(squares))) if not np.isnan(squares).all() else float("nan")

    def margin(self, name: str, scale: Array, coverage: float) -> Array:
        """How far truth was from the forecast at most in ``coverage`` of the cases, (horizon, regions).

        Errors are divided by the regions' ``scale`` and pooled, because a region alone has too few; each day of the
        horizon has a margin of its own. NaN where there was no known value to compare with.
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
        Whose settings to use; it is not changed.
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
            # Values without any known predecessor get what the forecaster assumes for them.
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
