"""The forecaster of series on a graph, with holes in what it learns from and in what it looks back on."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from condiff.errors import InvalidInputError
from condiff.estimators.series import Array, checked_values, day_graphs, standards
from condiff.graph import DenseLaplacian, Graph
from condiff.graph.sequence import directed_laplacians
from condiff.model import COIN
from condiff.training import Training
from condiff.training.panel import fit_panel

# With train_days="auto": the fewest days to learn from, and the fewest known values.
_RECENT_DAYS, _FEWEST_TARGETS = 14, 200


class PanelForecaster(BaseEstimator):  # type: ignore[misc]
    """Forecast the coming days of many regions at once, with a network whose output is diffused over their graph.

    Every region is scaled to mean zero and variance one by its known values. From what it looks back on, the forecast
    takes the region's recent level and adds a correction: that of a small residual network of the last ``lags`` days,
    diffused over the graph. A value that is missing counts as the region's mean where it is looked back on, and not at
    all where it should be forecast. All days of the horizon are outputs of one network.

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
        By which the regions are standardised. A region with fewer than two known values has those of all values
        together; one that never changes has the scale zero, so that its forecast is its value.
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
            One graph for all days, or a sequence of one a day: anything that :meth:`condiff.Graph.of` accepts. Weights
            may be directed; row i lists what region i averages over. A forecast is diffused over the graph of the last
            day that it looks back on.
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
        histories = fit_panel(
            self.models_,
            torch.from_numpy(windows.inputs[used]).float(),
            # The graph of the last day that a snapshot looks back on.
            _operator(weights[self.lags - 1 :][used] if len(weights) > 1 else weights),
            torch.from_numpy(targets[used]).float(),
            settings=Training(
                "adam", self.learning_rate, weight_decay=self.weight_decay, epochs=self.epochs, patience=None
            ),
            seeds=seeds,
        )
        self.losses_ = np.array([history.losses[-1] for history in histories])
        self._last = values[-self.lags :], weights[-1]
        return self

    def predict(self, horizon: int | None = None, *, values: Any = None, graph: Any = None) -> Array:
        """Forecast the days after the last one.

        Parameters
        ----------
        horizon
            How many of them, at most as many as the forecaster was made for, which is the default.
        values, graph
            Days to go on from, in the place of those that were learned from, and the graph of the last of them; of the
            days only the last ``lags`` count.

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

    def _first(self, targets: Array) -> int:
        """The first snapshot to learn from."""
        known = (~np.isnan(targets)).sum(axis=(1, 2))
        days = len(known) if self.train_days is None else self.train_days
        if self.train_days == "auto":
            enough = np.searchsorted(known[::-1].cumsum(), _FEWEST_TARGETS) + 1
            days = max(_RECENT_DAYS, int(enough))
        # Further back where none of these has a known value to learn from.
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
        """What is looked back on, every ``lags`` days in a row."""
        lagged = np.lib.stride_tricks.sliding_window_view(scaled, self.lags, axis=0)
        known = ~np.isnan(lagged)
        inputs = np.where(known, lagged, 0.0)
        level = inputs.sum(axis=2) / (known.sum(axis=2) + 1)
        return _Windows(inputs, level if self.level == "recent" else np.zeros_like(level))


class _Windows(NamedTuple):
    """Inputs (snapshots, regions, lags) without NaN, and what the network's answer is added to."""

    inputs: Array
    level: Array


def _operator(graphs: Sequence[Graph]) -> DenseLaplacian:
    found = directed_laplacians(graphs)
    # One graph serves any number of snapshots.
    return found if len(graphs) > 1 else DenseLaplacian(found.weights[0], symmetric=found.symmetric)


def _lowest(non_negative: Any, values: Array) -> float:
    clip = np.nanmin(values) >= 0 if non_negative == "auto" else bool(non_negative)
    return 0.0 if clip else -np.inf
