"""Series of many regions, with a graph of the regions for every day and with holes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from condiff.errors import InvalidInputError
from condiff.graph import Graph

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: The paper's proportions of training, validation and test snapshots.
PARTS = (2, 2, 6)

# Draws of a mask before two values per region are set aside first. At 90 % hidden, one draw in five succeeds.
_DRAWS = 200


class Windows(NamedTuple):
    """A panel cut into snapshots: a network's inputs, its targets, and the graph of each.

    Attributes
    ----------
    inputs
        (snapshots, regions, lags), the oldest day first, without NaN.
    targets
        (snapshots, regions), or (snapshots, regions, horizon) for more than one day; NaN where unknown.
    days
        (snapshots,): the day whose graph belongs to the snapshot.
    """

    inputs: NDArray[np.float64]
    targets: NDArray[np.float64]
    days: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Panel:
    """One value for each day and region, and a directed, weighted graph of the regions for each day.

    Parameters
    ----------
    values
        (days, regions); NaN where unknown.
    weights
        One (regions, regions) matrix per day, sparse or dense: row i lists what region i averages over. They are kept
        as canonical CSR arrays.
    names
        The names of the regions, or None where they have only numbers.

    Raises
    ------
    InvalidInputError
        If a shape does not fit, a value is infinite, or a weight is negative, infinite or NaN.
    """

    values: NDArray[np.float64]
    weights: tuple[sp.csr_array, ...]
    names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        values = _checked_values(self.values)
        days, regions = values.shape
        if len(self.weights) != days:
            raise InvalidInputError(f"there are {days} days but {len(self.weights)} graphs: give one graph per day")
        if self.names is not None and len(self.names) != regions:
            raise InvalidInputError(
                f"there are {regions} regions but {len(self.names)} names: give one name per region"
            )
        weights = tuple(_checked_weights(graph, day, regions) for day, graph in enumerate(self.weights))
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "names", None if self.names is None else tuple(map(str, self.names)))

    @property
    def n_days(self) -> int:
        """The number of days."""
        return int(self.values.shape[0])

    @property
    def n_regions(self) -> int:
        """The number of regions."""
        return int(self.values.shape[1])

    def windows(self, lags: int, horizon: int = 1) -> Windows:
        """All windows of ``lags`` days in a row, each with the values of the ``horizon`` days that follow.

        A value that is not known is 0 as an input, which is the region's mean once the panel is :meth:`standardised`,
        and stays NaN as a target. The graph of a snapshot is that of its *first* input day, as in the published
        snapshots of the England data and in the paper; the later days' are not used.
        """
        for name, size in (("lags", lags), ("horizon", horizon)):
            if not isinstance(size, int | np.integer) or size < 1:
                raise InvalidInputError(f"{name} must be a whole number of days, 1 or more, not {size!r}")
        if self.n_days < lags + horizon:
            raise InvalidInputError(
                f"{lags} lags and a horizon of {horizon} need {lags + horizon} days, but the panel has {self.n_days}"
            )
        # (snapshots, regions, lags + horizon)
        windows = np.lib.stride_tricks.sliding_window_view(self.values, lags + horizon, axis=0)
        inputs, targets = windows[..., :lags], windows[..., lags:].copy()
        filled = np.where(np.isnan(inputs), 0.0, inputs)
        return Windows(filled, targets[..., 0] if horizon == 1 else targets, np.arange(len(windows)))

    def standardised(self, days: int | None = None) -> Panel:
        """Each region's values, shifted and scaled to mean zero and variance one.

        Over all days, which is the paper's protocol, the mean and the variance look ahead: they are those of days that
        a forecast should not know yet. With ``days``, they are those of the first ``days`` alone. A region that is
        constant in them is only shifted, to zero there.
        """
        days = self.n_days if days is None else days
        if not isinstance(days, int | np.integer) or not 1 <= days <= self.n_days:
            raise InvalidInputError(f"days must be a whole number in 1 .. {self.n_days}, not {days!r}")
        seen = self.values[:days]
        known = ~np.isnan(seen)
        counts = known.sum(axis=0)
        unseen = np.flatnonzero((counts == 0) & ~np.isnan(self.values).all(axis=0))
        if unseen.size:
            raise InvalidInputError(
                f"{self._called(unseen[0])} has no known value in the first {days} days to standardise it by: give "
                "more days or leave it out"
            )
        counts = np.maximum(counts, 1)
        mean = np.where(known, seen, 0.0).sum(axis=0) / counts
        deviation = np.where(known, seen - mean, 0.0)
        scale = np.sqrt((deviation**2).sum(axis=0) / counts)
        # The mean of equal numbers differs from them by rounding, which must not be blown up to a signal.
        low, high = _range(seen)
        mean = np.where(low == high, low, mean)
        scale = np.where((low < high) & (scale > 0), scale, 1.0)
        return replace(self, values=(self.values - mean) / scale)

    def hidden(self, rate: float, seed: int) -> Panel:
        """The panel with a part of its known values hidden at random, the same for the same seed.

        ``int(rate * known values)`` of them become NaN, all choices being equally likely in which each region keeps at
        least two different values if it has them. Where so much is hidden that drawing does not find such a choice,
        two different values per region are set aside first and the hidden ones drawn from the rest.

        The seed is one of NumPy's ``RandomState``, whose numbers are the same in all its versions; on the England data
        it gives the mask that the code of the paper's authors draws for it.
        """
        if not 0 <= rate < 1:
            raise InvalidInputError(f"the rate to hide must be at least 0 and below 1, not {rate}")
        if not isinstance(seed, int | np.integer) or not 0 <= seed < 2**32:
            raise InvalidInputError(f"the seed must be a whole number in 0 .. {2**32 - 1}, not {seed!r}")
        known = np.flatnonzero(~np.isnan(self.values))
        low, high = _range(self.values)
        varied = low < high
        count = int(rate * known.size)
        if known.size - count < 2 * varied.sum():
            raise InvalidInputError(
                f"a rate of {rate} leaves {known.size - count} values, too few for two in each of {varied.sum()} "
                "regions: hide less"
            )
        random = np.random.RandomState(seed)
        for _ in range(_DRAWS):
            masked = self._without(known[random.choice(known.size, count, replace=False)])
            low, high = _range(masked)
            if (low < high)[varied].all():
                return replace(self, values=masked)
        spared = [place for region in np.flatnonzero(varied).tolist() for place in self._two_different(region, random)]
        others = np.setdiff1d(known, spared)
        return replace(self, values=self._without(random.choice(others, count, replace=False)))

    def _without(self, places: NDArray[np.int64]) -> NDArray[np.float64]:
        values = self.values.copy()
        values.ravel()[places] = np.nan
        return values

    def _two_different(self, region: int, random: np.random.RandomState) -> list[int]:
        """Places of two different known values of a region, as places in the flattened values."""
        series = self.values[:, region]
        days = random.permutation(np.flatnonzero(~np.isnan(series)))
        other = days[series[days] != series[days[0]]][0]
        return [int(day) * self.n_regions + region for day in (days[0], other)]

    def _called(self, region: int) -> str:
        return f"region {region}" if self.names is None else f"region {region} ({self.names[region]})"


def split_in_time(n_snapshots: int, parts: Sequence[int] = PARTS) -> tuple[slice, ...]:
    """Cut snapshots in their order into parts of these proportions, rounded down; the last part takes the rest.

    >>> split_in_time(53)
    (slice(0, 10, None), slice(10, 20, None), slice(20, 53, None))
    """
    if not parts or min(parts) < 1:
        raise InvalidInputError(f"the parts must be positive whole numbers, not {tuple(parts)}")
    sizes = [n_snapshots * part // sum(parts) for part in parts[:-1]]
    if n_snapshots < 1 or 0 in sizes:
        raise InvalidInputError(f"{n_snapshots} snapshots are too few to be cut {':'.join(map(str, parts))}")
    bounds = [0, *np.cumsum(sizes).tolist(), n_snapshots]
    return tuple(slice(start, stop) for start, stop in pairwise(bounds))


def _range(values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The smallest and the largest known value of each region; infinity and minus infinity where there is none."""
    known = ~np.isnan(values)
    return (
        np.min(values, axis=0, initial=np.inf, where=known),
        np.max(values, axis=0, initial=-np.inf, where=known),
    )


def _checked_values(source: Any) -> NDArray[np.float64]:
    try:
        values = np.array(source, dtype=np.float64)
    except (ValueError, TypeError) as error:
        raise InvalidInputError(f"the values of a panel must be numbers, days x regions ({error})") from error
    if values.ndim != 2 or 0 in values.shape:
        raise InvalidInputError(f"the values of a panel must be days x regions, at least one each, not {values.shape}")
    infinite = np.argwhere(np.isinf(values))
    if infinite.size:
        day, region = infinite[0]
        raise InvalidInputError(f"the value of region {region} on day {day} is infinite: fix it, or write NaN")
    return values


def _checked_weights(source: Any, day: int, regions: int) -> sp.csr_array:
    try:
        weights = Graph.of(sp.csr_array(source)).weights
    except (ValueError, TypeError) as error:
        raise InvalidInputError(f"the graph of day {day}: {error}") from error
    if weights.shape[0] != regions:
        raise InvalidInputError(f"the graph of day {day} joins {weights.shape[0]} regions, but there are {regions}")
    return weights.astype(np.float64)
