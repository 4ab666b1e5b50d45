"""Ways to fill the holes of a panel: ours, and those that scikit-learn and practice have."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from condiff.estimators import PanelForecaster
from condiff.estimators.forecasting import structure
from condiff.estimators.forecasting.structure import straight_lines
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
        filled = model.fit(problem.values, problem.graph).impute()
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


@dataclass(frozen=True)
class Learned(Imputer):
    """A network of PyPOTS on overlapping pieces of the standardised panel; its settings are small, as panels are.

    Some of the known values are hidden to learn from, as its package does it; a value in several pieces is the mean.
    """

    needs: ClassVar[str] = "pypots"
    steps: int = 24
    epochs: int = 100

    @abstractmethod
    def network(self, steps: int, series: int) -> Any:
        """The package's own class, not yet fitted."""

    def found(self, problem: SeriesProblem, seed: int) -> tuple[Array, Array | None]:
        import contextlib
        import io
        import logging

        import torch

        mean, scale = structure.standards(problem.values)
        z = structure.standardised(problem.values, mean, scale)
        steps = min(self.steps, len(z))
        begins = np.unique(np.append(np.arange(0, len(z) - steps + 1, max(steps // 4, 1)), len(z) - steps))
        pieces = np.stack([z[begin : begin + steps] for begin in begins])
        # It greets on import, where it asks for an encoding, and tells of every epoch.
        logging.disable(logging.CRITICAL)
        unheard = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
        with contextlib.redirect_stdout(unheard), contextlib.redirect_stderr(unheard):
            torch.manual_seed(seed)
            np.random.seed(seed)  # noqa: NPY002  # the package draws what it hides from the global generator
            network = self.network(steps, z.shape[1])
            network.fit({"X": pieces})
            answers = np.asarray(network.predict({"X": pieces})["imputation"]).reshape(pieces.shape)
        logging.disable(logging.NOTSET)
        total, count = np.zeros_like(z), np.zeros(len(z))
        for begin, answer in zip(begins, answers, strict=True):
            total[begin : begin + steps] += answer
            count[begin : begin + steps] += 1
        filled = total / count[:, None] * scale + mean
        return np.where(np.isnan(problem.values), filled, problem.values), None


@dataclass(frozen=True)
class SAITS(Learned):
    """Self-attention over steps and series (Du, Côté and Liu 2023)."""

    def network(self, steps: int, series: int) -> Any:
        from pypots.imputation import SAITS as Network

        return Network(
            n_steps=steps,
            n_features=series,
            n_layers=2,
            d_model=64,
            n_heads=4,
            d_k=16,
            d_v=16,
            d_ffn=128,
            dropout=0.1,
            epochs=self.epochs,
            batch_size=32,
            device="cpu",
            verbose=False,
        )


@dataclass(frozen=True)
class BRITS(Learned):
    """A recurrent network in both directions of time (Cao et al. 2018)."""

    epochs: int = 50

    def network(self, steps: int, series: int) -> Any:
        from pypots.imputation import BRITS as Network

        return Network(
            n_steps=steps,
            n_features=series,
            rnn_hidden_size=64,
            epochs=self.epochs,
            batch_size=32,
            device="cpu",
            verbose=False,
        )
