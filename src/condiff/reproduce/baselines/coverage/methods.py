"""Cross-conformal sets of one fit, and split conformal prediction beside them, for classes and for values."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression, Ridge

from condiff.estimators import COINClassifier, COINRegressor
from condiff.reproduce.baselines.method import Answers, Method, timed
from condiff.uncertainty.conformal import Promise

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class CoverageProblem:
    """Rows, few labels, and the coverage that is asked for.

    Attributes
    ----------
    x, adjacency
        The rows, dense or sparse, and the graph between them, if there is one.
    given
        Class codes, -1 where there is none; or values, and NaN.
    n_classes
        How many classes there are, labelled or not; 0 for values.
    coverage
        The share of the rows whose set is to hold the truth.
    linear
        Whether COIN's base is a linear model, diffused a little: fast, for thousands of draws.
    """

    x: Any
    given: NDArray[Any]
    n_classes: int
    coverage: float
    adjacency: Any = None
    linear: bool = False

    @property
    def known(self) -> NDArray[np.intp]:
        """The labelled rows."""
        return np.flatnonzero(self.given >= 0 if self.n_classes else np.isfinite(self.given))

    def fit(self, given: NDArray[Any], **options: Any) -> Any:
        """COIN with its defaults, or on a linear base, on these labels."""
        kind = COINClassifier if self.n_classes else COINRegressor
        if self.linear:
            options |= {"base": LogisticRegression(max_iter=200) if self.n_classes else Ridge(), "layers": 4}
        graph = {} if self.adjacency is None else {"adjacency": self.adjacency}
        return kind(**options).fit(self.x, given, **graph)

    @cached_property
    def model(self) -> Any:
        """The fit that all sets but those of split conformal prediction are made of."""
        return self.fit(self.given)

    def spread(self, found: NDArray[np.bool_], classes: NDArray[Any]) -> NDArray[np.bool_]:
        """Sets of the labelled classes as sets of all classes."""
        sets = np.zeros((len(found), self.n_classes), bool)
        sets[:, classes.astype(np.intp)] = found
        return sets


@dataclass(frozen=True)
class CoverageMethod(Method):
    """A way to make sets or intervals."""

    #: Whether it has intervals for values.
    for_values: ClassVar[bool] = True

    @abstractmethod
    def found(self, problem: CoverageProblem, seed: int) -> NDArray[Any]:
        """Sets or intervals for every row."""

    def solve(self, problem: CoverageProblem, seed: int) -> Answers:
        """Make them; the fit that several share counts for the first of them."""
        return timed(lambda: self.found(problem, seed))


@dataclass(frozen=True)
class Cross(CoverageMethod):
    """What ``predict_set`` and ``predict_interval`` give by default."""

    options: ClassVar[dict[str, Any]] = {}

    def found(self, problem: CoverageProblem, seed: int) -> NDArray[Any]:
        model, nodes = problem.model, problem.model.record_.node_of_row
        if not problem.n_classes:
            return np.asarray(model.predict_interval(problem.x, problem.coverage, **self.options))
        if problem.adjacency is not None:
            return problem.spread(model.answers_at(nodes, problem.coverage, **self.options), model.classes_)
        return problem.spread(model.predict_set(problem.x, problem.coverage, **self.options), model.classes_)


@dataclass(frozen=True)
class PerClass(Cross):
    """The coverage is promised for every class by itself."""

    for_values: ClassVar[bool] = False
    options: ClassVar[dict[str, Any]] = {"per_class": True}


@dataclass(frozen=True)
class Proved(Cross):
    """The coverage is a theorem."""

    options: ClassVar[dict[str, Any]] = {"proved": True}


@dataclass(frozen=True)
class SplitConformal(CoverageMethod):
    """Fit on half of the labels, compare with the other half: exact coverage, from fewer labels on either side.

    Parameters
    ----------
    share
        Of the labels that are fitted on.
    """

    share: float = 0.5

    def found(self, problem: CoverageProblem, seed: int) -> NDArray[Any]:
        known = np.random.default_rng(seed).permutation(problem.known)
        n_fit = max(2, round(self.share * len(known)))
        fitted, compared = known[:n_fit], known[n_fit:]
        if problem.n_classes and len(np.unique(problem.given[fitted])) < 2:
            return np.ones((len(problem.given), problem.n_classes), bool)
        given = np.full_like(problem.given, -1 if problem.n_classes else np.nan)
        given[fitted] = problem.given[fitted]
        model = problem.fit(given, folds=0)
        promise = Promise(problem.coverage, len(compared))
        outputs = model.record_.output[model.record_.node_of_row]
        if not problem.n_classes:
            middle = model.values_of(outputs)
            far = np.sort(np.abs(problem.given[compared] - middle[compared]))[len(compared) - promise.excluded]
            return np.stack([middle - far, middle + far], axis=1)
        scores = np.full((len(outputs), problem.n_classes), np.inf)
        scores[:, model.classes_.astype(np.intp)] = 1 - model.probabilities_of(outputs)
        of_labels = scores[compared, problem.given[compared]]
        largest = np.sort(of_labels)[len(compared) - promise.excluded]
        sets = scores <= largest
        sets[np.arange(len(sets)), scores.argmin(axis=1)] = True
        return np.asarray(sets)
