"""What the rolling back-test decides: the share of each part in the forecast, and how wide its quantiles are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from condiff.errors import InvalidInputError

Array = NDArray[np.float64]

#: Forecasts that need no learning: a mixture that is not better than these is not used.
SIMPLE = ("last value", "seasonal naive")
# By how much a mixture must be better; shares below this are left out; and of two simple forecasts the likelier is
# taken alone from this certainty on.
_MARGIN, _LEAST_SHARE, _CERTAIN = 0.02, 0.05, 0.9
# Rounds of reweighting, and how strongly shares are drawn towards each other.
_ROUNDS, _RIDGE = 8, 0.1
# Errors after a hole below which the back-test cannot say what to do there; and when a diffusion is much worse.
_ENOUGH_BLIND, _MUCH = 50, 1.25
# Values that a series must have before the first origin for its errors to count, if it has as many at all.
_FEWEST_KNOWN = 2
# The part of the usual deviation, below which a series is taken to have been constant before.
_TOLD = 1e-3
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

    def scores(self) -> dict[str, tuple[float, float, float]]:
        """These three errors of each part, scaled, absolute and root mean square; the mixture first."""
        measures = self.mean_absolute_scaled_error, self.mean_absolute_error, self.root_mean_square_error
        names = sorted(self.forecasts, key=lambda name: name != "forecast")
        return {name: (measures[0](name), measures[1](name), measures[2](name)) for name in names}


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


def representative(truth: Array, values: Array, first: int) -> Array:
    """The truth of a back-test without series that were all but unknown when its parts were fitted, before ``first``.

    The final forecast knows such a series better than the back-test did, whose errors say nothing about it.
    """
    known = np.isfinite(values)
    enough = known[:first].sum(axis=0) >= np.minimum(known.sum(axis=0), _FEWEST_KNOWN)
    return np.where(enough, truth, np.nan) if enough.any() else truth


def best_shares(tested: Backtest, simple: Sequence[str] = SIMPLE) -> dict[str, float]:
    """The mixture of least absolute scaled error, or simple forecasts to the degree that it is not clearly better.

    Shares are at least zero and add up to one; they are drawn a little towards each other, because the next weeks are
    not the last ones. A mixture that is better than the simple forecasts by 2 % and a standard error more is taken
    wholly, one that is not 2 % better not at all, and between these it has a part.
    """
    names = list(tested.forecasts)
    errors, origins = _scaled_errors(tested)
    plain = [place for place, name in enumerate(names) if name in simple]
    if not errors.size:
        return {names[plain[0] if plain else 0]: 1.0}
    shares = _least_errors(errors)
    if plain:
        rival = _simple_shares(errors, origins, plain, tested)
        left = np.abs(rival @ errors)
        gains = left - np.abs(shares @ errors)
        error = _error_of_mean(gains, origins, tested, float(left.mean()))
        clear = gains.mean() - _MARGIN * left.mean()
        part = float(np.clip(clear / max(error, 1e-300), 0.0, 1.0))
        shares = part * shares + (1 - part) * rival
        shares = np.where(shares < _LEAST_SHARE / 2, 0.0, shares)
        shares /= shares.sum()
    return {name: float(share) for name, share in zip(names, shares, strict=True) if share > 0}


def _least_errors(errors: Array) -> Array:
    """The shares of least absolute error, by least squares that are weighted again and again."""
    absolute = np.abs(errors).mean(axis=1)
    shares = np.full(len(errors), 1 / len(errors))
    for _ in range(_ROUNDS):
        weights = 1 / np.maximum(np.abs(shares @ errors), 0.05 * absolute.min() + 1e-12)
        gram = (errors * weights) @ errors.T / errors.shape[1]
        shares = _on_simplex(gram + _RIDGE * np.diag(gram).min() * np.eye(len(errors)))
    shares = np.where(shares < _LEAST_SHARE, 0.0, shares)
    return np.asarray(shares / shares.sum())


def _simple_shares(errors: Array, origins: NDArray[np.intp], plain: Sequence[int], tested: Backtest) -> Array:
    """The simple forecast that is clearly better, or both by how likely each is the better one."""
    absolute = np.abs(errors).mean(axis=1)
    best, *others = sorted(plain, key=lambda place: float(absolute[place]))
    found = np.zeros(len(errors))
    found[best] = 1.0
    for other in others[:1]:
        gains = np.abs(errors[other]) - np.abs(errors[best])
        error = _error_of_mean(gains, origins, tested, float(absolute[best]))
        chance = 1 / (1 + np.exp(-2 * min(float(gains.mean()) / max(error, 1e-300), 50.0)))
        if chance < _CERTAIN:
            found[best], found[other] = chance, 1 - chance
    return found


def blind_shares(tested: Backtest, blind: NDArray[np.bool_], shares: dict[str, float]) -> dict[str, float]:
    """The shares for series whose last step is a hole, (origins, series) of the back-test being ``blind``.

    The same as for all, if the back-test had such series. If it had all but none, it is the diffusion, for which a hole
    is nothing special, unless it was much worse than the mixture.
    """
    learned = [name for name in tested.forecasts if name.startswith("diffusion")]
    common = (np.isfinite(tested.truth) & blind[:, None]).sum() >= _ENOUGH_BLIND
    if common or not learned or shares.keys() <= set(learned):
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


def _scaled_errors(tested: Backtest) -> tuple[Array, NDArray[np.intp]]:
    """The errors of all parts, (parts, errors), where all are known, and the place of each one's origin."""
    scale = np.where(tested.scale > 0, tested.scale, np.nan)
    errors = np.stack([(found - tested.truth) / scale for found in tested.forecasts.values()])
    used = np.isfinite(errors).all(axis=0)
    return errors[:, used], np.nonzero(used)[0]


