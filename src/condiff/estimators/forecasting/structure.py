"""What a series has by itself: level, trend, season and the effect of covariates, each series with its own holes.

Season and covariates are a ridge regression that draws every series towards the panel. What it leaves follows a damped
local trend, whose two states are filtered by Kalman's equations: a hole is a day without an update, after which the
next value counts for more. The variances and the damping of a series are the likeliest of a small grid.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, polygamma

Array = NDArray[np.float64]

# Ratios of the level's variance to that of the noise; of the slope's to the level's; and how far a state persists.
_LEVELS, _SLOPES, _DAMPINGS, _PERSISTENCES = (
    (0.003, 0.03, 0.1, 0.3, 1.0, 3.0, 30.0, 300.0),
    (0.001, 0.01, 0.1),
    (0.8, 0.95, 0.995),
    (0.5, 0.8, 0.95),
)
# A series is drawn towards the panel as if the panel were so many of its own values.
_PRIOR_VALUES = 12.0
# Cycles of a season after which a value counts for about a third, and harmonics at most.
_MEMORY, _HARMONICS = 8.0, 12
# Steps back that the likelihood is judged by, and series that are judged at a time.
_RECENT, _AT_ONCE = 600, 16
# Equal values from which on a series is taken to be constant.
_FEWEST_EQUAL = 5


@dataclass(frozen=True, eq=False)
class Trend:
    """Parameters of the damped local trend, one per series, in units of ``scale`` around ``centre``.

    Attributes
    ----------
    persistence, damping
        What a step leaves of a level (its distance from the centre) and of a slope.
    level, slope, noise
        Variances of the steps of the level and of the slope, and of the noise of a value.
    """

    centre: Array
    scale: Array
    persistence: Array
    damping: Array
    level: Array
    slope: Array
    noise: Array

    def start(self) -> tuple[Array, Array]:
        """Variances of level and slope before the first value."""
        still = self.persistence < 1
        settled = self.level / np.where(still, 1 - self.persistence**2, 1.0)
        # A level that wanders may begin anywhere: its first value says where.
        return np.where(still, settled, np.maximum(2.0, 1e4 * self.noise)), self.slope / (1 - self.damping**2)


@dataclass(frozen=True, eq=False)
class Filtered:
    """Levels and slopes after each step, (steps, series), and how likely the values were.

    ``error`` and ``variance`` are those of the forecast of each value from the steps before; ``covariance`` has the
    variances of level and slope and their covariance, (3, steps, series).
    """

    level: Array
    slope: Array
    error: Array
    variance: Array
    covariance: Array

    def judged(self) -> tuple[Array, Array]:
        """Twice the log-likelihood of each series with the best factor of all its variances, and its squared errors.

        The errors are in units of their variances, and summed. The first value of a series only says where its level
        begins, and does not count.
        """
        known = np.isfinite(self.error)
        known &= known.cumsum(axis=0) > 1
        counts = known.sum(axis=0)
        squares = np.where(known, self.error**2 / self.variance, 0.0).sum(axis=0)
        logs = np.where(known, np.log(self.variance), 0.0).sum(axis=0)
        return -logs - counts * np.log(np.maximum(squares / np.maximum(counts, 1), 1e-12)), squares


def filtered(values: Array, trend: Trend) -> Filtered:
    """Kalman's filter of standardised values, (steps, ..., series); the parameters broadcast against a step."""
    shape = np.broadcast_shapes(values.shape[1:], trend.level.shape)
    level, slope = np.zeros(shape), np.zeros(shape)
    p, r = (np.broadcast_to(each, shape) for each in trend.start())
    c = np.zeros(shape)
    levels, slopes, errors, variances = (np.empty((len(values), *shape)) for _ in range(4))
    covariances = np.empty((3, len(values), *shape))
    a, d = trend.persistence, trend.damping
    for step, value in enumerate(values):
        level, slope = a * level + d * slope, d * slope
        p, c, r = a * a * p + 2 * a * d * c + d * d * r + trend.level, a * d * c + d * d * r, d * d * r + trend.slope
        error, variance = value - level, p + trend.noise
        errors[step], variances[step] = error, variance
        known = ~np.isnan(error)
        gain, tilt = np.where(known, p / variance, 0.0), np.where(known, c / variance, 0.0)
        moved = np.where(known, error, 0.0)
        level, slope = level + gain * moved, slope + tilt * moved
        p, c, r = (1 - gain) * p, (1 - gain) * c, r - tilt * c
        levels[step], slopes[step] = level, slope
        covariances[:, step] = p, r, c
    return Filtered(levels, slopes, errors, variances, covariances)


