"""Holes filled from before, after and the neighbours; which way is best is asked of known values that are hidden."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from condiff.estimators.forecasting.diffused import Diffused, fit_diffused
from condiff.estimators.forecasting.shares import Backtest, Spread, best_shares, mixed, steps_between
from condiff.estimators.forecasting.structure import fit_structure, standardised, standards, straight_lines
from condiff.graph import Graph

Array = NDArray[np.float64]

# Known values that are hidden to choose between ways: this part of them; and series that are regressed on each other.
_HIDDEN, _MOST_REGRESSED = 0.15, 150


@dataclass(frozen=True, eq=False)
class Imputed:
    """A panel without holes.

    Attributes
    ----------
    values
        (days, series): known values as they were, holes filled.
    holes
        (days, series): where the holes were.
    shares
        The share of each way of filling.
    errors
        The mean absolute error of each way on known values that were hidden, and of the mixture, ``filled``.
    """

    values: Array
    holes: NDArray[np.bool_]
    shares: dict[str, float]
    errors: dict[str, float]
    _deviation: Array
    _spread: Spread
    _lowest: float

    def quantiles(self, chances: Sequence[float]) -> Array:
        """Quantiles of every value, (chances, days, series), from the errors on hidden values; known ones are known."""
        scores = self._spread.quantiles(chances)[:, 0]
        moved = np.where(self.holes, scores[:, None, None] * self._deviation, 0.0)
        return np.where(self.holes, np.maximum(self.values + moved, self._lowest), self.values)


def fill(
    values: Array,
    graphs: Sequence[Graph],
    periods: tuple[int, ...],
    covariates: Array | None,
    lowest: float,
    random: np.random.RandomState,
) -> Imputed:
    """Fill holes by diffusion over the graph and in time, by straight lines, by regression, or by a mixture."""
    hidden = _to_hide(values, random)
    shown = np.where(hidden, np.nan, values)
    fitted = _fitted(shown, graphs, periods, covariates)
    tried, deviations = _ways(fitted, shown, graphs, covariates)
    scale = steps_between(values)
    # The axes of a back-test: one origin, the days as the steps of a horizon.
    as_test = {name: np.where(hidden, found, np.nan)[None] for name, found in tried.items()}
    tested = Backtest([0], np.where(hidden, values, np.nan)[None], as_test, scale)
    shares = best_shares(tested, simple=("straight line",)) if hidden.any() else {"straight line": 1.0}
    found, final = _ways(fitted, values, graphs, covariates)
    filled = np.maximum(mixed(found, shares), lowest)
    own = np.maximum(mixed(as_test, shares), lowest)
    errors = {name: tested.mean_absolute_error(name) for name in as_test}
    errors["filled"] = float(np.nanmean(np.abs(own - tested.truth))) if hidden.any() else float("nan")
    which = max(deviations, key=lambda name: (shares.get(name, 0.0), name))
    scores = (tested.truth - own)[0] / np.maximum(deviations[which], 1e-12)
    scores = np.where(scale > 0, scores, np.nan).reshape(-1, 1, 1)
    # Hidden values are drawn at random, and each is as good as independent.
    spread = Spread(scores, float(np.isfinite(scores).sum()))
    holes = np.isnan(values)
    deviation = np.where(scale > 0, final[which], 0.0)
    return Imputed(np.where(holes, filled, values), holes, shares, errors, deviation, spread, lowest)


def _to_hide(values: Array, random: np.random.RandomState) -> NDArray[np.bool_]:
    """Some of the known values, at most so many that a series keeps three."""
    known = np.isfinite(values)
    hidden = known & (random.uniform(size=values.shape) < _HIDDEN)
    for series in np.flatnonzero((known & ~hidden).sum(axis=0) < 3):
        hidden[:, series] = False
    return np.asarray(hidden)


def _fitted(
    values: Array, graphs: Sequence[Graph], periods: tuple[int, ...], covariates: Array | None
) -> dict[str, Diffused]:
    """The diffusion of the values and, where they are, of their logarithms."""
    logs = [False, True] if np.nanmin(values) >= 0 else [False]
    structures = [fit_structure(values, periods, covariates, logs=each) for each in logs]
    return {
        "diffusion" + " of logs" * structure.logs: fit_diffused(structure, values, graphs, covariates)
        for structure in structures
    }


def _ways(
    fitted: dict[str, Diffused], values: Array, graphs: Sequence[Graph], covariates: Array | None
) -> tuple[dict[str, Array], dict[str, Array]]:
    """Every value by each way of filling, and the deviation that is expected."""
    found, deviations = {"straight line": straight_lines(values)}, {}
    for name, each in fitted.items():
        found[name], deviations[name] = each.smoothed(values, graphs, covariates)
    if 1 < values.shape[1] <= _MOST_REGRESSED:
        found["regression"] = regressed(values)
    return found, deviations


def regressed(values: Array) -> Array:
    """Each series by a regression on the others at the same time, in turns: scikit-learn's iterative imputation."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer

    mean, scale = standards(values)
    imputer = IterativeImputer(n_nearest_features=20, random_state=0, keep_empty_features=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        filled = imputer.fit_transform(standardised(values, mean, scale))
    return np.asarray(filled * scale + mean)
