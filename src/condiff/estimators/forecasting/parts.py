"""The parts that a forecast is mixed from, fitted together and asked for forecasts from any origin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from condiff.errors import InvalidInputError
from condiff.estimators.forecasting.diffused import Diffused, fit_diffused
from condiff.estimators.forecasting.network import Network, NetworkSettings
from condiff.estimators.forecasting.regression import Autoregression
from condiff.estimators.forecasting.structure import Structure, drift, fit_structure, naive, seasonal_naive
from condiff.graph import Graph

Array = NDArray[np.float64]

#: What a forecast may be mixed from. ``smoothing`` and ``diffusion`` also come of the logarithms of values.
PARTS = ("last value", "seasonal naive", "drift", "smoothing", "diffusion", "autoregression", "network")
_LOGS = " of logs"


@dataclass(frozen=True, eq=False)
class Parts:
    """Fitted parts.

    Attributes
    ----------
    wanted
        Their names, of :data:`PARTS`.
    periods
        Of the seasons.
    structures, diffused
        Of the values and, where they are, of their logarithms.
    regression, network
        What corrects the structure.
    """

    wanted: tuple[str, ...]
    periods: tuple[int, ...]
    structures: list[Structure]
    diffused: list[Diffused] = field(default_factory=list)
    regression: Autoregression | None = None
    network: Network | None = None

    @property
    def names(self) -> set[str]:
        """What :meth:`forecasts` has forecasts of."""
        found: set[str] = {part for part in ("last value", "drift") if part in self.wanted}
        found |= {"seasonal naive"} if "seasonal naive" in self.wanted and self.periods else set()
        found |= {name for name in self.filters if name.startswith("diffusion") or "smoothing" in self.wanted}
        found |= {"autoregression"} if self.regression is not None else set()
        return found | ({"network"} if self.network is not None else set())

    @property
    def filters(self) -> set[str]:
        """What :meth:`filtered` has forecasts of."""
        found = {"smoothing" + _LOGS * each.logs for each in self.structures}
        return found | {"diffusion" + _LOGS * each.structure.logs for each in self.diffused}

    def forecasts(
        self,
        values: Array,
        graphs: Sequence[Graph],
        origins: NDArray[np.int64],
        horizon: int,
        covariates: Array | None = None,
    ) -> tuple[dict[str, Array], dict[str, Array]]:
        """Forecasts begun at each origin from the days before it, (origins, horizon, series), by part.

        The second dictionary has the expected deviations of the parts that have them.
        """
        found: dict[str, Array] = {}
        filters = self.filtered(values, graphs, origins, horizon, covariates)
        if "last value" in self.wanted:
            found["last value"] = naive(values, origins, horizon)
        if "seasonal naive" in self.wanted and self.periods:
            found["seasonal naive"] = seasonal_naive(values, origins, horizon, self.periods[0])
        if "drift" in self.wanted:
            found["drift"] = drift(values, origins, horizon)
        found |= {name: both[0] for name, both in filters.items() if name in self.names}
        if self.regression is not None:
            found["autoregression"] = self.regression.forecasts(values, graphs, origins, self.structures[0], covariates)
        if self.network is not None:
            found["network"] = self.network.forecasts(values, graphs, origins, self.structures[0], covariates)
        return found, {name: both[1] for name, both in filters.items()}

    def filtered(
        self,
        values: Array,
        graphs: Sequence[Graph],
        origins: NDArray[np.int64],
        horizon: int,
        covariates: Array | None,
    ) -> dict[str, tuple[Array, Array]]:
        """Forecasts and expected deviations of the parts that are filters."""
        found = {
            "smoothing" + _LOGS * each.logs: each.forecasts(values, origins, horizon, covariates)
            for each in self.structures
        }
        for joint in self.diffused:
            both = joint.forecasts(values, graphs, origins, horizon, covariates)
            found["diffusion" + _LOGS * joint.structure.logs] = both
        return found


def fit_parts(
    wanted: tuple[str, ...],
    values: Array,
    graphs: Sequence[Graph],
    periods: tuple[int, ...],
    covariates: Array | None,
    settings: NetworkSettings,
    random_state: Any,
    logs: bool = False,
) -> Parts:
    """Fit parts to values and their graphs, one for all days or one each; ``logs`` also to the logarithms.

    The autoregression and the network are left out where there are too few days for them, unless they are the only
    part.
    """
    both = [False, True] if logs and {"smoothing", "diffusion"} & set(wanted) else [False]
    structures = [fit_structure(values, periods, covariates, logs=each) for each in both]
    diffused = []
    if "diffusion" in wanted:
        diffused = [fit_diffused(structure, values, graphs, covariates) for structure in structures]
    found: dict[str, Any] = {"autoregression": None, "network": None}
    fits: dict[str, Callable[[], Any]] = {
        "autoregression": lambda: Autoregression.fit(values, graphs, structures[0], covariates, settings.horizon),
        "network": lambda: Network.fit(settings, values, graphs, structures[0], covariates, random_state),
    }
    for part in (part for part in fits if part in wanted):
        try:
            found[part] = fits[part]()
        except InvalidInputError:
            if len(wanted) == 1:
                raise
    return Parts(wanted, periods, structures, diffused, found["autoregression"], found["network"])
