"""A network that corrects what is known of a series by itself; its output is diffused over the graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from condiff.errors import InvalidInputError
from condiff.estimators.forecasting.structure import Structure, filtered, standards
from condiff.graph import DenseLaplacian, Graph
from condiff.graph.batch import directed_laplacians
from condiff.model import COIN
from condiff.training import Problem, Training, fit

Array = NDArray[np.float64]

# With train_days="auto": the fewest days to learn from, and the fewest known values.
_RECENT_DAYS, _FEWEST_TARGETS = 14, 200


@dataclass(frozen=True)
class NetworkSettings:
    """The parameters of :class:`PanelForecaster` that are the network's."""

    horizon: int
    lags: int
    train_days: Any
    level: str
    hidden: int
    layers: int
    strength: float
    dropout: float
    epochs: int
    learning_rate: float
    weight_decay: float
    n_inits: int

    def build(self, seed: int) -> COIN:
        """One network."""
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


class _Windows(NamedTuple):
    """Inputs (snapshots, regions, lags) without NaN, and the forecast to correct (snapshots, horizon, regions)."""

    inputs: Array
    level: Array


class Network:
    """Networks of several initialisations, whose corrections are averaged.

    Attributes
    ----------
    mean, scale
        For standardising the regions.
    models
        The networks.
    losses
        Their last training losses.
    """

    def __init__(self, settings: NetworkSettings, mean: Array, scale: Array, models: list[COIN], losses: Array) -> None:
        self.settings, self.mean, self.scale, self.models, self.losses = settings, mean, scale, models, losses

    @classmethod
    def fit(
        cls,
        settings: NetworkSettings,
        values: Array,
        graphs: Sequence[Graph],
        structure: Structure,
        covariates: Array | None,
        random_state: Any,
    ) -> Self:
        """Learn from all days, of which ``graphs`` has one or one each."""
        days, lags, horizon = len(values), settings.lags, settings.horizon
        if days < lags + horizon:
            raise InvalidInputError(
                f"{lags} lags and a horizon of {horizon} need {lags + horizon} days, but there are "
                f"{days}: give more days, or fewer lags"
            )
        mean, scale = standards(values)
        random = check_random_state(random_state)
        seeds = random.randint(2**31 - 1, size=settings.n_inits).tolist()
        self = cls(settings, mean, scale, [settings.build(seed) for seed in seeds], np.zeros(len(seeds)))
        snapshots = days - lags - horizon + 1
        origins = np.arange(lags, lags + snapshots)
        windows = self._windows(values, origins, structure, covariates)
        # (snapshots, regions, horizon)
        targets = np.lib.stride_tricks.sliding_window_view(self._scaled(values)[lags:], horizon, axis=0)
        targets = targets - windows.level.swapaxes(1, 2)
        if np.isnan(targets).all():
            raise InvalidInputError(
                f"no value is known after the first {lags} days, so there is nothing to learn from: give more"
            )
        used = slice(first_snapshot(targets, settings.train_days), snapshots)
        problem = Problem(
            self.models[0],
            torch.from_numpy(windows.inputs[used]).float(),
            # The graph of the last day that a snapshot looks back on.
            _operator(graphs[lags - 1 :][used] if len(graphs) > 1 else graphs),
            torch.from_numpy(targets[used]).float(),
            settings=Training(
                "adam",
                settings.learning_rate,
                weight_decay=settings.weight_decay,
                epochs=settings.epochs,
                patience=None,
            ),
        )
        pairs = zip(self.models, seeds, strict=True)
        fitted = fit([problem.replace(model=model, seed=seed) for model, seed in pairs])
        self.losses = np.array([each.losses[-1] for each in fitted])
        return self

    def forecasts(
        self,
        values: Array,
        graphs: Sequence[Graph],
        origins: NDArray[np.int64],
        structure: Structure,
        covariates: Array | None,
    ) -> Array:
        """Forecasts begun at each origin from the days before, (origins, horizon, regions)."""
        short = max(self.settings.lags - int(origins.min()), 0)
        if short:  # days that are not there are missing; whole seasons of them, to keep the place in the season
            short += -short % int(np.lcm.reduce(structure.effects.periods or (1,)))
            empty = np.full((short, values.shape[1]), np.nan)
            values, origins = np.concatenate([empty, values]), origins + short
            covariates = (
                None if covariates is None else np.concatenate([np.zeros((short, *covariates.shape[1:])), covariates])
            )
        windows = self._windows(values, origins, structure, covariates)
        found = []
        for inputs, origin in zip(windows.inputs, origins.tolist(), strict=True):
            operator = directed_laplacians([graphs[min(origin - short, len(graphs)) - 1]])
            with torch.no_grad():
                one = torch.from_numpy(inputs[None]).float()
                found.append(torch.stack([net(one, operator)[0] for net in self.models]).double().mean(0).numpy().T)
        corrected = np.stack(found) + windows.level
        return np.asarray(corrected * self.scale + self.mean)

    def _scaled(self, values: Array) -> Array:
        return np.asarray((values - self.mean) / np.where(self.scale > 0, self.scale, 1.0))

    def _windows(
        self, values: Array, origins: NDArray[np.int64], structure: Structure, covariates: Array | None
    ) -> _Windows:
        lags, horizon = self.settings.lags, self.settings.horizon
        scaled = self._scaled(values)
        lagged = np.lib.stride_tricks.sliding_window_view(scaled, lags, axis=0)[origins - lags]
        known = ~np.isnan(lagged)
        inputs = np.where(known, lagged, 0.0)
        level = np.zeros((len(origins), horizon, values.shape[1]))
        if self.settings.level == "recent":
            level += (inputs.sum(axis=2) / (known.sum(axis=2) + 1))[:, None]
        if self.settings.level == "structure":
            level += self._scaled(structure.forecasts(values, origins, horizon, covariates)[0])
            surprise = filtered(structure.left(values, covariates), structure.trend)
            inputs = surprise.error / np.sqrt(surprise.variance)
            inputs = np.lib.stride_tricks.sliding_window_view(inputs, lags, axis=0)[origins - lags]
            inputs = np.where(np.isnan(inputs), 0.0, inputs)
        return _Windows(inputs, level)


def first_snapshot(targets: Array, train_days: Any) -> int:
    """The first snapshot to learn from."""
    known = (~np.isnan(targets)).sum(axis=(1, 2))
    days = len(known) if train_days is None else train_days
    if train_days == "auto":
        enough = np.searchsorted(known[::-1].cumsum(), _FEWEST_TARGETS) + 1
        days = max(_RECENT_DAYS, int(enough))
    # Go further back if none of these has a known value to learn from.
    return min(max(len(known) - days, 0), int(np.flatnonzero(known)[-1]))


def _operator(graphs: Sequence[Graph]) -> DenseLaplacian:
    found = directed_laplacians(graphs)
    # One graph serves any number of snapshots.
    return found if len(graphs) > 1 else DenseLaplacian(found.weights[0], symmetric=found.symmetric)