def extrapolated(trend: Trend, level: Array, slope: Array, covariance: Array, horizon: int) -> tuple[Array, Array]:
    """Means and standard deviations of the values of the coming steps, (horizon, ..., series)."""
    p, r, c = covariance
    a, d = trend.persistence, trend.damping
    means, deviations = [], []
    for _ in range(horizon):
        level, slope = a * level + d * slope, d * slope
        p, c, r = a * a * p + 2 * a * d * c + d * d * r + trend.level, a * d * c + d * d * r, d * d * r + trend.slope
        means.append(level)
        deviations.append(np.sqrt(p + trend.noise))
    return np.stack(means), np.stack(deviations)


def fit_trend(values: Array, centre: Array, scale: Array) -> Trend:
    """The likeliest parameters of each series, drawn towards those of the panel where it has few values."""
    z = standardised(values, centre, scale)[-_RECENT:]
    grid = np.array(
        [(1.0, 0.5, level, 0.0) for level in _LEVELS]
        + [(a, 0.5, level * (1 - a * a), 0.0) for a in _PERSISTENCES for level in (0.3, 1.0, 3.0, 10.0)]
        + [(1.0, d, level, level * s) for d in _DAMPINGS for s in _SLOPES for level in _LEVELS]
    ).T[:, :, None]
    unit = np.ones_like(grid[0])
    candidates = Trend(0 * unit, unit, grid[0], grid[1], grid[2], grid[3], unit)
    counts = np.maximum(np.isfinite(z).sum(axis=0) - 1, 0)
    # Some series at a time: each is filtered for every candidate.
    some = np.array_split(np.arange(z.shape[1]), -(-z.shape[1] // _AT_ONCE))
    judged = [filtered(z[:, None, part], candidates).judged() for part in some]
    likelihood, squares = (np.concatenate(each, axis=1) for each in zip(*judged, strict=True))
    panel = likelihood.sum(axis=1, keepdims=True) / max(counts.sum(), 1)
    best = (likelihood + _PRIOR_VALUES * panel).argmax(axis=0)
    ratio = squares[best, np.arange(z.shape[1])]
    # One factor for all variances of a series, drawn towards that of the panel.
    factor = (ratio + 4 * ratio.sum() / max(counts.sum(), 1)) / (counts + 4)
    factor = np.maximum(factor, 1e-9)
    a, d, level, slope = grid[:, best, 0]
    return Trend(centre, scale, a, d, level * factor, slope * factor, factor)


def standardised(values: Array, centre: Array, scale: Array) -> Array:
    """Values around their centre in units of their scale; constant series are all zero."""
    return np.asarray((values - centre) / np.where(scale > 0, scale, 1.0))


@dataclass(frozen=True, eq=False)
class Effects:
    """Season and covariates: what a ridge regression says of each series at each step.

    Attributes
    ----------
    periods
        Lengths of the seasons, in steps.
    coefficients
        (columns, series): of the harmonics of the seasons, then of the covariates.
    """

    periods: tuple[int, ...]
    coefficients: Array

    def at(self, steps: NDArray[np.int64], covariates: Array | None = None) -> Array:
        """The effect at these steps, counted from the first of the panel, (steps, series)."""
        return self._seasonal(steps) + self.given(covariates)

    def _seasonal(self, steps: NDArray[np.int64]) -> Array:
        waves = harmonics(steps, self.periods)
        return np.asarray(waves @ self.coefficients[: waves.shape[1]])

    def given(self, covariates: Array | None) -> Array | float:
        """The effect of covariates alone, (steps, series)."""
        if covariates is None:
            return 0.0
        own = self.coefficients[len(self.coefficients) - covariates.shape[-1] :]
        return np.asarray(np.einsum("tnk,kn->tn", covariates, own))


def harmonics(steps: NDArray[np.int64], periods: tuple[int, ...]) -> Array:
    """Waves of each season, of at most twelve frequencies, (steps, columns)."""
    columns = [np.zeros((len(steps), 0))]
    for period in periods:
        for k in range(1, min(period // 2, _HARMONICS) + 1):
            angle = 2 * np.pi * k * steps / period
            both = np.stack([np.cos(angle), np.sin(angle)], axis=1)
            # At half the period the sine is zero everywhere.
            columns.append(both[:, :1] if 2 * k == period else both)
    return np.concatenate(columns, axis=1)


def fit_effects(values: Array, scale: Array, periods: tuple[int, ...], covariates: Array | None) -> Effects:
    """Season and covariates of each series beside a trend of straight pieces, by ridge regression.

    Parameters
    ----------
    values
        (steps, series) around their centre, NaN where unknown.
    scale
        Of each series.
    periods
        Of the seasons; those of which fewer than two cycles are known are left out.
    covariates
        (steps, series, columns), or None.
    """
    steps, series = values.shape
    periods = tuple(period for period in periods if 2 * period <= steps)
    waves = harmonics(np.arange(steps), periods)
    given = np.zeros((steps, series, 0)) if covariates is None else covariates
    # The ridge is one for all columns, whatever the units of a covariate; its mean is part of a series' centre.
    spread = given.std(axis=(0, 1))
    unit = np.where(spread > 0, spread, 1.0)
    given = (given - given.mean(axis=0)) / unit
    effects = waves.shape[1] + given.shape[2]
    if not effects:
        return Effects(periods, np.zeros((0, series)))
    longest = max(periods, default=1)
    pieces = int(np.clip(steps / (2 * longest), 2, 12)) if steps > 20 else 2
    knots = np.linspace(0, steps - 1, pieces)
    hats = np.maximum(1 - np.abs(np.arange(steps)[:, None] - knots) / (knots[1] - knots[0]), 0.0)
    weights = np.exp(-np.arange(steps)[::-1] / max(_MEMORY * longest, steps / 3))
    shared = np.concatenate([hats, waves], axis=1)
    size = shared.shape[1] + given.shape[2]
    grams, moments = np.zeros((series, size, size)), np.zeros((series, size))
    usable = scale > 0
    for one in np.flatnonzero(usable):
        known = np.isfinite(values[:, one])
        design = np.concatenate([shared[known], given[known, one]], axis=1)
        weighted = design * weights[known, None]
        grams[one] = weighted.T @ design
        moments[one] = weighted.T @ (values[known, one] / scale[one])
    own = np.arange(size) >= hats.shape[1]
    # The panel's season is that of all series together, each with a trend of its own: swept out first.
    ridge = np.diag(np.where(own, 2.0, 0.05))
    means = moments.mean(axis=0), grams.mean(axis=0) + ridge / max(int(usable.sum()), 1)
    panel = np.where(own, np.linalg.solve(means[1], means[0]), 0.0)
    found = np.linalg.solve(grams + ridge, (moments + ridge @ panel)[..., None])[..., 0]
    coefficients = np.where(usable[:, None], found, 0.0)[:, own].T * scale
    coefficients[waves.shape[1] :] /= unit[:, None]
    return Effects(periods, coefficients)


@dataclass(frozen=True, eq=False)
class Structure:
    """The structure of every series of a panel: what :func:`fit_structure` returns.

    ``logs`` says whether it is that of the logarithms, ``log(1 + value)``: growth by factors, and never below zero.
    """

    trend: Trend
    effects: Effects
    logs: bool = False

    def transformed(self, values: Array) -> Array:
        """Values as the structure sees them."""
        return np.log1p(values) if self.logs else values

    def left(self, values: Array, covariates: Array | None) -> Array:
        """What season and covariates leave, standardised."""
        steps = np.arange(len(values))
        known = None if covariates is None else covariates[: len(values)]
        rest = self.transformed(values) - self.effects.at(steps, known)
        return standardised(rest, self.trend.centre, self.trend.scale)

    def restored(
        self, means: Array, deviations: Array, origins: NDArray[np.int64], covariates: Array | None
    ) -> tuple[Array, Array]:
        """Standardised forecasts of (origins, horizon, series) as values, and their standard deviations."""
        horizon = means.shape[1]
        steps = (origins[:, None] + np.arange(horizon)).ravel()
        effects = self.effects.at(steps, None if covariates is None else covariates[steps]).reshape(means.shape)
        middle = means * self.trend.scale + self.trend.centre + effects
        spread = deviations * self.trend.scale
        if not self.logs:
            return middle, spread
        # Beyond twice the range seen, a logarithm is a number that exploded; so is a spread by more than a factor of 4.
        top = 2 * (self.trend.centre + 4 * self.trend.scale) + 1
        grown = np.exp(np.minimum(middle, top))
        return grown - 1, grown * np.sinh(np.minimum(spread, 1.4))

    def forecasts(
        self, values: Array, origins: NDArray[np.int64], horizon: int, covariates: Array | None = None
    ) -> tuple[Array, Array]:
        """Forecasts begun at each origin from the steps before it, (origins, horizon, series), and their spread."""
        found = filtered(self.left(values, covariates), self.trend)
        at = origins - 1
        means, deviations = extrapolated(self.trend, found.level[at], found.slope[at], found.covariance[:, at], horizon)
        return self.restored(means.swapaxes(0, 1), deviations.swapaxes(0, 1), origins, covariates)


def fit_structure(
    values: Array, periods: tuple[int, ...] = (), covariates: Array | None = None, *, logs: bool = False
) -> Structure:
    """Season, covariates and trend of every series."""
    seen = np.log1p(values) if logs else values
    known = None if covariates is None else covariates[: len(values)]
    centre, scale = shared_standards(seen)
    effects = fit_effects(seen - centre, scale, periods, known)
    rest = seen - effects.at(np.arange(len(values)), known)
    # Series are alike at what covariates are on average, wherever their zero is.
    usual = 0.0 if known is None else np.ravel(effects.given(known.mean(axis=0)[None]))
    centre, scale = shared_standards(rest + usual)
    return Structure(fit_trend(rest, centre - usual, scale), effects, logs)


def standards(values: Array) -> tuple[Array, Array]:
    """Mean and scale of each series, those of all known values together where a series has fewer than two."""
    known = ~np.isnan(values)
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


def shared_standards(values: Array) -> tuple[Array, Array]:
    """Mean and scale of each series, drawn towards those of the panel by as much as its few values warrant.

    Two values that happen to be near each other say little about a scale. How much series differ beyond what chance
    explains is estimated from the panel (DerSimonian and Laird), for the means and for the logarithms of the scales, so
    that series of different kinds are left alone. Series of at least five equal values are constant: their scale is 0.
    """
    mean, scale = standards(values)
    known = ~np.isnan(values)
    counts = known.sum(axis=0)
    varied = (scale > 0) & (counts >= 2)
    if varied.sum() < 3:
        return mean, scale
    half = np.where(varied, (counts - 1) / 2, 1.0)
    # The logarithm of the deviation of normal numbers: its bias and its variance.
    own = np.log(np.where(varied, scale, 1.0)) + np.log(counts.clip(2) / (counts.clip(2) - 1)) / 2
    own -= (digamma(half) - np.log(half)) / 2
    logs = _drawn(own, polygamma(1, half) / 4, varied)
    guessed = varied | ((counts < _FEWEST_EQUAL) & (scale == 0)) | (counts < 2)
    scale = np.where(guessed, np.exp(logs), scale)
    own = np.where(known, values, 0.0).sum(axis=0) / counts.clip(1)
    used, variance = guessed & (counts > 0), scale**2 / counts.clip(1)
    # Where scales are of very different sizes, the small ones alone speak in the estimate: the plain one as well.
    means = _drawn(own, variance, used, least=float(np.var(own[used]) - variance[used].mean()))
    return np.where(guessed, means, mean), scale


def _drawn(found: Array, variance: Array, used: NDArray[np.bool_], least: float = 0.0) -> Array:
    """Numbers of known variance, drawn towards their common mean; those that are not used are that mean.

    They are taken to differ by a variance of ``least`` at least.
    """
    # One number without error must not be the only one that counts.
    floored = np.maximum(variance, 1e-6 * np.median(variance[used]))
    weights = np.where(used, 1 / floored, 0.0)
    middle = (weights * found).sum() / weights.sum()
    excess = (weights * (found - middle) ** 2).sum() - (used.sum() - 1)
    between = max(excess / max(weights.sum() - (weights**2).sum() / weights.sum(), 1e-300), 0.0)
    between = max(between, least)
    # With what series differ by, the common mean is that of nearly equal weights.
    weights = np.where(used, 1 / (floored + between), 0.0)
    middle = (weights * found).sum() / weights.sum()
    towards = variance / np.maximum(between + variance, 1e-300)
    return np.asarray(np.where(used, found + towards * (middle - found), middle))


# ---- forecasts without parameters --------------------------------------------------------------------------------


def last_values(values: Array) -> Array:
    """The last known value of each series at or before each step, (steps, series); NaN before the first."""
    places = np.where(np.isnan(values), -1, np.arange(len(values))[:, None])
    places = np.maximum.accumulate(places, axis=0)
    found = np.take_along_axis(values, np.maximum(places, 0), axis=0)
    return np.where(places < 0, np.nan, found)


def straight_lines(values: Array) -> Array:
    """Linear interpolation in time; beyond the ends the nearest known value; the mean of all where there is none."""
    days = np.arange(len(values))
    found = np.where(np.isnan(values).all(axis=0), standards(values)[0], last_values(values))
    for series, column in enumerate(values.T):
        known = np.isfinite(column)
        if known.any():
            found[:, series] = np.interp(days, days[known], column[known])
    return found


def naive(values: Array, origins: NDArray[np.int64], horizon: int) -> Array:
    """The last known value, for all coming steps; the mean of the series, or of all, where it has none."""
    last = last_values(values)[origins - 1]
    empty = np.array([standards(values[:origin])[0] for origin in origins])
    return np.repeat(np.where(np.isnan(last), empty, last)[:, None], horizon, axis=1)


def seasonal_naive(values: Array, origins: NDArray[np.int64], horizon: int, period: int) -> Array:
    """The last known value of the same season; the last known value where there is none."""
    found = naive(values, origins, horizon)
    for position, origin in enumerate(origins):
        for step in range(horizon):
            same = last_values(values[(origin + step) % period : origin : period])
            if len(same):
                found[position, step] = np.where(np.isnan(same[-1]), found[position, step], same[-1])
    return found


def drift(values: Array, origins: NDArray[np.int64], horizon: int) -> Array:
    """The line through the first and the last known value, continued from the last."""
    found = naive(values, origins, horizon)
    places = np.arange(len(values))[:, None]
    for position, origin in enumerate(origins):
        past = values[:origin]
        known = np.isfinite(past)
        first = np.min(np.broadcast_to(places[:origin], past.shape), axis=0, initial=len(values), where=known)
        last = np.max(np.broadcast_to(places[:origin], past.shape), axis=0, initial=-1, where=known)
        series = np.flatnonzero(last > first)
        rise = (past[last[series], series] - past[first[series], series]) / (last - first)[series]
        ahead = origin + np.arange(horizon)[:, None] - last[series]
        found[position][:, series] += rise * ahead
    return found
