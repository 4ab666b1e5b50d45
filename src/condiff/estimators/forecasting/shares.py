"""What the rolling back-test decides: the share of each part in the forecast, and how wide its quantiles are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from condiff.errors import InvalidInputError

Array = NDArray[np.float64]

#: Forecasts that need no learning: a mixture that is not better than the best of these is not used.
SIMPLE = ("last value", "seasonal naive")
# By how much a mixture must be better, and by how many standard errors more; shares below this are left out.
_MARGIN, _DOUBT, _LEAST_SHARE = 0.02, 0.5, 0.05
# Rounds of reweighting, and how strongly shares are drawn towards each other.
_ROUNDS, _RIDGE = 8, 0.1
# Errors at holes from which these have shares of their own; and when a diffusion is much worse.
_ENOUGH_BLIND, _MUCH = 50, 1.25
# Errors of a step of the horizon, below which those of all steps are taken together.
_FEWEST_SCORES = 100


@dataclass(frozen=True, eq=False)
class Backtest:
    """Forecasts made from the past alone, and the true values.

    Attributes
    ----------
    origins
        The first forecast step of each fold, counted from 0.
    truth
        (origins, horizon, series), NaN where the value is missing.
    forecasts
        By part, of the same shape; ``forecast`` is the mixture.
    scale
        Of each series, for comparing errors.
    """

    origins: list[int]
    truth: Array
    forecasts: dict[str, Array]
    scale: Array

    def mean_absolute_error(self, name: str) -> float:
        """Over all known values; NaN if there are none."""
        return _mean(np.abs(self.forecasts[name] - self.truth))

    def root_mean_square_error(self, name: str) -> float:
        """Over all known values; NaN if there are none."""
        return float(np.sqrt(_mean((self.forecasts[name] - self.truth) ** 2)))

    def mean_absolute_scaled_error(self, name: str) -> float:
        """Relative to the mean step from one known value to the next of each series, which is the usual MASE.

        Constant series do not count.
        """
        varied = self.scale > 0
        return _mean(np.abs(self.forecasts[name] - self.truth)[..., varied] / self.scale[varied])


def _mean(errors: Array) -> float:
    return float(np.nanmean(errors)) if np.isfinite(errors).any() else float("nan")


def steps_between(values: Array) -> Array:
    """The mean absolute step from each known value of a series to the next known; zero for constant series."""
    found = np.zeros(values.shape[1])
    for series, column in enumerate(values.T):
        known = column[~np.isnan(column)]
        found[series] = np.abs(np.diff(known)).mean() if len(known) > 1 else 0.0
    together = found[found > 0]
    few = (~np.isnan(values)).sum(axis=0) < 2
    return np.where(few & bool(together.size), together.mean() if together.size else 0.0, found)


def best_shares(
    tested: Backtest, simple: Sequence[str] = SIMPLE, where: NDArray[np.bool_] | None = None
) -> dict[str, float]:
    """The mixture of least absolute scaled error, or the simple forecast alone where it is as good.

    Shares are at least zero and add up to one; they are drawn a little towards each other, because the next weeks are
    not the last ones. With ``where``, (origins, series), only these errors count.
    """
    names = list(tested.forecasts)
    errors, origins = _scaled_errors(tested, where)
    plain = [place for place, name in enumerate(names) if name in simple]
    if not errors.size:
        return {names[plain[0] if plain else 0]: 1.0}
    absolute = np.abs(errors).mean(axis=1)
    shares = np.full(len(names), 1 / len(names))
    for _ in range(_ROUNDS):
        weights = 1 / np.maximum(np.abs(shares @ errors), 0.05 * absolute.min() + 1e-12)
        gram = (errors * weights) @ errors.T / errors.shape[1]
        shares = _on_simplex(gram + _RIDGE * np.diag(gram).min() * np.eye(len(names)))
    shares = np.where(shares < _LEAST_SHARE, 0.0, shares)
    shares /= shares.sum()
    rival = min(plain, key=lambda place: float(absolute[place])) if plain else None
    if rival is not None:
        gains = np.abs(errors[rival]) - np.abs(shares @ errors)
        if gains.mean() < _MARGIN * absolute[rival] + _DOUBT * _error_of_mean(gains, origins, tested, absolute[rival]):
            return {names[rival]: 1.0}
    return {name: float(share) for name, share in zip(names, shares, strict=True) if share > 0}


def blind_shares(tested: Backtest, blind: NDArray[np.bool_], shares: dict[str, float]) -> dict[str, float]:
    """The shares for series whose last step is a hole, (origins, series) of the back-test being ``blind``.

    The back-test may have too few of these to say. Then it is the diffusion, for which a hole is nothing special,
    unless it was much worse than the mixture of all others.
    """
    if len(_scaled_errors(tested, blind)[1]) >= _ENOUGH_BLIND:
        return best_shares(tested, where=blind)
    learned = [name for name in tested.forecasts if name.startswith("diffusion")]
    if not learned or shares.keys() <= set(learned):
        return shares
    best = min(learned, key=tested.mean_absolute_scaled_error)
    mixture = Backtest(tested.origins, tested.truth, {"mixture": mixed(tested.forecasts, shares)}, tested.scale)
    worse = tested.mean_absolute_scaled_error(best) > _MUCH * mixture.mean_absolute_scaled_error("mixture")
    return shares if worse else {best: 1.0}


def _error_of_mean(gains: Array, origins: NDArray[np.intp], tested: Backtest, size: float) -> float:
    """How uncertain a mean gain is: errors of one origin go together, and so do those of origins within a horizon.

    It is at least that of errors of this size which were all independent.
    """
    counts = np.bincount(origins)
    means = np.bincount(origins, gains)[counts > 0] / counts[counts > 0]
    span = (tested.origins[-1] - tested.origins[0]) / tested.truth.shape[1] + 1
    apart = means.std() / np.sqrt(min(span, len(means)))
    return float(max(apart, size / np.sqrt(len(gains))))


def _scaled_errors(tested: Backtest, where: NDArray[np.bool_] | None) -> tuple[Array, NDArray[np.intp]]:
    """The errors of all parts, (parts, errors), where all are known, and the place of each one's origin."""
    scale = np.where(tested.scale > 0, tested.scale, np.nan)
    errors = np.stack([(found - tested.truth) / scale for found in tested.forecasts.values()])
    used = np.isfinite(errors).all(axis=0)
    used = used if where is None else used & where[:, None]
    return errors[:, used], np.nonzero(used)[0]


