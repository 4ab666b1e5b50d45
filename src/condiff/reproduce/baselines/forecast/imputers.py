"""Ways to fill the holes of a panel: ours, and those that scikit-learn and practice have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from condiff.estimators import PanelForecaster
from condiff.estimators.forecasting import structure
from condiff.estimators.forecasting.imputing import straight_lines
from condiff.reproduce.baselines.forecast.methods import QUANTILES, Array, SeriesMethod, SeriesProblem


@dataclass(frozen=True)
class Imputer(SeriesMethod):
    """A way to fill holes."""

    task: ClassVar[str] = "impute"


@dataclass(frozen=True)
class Own(Imputer):
    """:meth:`condiff.PanelForecaster.impute`."""

    def found(self, problem: SeriesProblem, seed: int) -> tuple[Array, Array | None]:
        model = PanelForecaster(season=problem.season or None, parts=("last value",), random_state=seed)
        filled = model.fit(problem.values, None if problem.graphs is None else list(problem.graphs)).impute()
        return filled.values, filled.quantiles(QUANTILES)


@dataclass(frozen=True)
class Mean(Imputer):
    """The mean of the series."""

    def found(self, problem: SeriesProblem, seed: int) -> tuple[Array, Array | None]:
        return np.where(np.isnan(problem.values), structure.standards(problem.values)[0], problem.values), None


@dataclass(frozen=True)
class Last(Imputer):
    """The last known value; before the first, the first."""

    def found(self, problem: SeriesProblem, seed: int) -> tuple[Array, Array | None]:
        found = structure.last_values(problem.values)
        return np.where(np.isnan(found), straight_lines(problem.values), found), None


@dataclass(frozen=True)
class Linear(Imputer):
    """Straight lines in time."""

    def found(self, problem: SeriesProblem, seed: int) -> tuple[Array, Array | None]:
        return straight_lines(problem.values), None


@dataclass(frozen=True)
class Nearest(Imputer):
    """The mean of the five most alike times, of standardised values."""

    def imputer(self, seed: int) -> Any:
        """scikit-learn's."""
        from sklearn.impute import KNNImputer

        return KNNImputer(keep_empty_features=True)

    def found(self, problem: SeriesProblem, seed: int) -> tuple[Array, Array | None]:
        mean, scale = structure.standards(problem.values)
        filled = self.imputer(seed).fit_transform(structure.standardised(problem.values, mean, scale))
        return np.where(np.isnan(problem.values), filled * scale + mean, problem.values), None


@dataclass(frozen=True)
class Iterative(Nearest):
    """Each series by a Bayesian ridge regression on the twenty that are most correlated with it, in turns."""

    def imputer(self, seed: int) -> Any:
        from sklearn.experimental import enable_iterative_imputer  # noqa: F401
        from sklearn.impute import IterativeImputer

        return IterativeImputer(max_iter=10, n_nearest_features=20, random_state=seed, keep_empty_features=True)