def _on_simplex(gram: Array) -> Array:
    """The shares of least squares: at least zero, with the sum one."""
    root = np.linalg.cholesky(gram + 1e-9 * np.trace(gram) * np.eye(len(gram))).T
    heavy = 1e3 * np.sqrt(np.trace(gram))
    found, _ = nnls(np.vstack([root, np.full(len(gram), heavy)]), np.append(np.zeros(len(gram)), heavy))
    return np.asarray(found / found.sum())


def as_before(final: Array, before: Array) -> Array:
    """Deviations (origins, horizon, series) of the final fit, one series beside the others as was expected before.

    The final fit has seen the errors that they are to measure: of a series with few values, a large error makes its own
    deviation larger. How large deviations are on the whole, and how they grow with the horizon, it knows best.
    """
    ratio = before[:, :1] / np.maximum(final[:, :1], 1e-12)
    usual = np.median(ratio, axis=2, keepdims=True)
    # Nothing was expected of a series that had been constant: the final fit alone knows it.
    told = ratio > _TOLD * usual
    beside = np.where(told, ratio / np.where(usual > 0, usual, 1.0), 1.0)
    # What was expected before is also less exact. An error several steps ahead is the sum of as many shocks and goes
    # with each of those that the fit has seen by one over the root of their number: so much of the ratio is kept.
    steps = np.arange(1, final.shape[1] + 1)[:, None]
    return np.asarray(final * beside ** (1 / np.sqrt(steps)))


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

    Errors count with both signs: that forecasts were mostly too low does not say that they will be.

    Attributes
    ----------
    scores
        (origins, horizon, series): error over the deviation expected at that time, NaN where unknown.
    independent
        How many of them are as good as independent: see :func:`spread_of`.
    """

    scores: Array
    independent: float

    def quantiles(self, chances: Sequence[float]) -> Array:
        """The quantile of the scores for each chance and step of the horizon, (chances, horizon).

        It is the conformal one: of n scores and the one to come, an interval for a part of what is to come holds the
        part (n + 1) / n of the scores, where n counts those that are as good as independent. So few origins make wide
        intervals; the widest is that of all scores. NaN where there are none.
        """
        for chance in chances:
            if not 0 < chance < 1:
                raise InvalidInputError(f"a quantile must be above 0 and below 1, not {chance}")
        outwards = 2 * np.array(chances) - 1
        found = np.full((len(chances), self.scores.shape[1]), np.nan)
        for step in range(self.scores.shape[1]):
            sizes = np.sort(np.abs(self.pooled(step)))
            if sizes.size:
                independent = max(min(self.independent, sizes.size), 1.0)
                ranks = np.abs(outwards) * (1 + 1 / independent) * sizes.size
                ends = np.interp(ranks, np.arange(sizes.size + 1), np.append(0.0, sizes))
                found[:, step] = np.sign(outwards) * ends
        return found

    def pooled(self, step: int) -> Array:
        """The scores of a step of the horizon, or of all steps where it has few."""
        own = self.scores[:, step][np.isfinite(self.scores[:, step])]
        return own if own.size >= _FEWEST_SCORES else self.scores[np.isfinite(self.scores)]

    def paths(self, n: int, random: np.random.RandomState) -> Array:
        """Scores of whole futures, (n, horizon, series): each is that of one origin, with either sign.

        So what goes together in the back-test goes together here. Holes are filled by scores of other origins.
        """
        chosen = self.scores[random.randint(len(self.scores), size=n)]
        for step in range(chosen.shape[1]):
            holes, own = np.isnan(chosen[:, step]), self.pooled(step)
            if own.size:
                chosen[:, step][holes] = own[random.randint(own.size, size=int(holes.sum()))]
        return np.asarray(random.choice([-1.0, 1.0], size=(n, 1, 1)) * chosen)

    def held_out_coverage(self, coverage: float) -> float:
        """The share of scores within the interval that those of the other origins give; NaN where there are none."""
        held, chances, count = [], [0.5 - coverage / 2, 0.5 + coverage / 2], len(self.scores)
        for origin, own in enumerate(self.scores):
            others = Spread(np.delete(self.scores, origin, axis=0), self.independent * (count - 1) / count)
            low, high = others.quantiles(chances)[:, :, None]
            known = np.isfinite(own) & np.isfinite(low)
            held.append(((low <= own) & (own <= high))[known])
        together = np.concatenate(held) if held else np.empty(0)
        return float(together.mean()) if together.size else float("nan")


def spread_of(scores: Array, origins: Sequence[int]) -> Spread:
    """The spread of a rolling back-test.

    Windows that overlap have errors in common, and series move together in part. What is as good as independent is
    taken to be the horizons that the origins span, and no more than there are origins, times the root of the number of
    steps and series of a horizon with either sign.
    """
    if not len(origins):
        return Spread(scores, 0.0)
    spans = min((origins[-1] - origins[0]) / scores.shape[1] + 1, len(origins))
    return Spread(scores, spans * float(np.sqrt(2 * np.isfinite(scores).any(axis=0).sum())))
