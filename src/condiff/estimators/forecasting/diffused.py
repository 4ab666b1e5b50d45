r"""What series have together: the shocks of a day, diffused over the graph.

Each series follows its own damped local trend (:mod:`condiff.estimators.forecasting.structure`), but the shocks that
move levels and slopes, and perhaps the noise, are correlated as white noise is that was diffused over the graph:

.. math:: C = (1 - \rho) I + \rho \hat K, \qquad K = e^{-\tau L}

with :math:`\hat K` scaled to a diagonal of one. Kalman's filter of all series at once then moves a series that has a
hole by what its neighbours did that day, by as much as the graph and the noise warrant. The share ``rho`` and the time
``tau`` are the likeliest of a small grid.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg import lapack
from scipy.sparse.csgraph import reverse_cuthill_mckee

from condiff.estimators.forecasting.structure import Structure, Trend
from condiff.graph import Graph

Array = NDArray[np.float64]

# Series that are filtered together; more are cut into groups of neighbours.
_MOST_SERIES = 250
# Steps back that the likelihood is judged by, and the numbers of which covariances are kept at once when smoothing.
_RECENT, _MOST_NUMBERS = 120, 40_000_000
_GRID: dict[str, tuple[float, ...]] = {
    "time": (0.3, 1.0, 3.0, 10.0, 30.0),
    "share": (0.0, 0.3, 0.6, 0.85, 0.95),
    "noise_share": (0.0, 0.4, 0.8),
    "pace": (0.3, 1.0, 3.0),
}


@dataclass(frozen=True)
class Correlation:
    """How shocks are shared.

    Attributes
    ----------
    time
        How long shocks are diffused.
    share, noise_share
        The part of the shocks to levels and slopes, and of the noise of values, that is diffused.
    pace
        Factor of the variances of levels and slopes: what neighbours explain is no longer noise.
    """

    time: float = 1.0
    share: float = 0.6
    noise_share: float = 0.0
    pace: float = 1.0


class Kernels:
    """Heat kernels of one graph, or of one per step, as correlations; made from eigenvectors, for any time."""

    def __init__(self, graphs: Sequence[Graph]) -> None:
        self._modes = [_modes(graph) for graph in graphs]
        self._time, self._made = -1.0, list[Array]()

    def at(self, time: float) -> list[Array]:
        """The correlations of this diffusion time."""
        if time != self._time:
            self._time, self._made = time, [_correlation(values, vectors, time) for values, vectors in self._modes]
        return self._made


def _modes(graph: Graph) -> tuple[Array, Array]:
    weights = graph.weights.toarray().astype(np.float64)
    weights = (weights + weights.T) / 2
    np.fill_diagonal(weights, 0.0)
    degrees = weights.sum(axis=1)
    joined = degrees > 0
    scale = np.where(joined, 1 / np.sqrt(np.where(joined, degrees, 1.0)), 0.0)
    values, vectors = np.linalg.eigh(np.diag(joined.astype(float)) - scale[:, None] * weights * scale)
    return values, vectors


def _correlation(values: Array, vectors: Array, time: float) -> Array:
    kernel = (vectors * np.exp(-time * np.maximum(values, 0.0))) @ vectors.T
    deviation = np.sqrt(np.maximum(np.diag(kernel), 1e-12))
    return np.asarray(kernel / deviation / deviation[:, None])


@dataclass(frozen=True, eq=False)
class State:
    """Levels, then slopes of the series that have one: mean (states,) and covariance (states, states)."""

    mean: Array
    covariance: Array


class JointTrend:
    """The damped local trends of all series with shared shocks."""

    def __init__(self, trend: Trend, correlation: Correlation, kernels: Kernels) -> None:
        self.trend = trend
        self.series = len(trend.level)
        self.sloped = np.flatnonzero(trend.slope > 0)
        self._kernels = kernels.at(correlation.time)
        deviations = np.sqrt(correlation.pace * np.concatenate([trend.level, trend.slope[self.sloped]]))
        self._deviations, self._noise = deviations, np.sqrt(trend.noise)
        self.correlation = correlation
        self._cached: dict[int, tuple[Array, Array]] = {}

    def covariances(self, step: int) -> tuple[Array, Array]:
        """Of the shocks to the states and of the noise."""
        which = step if len(self._kernels) > 1 and step < len(self._kernels) else len(self._kernels) - 1
        if which not in self._cached:
            self._cached.clear()
            kernel, n, identity = self._kernels[which], self.series, np.eye(self.series)
            shared = self.correlation.share * kernel + (1 - self.correlation.share) * identity
            shocks = np.zeros((len(self._deviations),) * 2)
            shocks[:n, :n] = shared
            shocks[n:, n:] = shared[np.ix_(self.sloped, self.sloped)]
            shocks *= self._deviations[:, None] * self._deviations
            part = self.correlation.noise_share
            noise = (part * kernel + (1 - part) * identity) * self._noise[:, None] * self._noise
            self._cached[which] = shocks, noise
        return self._cached[which]

    def start(self) -> State:
        """Before the first step."""
        level, slope = replace(self.trend, level=self._deviations[: self.series] ** 2).start()
        return State(np.zeros(len(self._deviations)), np.diag(np.concatenate([level, slope[self.sloped]])))

    def advanced(self, state: State, step: int) -> State:
        """One step on, without a value."""
        shocks, _ = self.covariances(step)
        covariance = self._moved(self._moved(state.covariance).T).T + shocks
        return State(self._moved(state.mean), (covariance + covariance.T) / 2)

    def _moved(self, rows: Array) -> Array:
        """The transition of a step, applied to states or to the rows of a matrix."""
        n, a, d = self.series, self.trend.persistence, self.trend.damping[self.sloped]
        if rows.ndim == 2:
            a, d = a[:, None], d[:, None]
        found = np.concatenate([a * rows[:n], d * rows[n:]])
        found[self.sloped] += found[n:]
        return found

    def updated(self, state: State, value: Array, step: int) -> tuple[State, float]:
        """With the values of a step, and twice their log-likelihood."""
        known = np.flatnonzero(~np.isnan(value))
        if not known.size:
            return state, 0.0
        _, noise = self.covariances(step)
        columns = state.covariance[:, known]
        inner = columns[known] + noise[np.ix_(known, known)]
        error = value[known] - state.mean[known]
        # Steps are many and small: LAPACK itself, without what checks and copies arguments.
        factor, failed = lapack.dpotrf(inner, lower=1, clean=0)
        if failed:
            raise np.linalg.LinAlgError(f"the covariance of step {step} is not positive definite")
        # With half the inverse on either side the covariance stays symmetric.
        halved, _ = lapack.dtrtrs(factor, np.column_stack([error, columns.T]), lower=1)
        surprise, shared = halved[:, 0], halved[:, 1:]
        likelihood = -float(surprise @ surprise) - 2 * float(np.log(factor.diagonal()).sum())
        return State(state.mean + shared.T @ surprise, state.covariance - shared.T @ shared), likelihood

    def likelihood(self, values: Array, first: int) -> float:
        """Twice the log-likelihood of values that begin at the step ``first``; the first few only warm up."""
        state, total = self.start(), 0.0
        for step, value in enumerate(values):
            state, more = self.updated(self.advanced(state, first + step), value, first + step)
            total += more if step >= 3 else 0.0
        return total

    def forecasts(self, values: Array, origins: NDArray[np.int64], horizon: int) -> tuple[Array, Array]:
        """Means and standard deviations of the coming values at each origin, (origins, horizon, series)."""
        n, wanted = self.series, {int(origin): place for place, origin in enumerate(origins)}
        means, deviations = np.zeros((2, len(origins), horizon, n))
        state = self.start()
        for step in range(int(origins.max())):
            state, _ = self.updated(self.advanced(state, step), values[step], step)
            place = wanted.get(step + 1)
            if place is None:
                continue
            ahead = state
            for coming in range(horizon):
                # The graph of the last step known is that of the coming ones.
                ahead = self.advanced(ahead, step)
                means[place, coming] = ahead.mean[:n]
                deviations[place, coming] = np.sqrt(np.diag(ahead.covariance)[:n] + self.trend.noise)
        return means, deviations

    def smoothed(self, values: Array) -> tuple[Array, Array]:
        """Means and standard deviations of all values given those before and after, (steps, series)."""
        size, n = len(self._deviations), self.series
        block = max(20, _MOST_NUMBERS // (2 * size * size))
        found = np.empty((2, len(values), n))
        for begin in range(0, len(values), block):
            # A block sees a tenth of the next one, and begins from its own start a little earlier.
            first, last = max(0, begin - block // 4), min(len(values), begin + block + block // 4)
            means, deviations = self._smoothed_block(values[first:last], first)
            here = slice(begin - first, min(begin + block, len(values)) - first)
            found[:, begin : begin + block] = means[here], deviations[here]
        return found[0], found[1]

    def _smoothed_block(self, values: Array, first: int) -> tuple[Array, Array]:
        n, state = self.series, self.start()
        before, after = [], []
        for step, value in enumerate(values):
            before.append(self.advanced(state, first + step))
            state, _ = self.updated(before[-1], value, first + step)
            after.append(state)
        means, deviations = np.empty((2, len(values), n))
        for step in range(len(values) - 1, -1, -1):
            if step < len(values) - 1:
                ahead, now = before[step + 1], after[step]
                gain = np.linalg.solve(ahead.covariance, self._moved(now.covariance)).T
                mean = now.mean + gain @ (state.mean - ahead.mean)
                covariance = now.covariance + gain @ (state.covariance - ahead.covariance) @ gain.T
                state = State(mean, (covariance + covariance.T) / 2)
            means[step] = state.mean[:n]
            deviations[step] = np.sqrt(np.maximum(np.diag(state.covariance)[:n], 0.0) + self.trend.noise)
        # Where the noise is shared, the noise of a hole is known in part from that of the neighbours.
        if self.correlation.noise_share > 0:
            for step, value in enumerate(values):
                known = ~np.isnan(value)
                if known.any() and not known.all():
                    noise = self.covariances(first + step)[1]
                    left = np.linalg.solve(noise[np.ix_(known, known)] + 1e-9 * np.eye(known.sum()), noise[known])
                    means[step, ~known] += (left.T @ (value - means[step])[known])[~known]
        return means, deviations


@dataclass(frozen=True, eq=False)
class Diffused:
    """A structure whose shocks are shared; ``groups`` are the series that are filtered together."""

    structure: Structure
    correlation: Correlation

    def forecasts(
        self,
        values: Array,
        graphs: Sequence[Graph],
        origins: NDArray[np.int64],
        horizon: int,
        covariates: Array | None = None,
    ) -> tuple[Array, Array]:
        """As :meth:`Structure.forecasts`, with the graphs of the steps."""
        left = self.structure.left(values, covariates)
        means, deviations = np.empty((2, len(origins), horizon, values.shape[1]))
        for group, joint in self._joint(graphs):
            means[..., group], deviations[..., group] = joint.forecasts(left[:, group], origins, horizon)
        return self.structure.restored(means, deviations, origins, covariates)

    def smoothed(self, values: Array, graphs: Sequence[Graph], covariates: Array | None = None) -> tuple[Array, Array]:
        """What all values were, (steps, series), given those before and after and the neighbours; and the spread."""
        left = self.structure.left(values, covariates)
        means, deviations = np.empty((2, *values.shape))
        for group, joint in self._joint(graphs):
            means[:, group], deviations[:, group] = joint.smoothed(left[:, group])
        shown = self.structure.restored(means[:, None], deviations[:, None], np.arange(len(values)), covariates)
        return shown[0][:, 0], shown[1][:, 0]

    def _joint(self, graphs: Sequence[Graph]) -> Iterator[tuple[NDArray[np.int64], JointTrend]]:
        for group in _groups(graphs[-1]):
            trend = _part(self.structure.trend, group)
            yield group, JointTrend(trend, self.correlation, Kernels([_subgraph(each, group) for each in graphs]))


def fit_diffused(structure: Structure, values: Array, graphs: Sequence[Graph], covariates: Array | None) -> Diffused:
    """The likeliest correlation of the shocks, one coordinate after the other."""
    left = structure.left(values, covariates)[-_RECENT:]
    first = len(values) - len(left)
    group = max(_groups(graphs[-1]), key=len)
    kernels = Kernels([_subgraph(each, group) for each in graphs[: len(values)]])
    trend, seen = _part(structure.trend, group), left[:, group]
    best, highest = Correlation(), -np.inf
    for name in ("share", "time", "pace", "noise_share", "share"):
        for value in _GRID[name]:
            tried = replace(best, **{name: value})
            found = JointTrend(trend, tried, kernels).likelihood(seen, first)
            if found > highest:
                best, highest = tried, found
    return Diffused(structure, best)


def _groups(graph: Graph) -> list[NDArray[np.int64]]:
    """Series that are filtered together: all, or runs of neighbours in an order of small bandwidth."""
    n = graph.n_nodes
    if n <= _MOST_SERIES:
        return [np.arange(n)]
    weights = sp.csr_array(graph.weights)
    order = reverse_cuthill_mckee(sp.csr_matrix(weights + weights.T), symmetric_mode=True).astype(np.int64)
    return [np.sort(part) for part in np.array_split(order, -(-n // _MOST_SERIES))]


def _subgraph(graph: Graph, group: NDArray[np.int64]) -> Graph:
    return graph if len(group) == graph.n_nodes else Graph.of(graph.weights[group][:, group])


def _part(trend: Trend, group: NDArray[np.int64]) -> Trend:
    return Trend(**{name: value[group] for name, value in vars(trend).items()})
