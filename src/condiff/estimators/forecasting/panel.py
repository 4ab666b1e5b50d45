"""What a forecaster is given: values, graphs and covariates, checked; and graphs where none is given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from condiff.errors import InvalidInputError
from condiff.estimators.forecasting.structure import last_values, standardised, standards, straight_lines
from condiff.graph import Graph

Array = NDArray[np.float64]

# Neighbours of a series where no graph is given, and common steps from which a correlation counts in full.
_NEIGHBOURS, _ENOUGH = 8, 10
# Steps that are warped onto each other, and pairs of series that are at a time.
_WARPED, _PAIRS = 100, 20_000
# A season stands out by so many standard errors of what chance would do, if it had as many independent values as there
# are steps times the root of the number of series.
_CLEAR_SEASON = 3.0
# Squares of larger values are not numbers that can be computed with.
_LARGEST = 1e100


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
    huge = np.argwhere(np.abs(values) > _LARGEST)
    if huge.size:
        day, region = huge[0]
        raise InvalidInputError(f"the value of region {region} on day {day} is above {_LARGEST:g}: use larger units")
    if np.isnan(values).all():
        raise InvalidInputError("no value is known at all: there is nothing to learn from")
    return values


def checked_covariates(source: Any, days: int, regions: int, ahead: int) -> Array | None:
    """Covariates as (days + ahead, regions, columns): those of all regions alike are repeated for each."""
    if source is None:
        return None
    try:
        found = np.array(source, dtype=np.float64)
    except (ValueError, TypeError) as error:
        raise InvalidInputError(f"covariates must be numbers ({error})") from error
    if found.ndim == 1:
        found = found[:, None]
    if found.ndim == 2:
        found = np.repeat(found[:, None], regions, axis=1)
    if found.ndim != 3 or found.shape[1] != regions or len(found) < days + ahead:
        raise InvalidInputError(
            f"covariates must be days x columns, or days x {regions} regions x columns, for {days} days and the "
            f"{ahead} to come, not of shape {np.shape(source)}"
        )
    if not np.isfinite(found).all():
        raise InvalidInputError("covariates must be known and finite on every day, also on those to come")
    return found[: days + ahead]


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


def correlated(values: Array) -> Graph:
    """Each series with the eight whose steps are most correlated with its own, weighted by the correlation.

    A step is the change from the last known value. Correlations over few common steps count for less.
    """
    before = last_values(values)[:-1]
    steps = values[1:] - before
    known = np.isfinite(steps)
    steps = np.where(known, steps, 0.0)
    counts = np.maximum(known.sum(axis=0), 1)
    steps = np.where(known, steps - steps.sum(axis=0) / counts, 0.0)
    together = known.astype(float).T @ known
    squares = (steps**2).T @ known
    scale = np.sqrt(np.maximum(squares * squares.T, 1e-300))
    similarity = np.clip(steps.T @ steps / scale, 0.0, 1.0) * np.minimum(together / _ENOUGH, 1.0)
    return _nearest(similarity)


def warped(values: Array) -> Graph:
    """Each series with the eight that are nearest by dynamic time warping: of the same course, perhaps a little later.

    Series are standardised and their holes bridged by straight lines; the last hundred steps count, and a step may be
    compared with those up to a tenth of them away.
    """
    mean, scale = standards(values)
    z = straight_lines(standardised(values, mean, scale))[-_WARPED:]
    steps, series = z.shape
    reach = max(steps // 10, 1)
    distances = np.zeros((series, series))
    first, second = np.triu_indices(series, 1)
    for some in np.array_split(np.arange(len(first)), -(-len(first) // _PAIRS) or 1):
        left, right = z[:, first[some]], z[:, second[some]]
        # The cheapest way to each of the cells (row, row - reach), ..., (row, row + reach), for all pairs at once.
        before = np.full((2 * reach + 3, len(some)), np.inf)
        before[reach + 1] = 0.0
        for row in range(steps):
            here = np.full_like(before, np.inf)
            for place in range(max(0, reach - row), min(2 * reach + 1, steps + reach - row)):
                ways = np.minimum(np.minimum(before[place + 1], before[place + 2]), here[place])
                here[place + 1] = np.abs(left[row] - right[row - reach + place]) + ways
            before = here
        distances[first[some], second[some]] = before[reach + 1] / steps
    return _near(distances + distances.T)


def alike(features: Any, regions: int) -> Graph:
    """Each series with the eight that are nearest by features, (regions, columns), each in units of its spread."""
    points = checked_features(features, regions, "static features")
    scale = points.std(axis=0)
    return _near(_distances((points - points.mean(axis=0)) / np.where(scale > 0, scale, 1.0)))


def close(positions: Any, regions: int) -> Graph:
    """Each series with the eight that are nearest by coordinates, (regions, 2 or 3), all in one unit."""
    return _near(_distances(checked_features(positions, regions, "positions")))


def checked_features(source: Any, regions: int, what: str) -> Array:
    """Numbers of each series as float64, (regions, columns)."""
    try:
        points = np.array(source, dtype=np.float64)
    except (ValueError, TypeError) as error:
        raise InvalidInputError(f"{what} must be numbers, regions x columns ({error})") from error
    if points.ndim != 2 or len(points) != regions or not points.shape[1]:
        raise InvalidInputError(f"{what} must be {regions} regions x columns, not of shape {points.shape}")
    if not np.isfinite(points).all():
        raise InvalidInputError(f"{what} must be known and finite for every region")
    return points


def _distances(points: Array) -> Array:
    return np.asarray(np.sqrt(np.maximum(((points[:, None] - points) ** 2).sum(axis=2), 0.0)))


def _near(distances: Array) -> Graph:
    """Neighbours by distances, the width of whose weights is the distance of the fourth."""
    rank = min(4, len(distances) - 1)
    width = np.maximum(np.sort(distances, axis=1)[:, rank], 1e-12)
    return _nearest(np.exp(-(distances**2) / (width * width[:, None])))


def _nearest(similarity: Array) -> Graph:
    np.fill_diagonal(similarity, 0.0)
    least = np.sort(similarity, axis=1)[:, -min(_NEIGHBOURS, len(similarity))]
    kept = np.where((similarity >= least[:, None]) & (similarity > 1e-6), similarity, 0.0)
    return Graph.of(sp.csr_array(np.maximum(kept, kept.T)))


#: How neighbours are found in the values alone.
FOUND = {"correlation": correlated, "warping": warped}


def usual_season(values: Array) -> int:
    """The season of series without dates: the lag of the highest autocorrelation, if it is a clear peak; otherwise 0.

    Lags up to a third of the days are tried.
    """
    mean, scale = standards(values)
    used = scale > 0
    if not used.any() or len(values) < 12:
        return 0
    z = standardised(values, mean, scale)[:, used]
    best, found = 0.0, 0
    previous = _autocorrelation(z, 1)
    for lag in range(2, min(len(z) // 3, 400) + 1):
        here, after = _autocorrelation(z, lag), _autocorrelation(z, lag + 1)
        # A season is a peak that rises clearly above the trough between it and its half.
        if here >= previous and here > after and here > best + 0.05:
            trough = _autocorrelation(z, max(lag // 2, 1))
            chance = np.sqrt(2 / ((len(z) - lag) * np.sqrt(z.shape[1])))
            if here > 0.3 and here - trough > max(0.3, _CLEAR_SEASON * chance):
                best, found = here, lag
        previous = here
    return found


def _autocorrelation(z: Array, lag: int) -> float:
    products = z[lag:] * z[:-lag]
    known = np.isfinite(products)
    return float(products[known].mean()) if known.sum() >= 10 else 0.0
