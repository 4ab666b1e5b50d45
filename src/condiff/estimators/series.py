"""What a user's series and graphs are, once they are checked: the forecaster's and the back-test's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from condiff.errors import InvalidInputError
from condiff.graph import Graph

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
        raise InvalidInputError(f"the value of region {region} on day {day} is infinite: mend it, or write NaN")
    return values


def day_graphs(graph: Any, days: int, regions: int) -> Sequence[Graph]:
    """One graph, or one a day, each of as many nodes as there are regions."""
    several = _is_sequence(graph)
    graphs = [Graph.of(each) for each in graph] if several else [Graph.of(graph)]
    if several and len(graphs) != days:
        raise InvalidInputError(f"there are {days} days but {len(graphs)} graphs: give one for all, or one a day")
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
    # A row of a matrix has one axis, a matrix two, and other descriptions of a graph have none to speak of.
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
    # The mean of equal numbers differs from them by rounding, which must not be blown up to a signal.
    low = np.min(values, axis=0, initial=np.inf, where=known)
    constant = low == np.max(values, axis=0, initial=-np.inf, where=known)
    mean, scale = np.where(constant, low, mean), np.where(constant, 0.0, scale)
    few = counts < 2
    return np.where(few, together.mean(), mean), np.where(few, together.std(), scale)