def _on_simplex(gram: Array) -> Array:
    """The shares of least squares: at least zero, with the sum one."""
    root = np.linalg.cholesky(gram + 1e-9 * np.trace(gram) * np.eye(len(gram))).T
    heavy = 1e3 * np.sqrt(np.trace(gram))
    found, _ = nnls(np.vstack([root, np.full(len(gram), heavy)]), np.append(np.zeros(len(gram)), heavy))
    return np.asarray(found / found.sum())


def likeliest_deviation(errors: Array, deviations: dict[str, Array]) -> str:
    """The part whose deviations make the errors likeliest, as those of double exponentials of that size."""

    def surprise(name: str) -> float:
        used = np.isfinite(errors) & (deviations[name] > 0)
        size = np.where(used, deviations[name], 1.0)
        if not used.any():
            return np.inf
        return float(np.log(size[used]).mean() + np.log(max(np.abs(errors / size)[used].mean(), 1e-12)))

    return min(deviations, key=surprise)


def mixed(parts: dict[str, Array], shares: dict[str, float]) -> Array:
    """The forecast of parts with these shares."""
    return np.asarray(sum(share * parts[name] for name, share in shares.items()))


@dataclass(frozen=True, eq=False)
class Spread:
    """Errors of the back-test in units of their expected size: the distribution of what is to come.

    Attributes
    ----------
    scores
        (origins, horizon, series): error over the deviation expected at that time, NaN where unknown.
    """

    scores: Array

    def quantiles(self, chances: Sequence[float]) -> Array:
        """The quantile of the scores for each chance and step of the horizon, (chances, horizon).

        It is the conformal one: of n scores and the one to come, so that it holds for a score that could stand in any
        place among them. NaN where there are none.
        """
        for chance in chances:
            if not 0 < chance < 1:
                raise InvalidInputError(f"a quantile must be above 0 and below 1, not {chance}")
        found = np.full((len(chances), self.scores.shape[1]), np.nan)
        for step in range(self.scores.shape[1]):
            own = self.pooled(step)
            for place, chance in enumerate(chances):
                if own.size:
                    found[place, step] = _conformal(own, chance)
        return found

    def pooled(self, step: int) -> Array:
        """The sorted scores of a step of the horizon, or of all steps where it has few."""
        own = self.scores[:, step][np.isfinite(self.scores[:, step])]
        if own.size < _FEWEST_SCORES:
            own = self.scores[np.isfinite(self.scores)]
        return np.sort(own)

    def paths(self, n: int, random: np.random.RandomState) -> Array:
        """Scores of whole futures, (n, horizon, series): each is that of one origin, for all series and steps.

        So what goes together in the back-test goes together here. Holes are filled by scores of other origins.
        """
        chosen = self.scores[random.randint(len(self.scores), size=n)]
        for step in range(chosen.shape[1]):
            holes, own = np.isnan(chosen[:, step]), self.pooled(step)
            if own.size:
                chosen[:, step][holes] = own[random.randint(own.size, size=int(holes.sum()))]
        return chosen


def held_out_coverage(spread: Spread, coverage: float) -> float:
    """The share of scores within the interval that the scores of the other origins give; NaN where there are none."""
    held, chances = [], [0.5 - coverage / 2, 0.5 + coverage / 2]
    for origin in range(len(spread.scores)):
        own = spread.scores[origin]
        low, high = Spread(np.delete(spread.scores, origin, axis=0)).quantiles(chances)[:, :, None]
        known = np.isfinite(own) & np.isfinite(low)
        held.append(((low <= own) & (own <= high))[known])
    together = np.concatenate(held) if held else np.empty(0)
    return float(together.mean()) if together.size else float("nan")


def _conformal(ordered: Array, chance: float) -> float:
    """Between the n scores, at chance * (n + 1) below the middle and above it: outwards of the plain quantile."""
    n = len(ordered)
    return float(np.interp(chance * (n + 1) - 1, np.arange(n), ordered))
