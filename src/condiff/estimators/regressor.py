"""The semi-supervised regressor."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.stats import skew
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score

from condiff.estimators.answering import ValueAnswers
from condiff.estimators.base import BaseCOIN
from condiff.estimators.inputs import Items, held_out_folds, unpacked, value_items, value_targets
from condiff.estimators.trained import Array
from condiff.model import Head

# Skewness from which logarithms are taken, if they at least halve it, and the fewest values that can tell.
_LOPSIDED, _FEWEST = 1.0, 10


def _are_lopsided(values: Array) -> NDArray[np.bool_]:
    """Which outputs are positive with a long tail of large values, as prices and incomes are."""
    if len(values) < _FEWEST:
        return np.zeros(values.shape[1], bool)
    # Values that hardly differ have no shape.
    usable = (values > 0).all(axis=0) & (np.ptp(values, axis=0) > 1e-6 * np.abs(values).max(axis=0))
    found = np.zeros(values.shape[1], bool)
    plain, bent = skew(values[:, usable], axis=0), skew(np.log(values[:, usable]), axis=0)
    found[usable] = (plain > _LOPSIDED) & (np.abs(bent) < plain / 2)
    return found


class COINRegressor(ValueAnswers, RegressorMixin, BaseCOIN):  # type: ignore[misc]
    """Predict values from few labels, with a network whose output is diffused over a graph of all points.

    Points without a value have NaN as their target; they take part in the graph. Several outputs at once are fine, as
    long as a row has all of them or none. Where values are positive with a long tail, as prices are, the base works on
    their logarithms. The parameters are those of :class:`COINClassifier`, without its classes.

    Attributes
    ----------
    transduction_ : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        The value of every training point, with or without a label; what :meth:`predict` returns for them.
    cv_score_ : float
        R^2 on held-out labels, NaN where there were too few.
    unlabelled_component_, layers_, strength_, diffusion_time_, graph_, certificate_, models_
        As in :class:`COINClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> from condiff import COINRegressor
    >>> angle = np.linspace(0, 3, 200)
    >>> X = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    >>> y = np.full(200, np.nan)
    >>> y[::20] = angle[::20]  # ten values
    >>> model = COINRegressor().fit(X, y)
    >>> bool(np.abs(model.transduction_ - angle).mean() < 0.2)
    True
    """

    _head: ClassVar[Head] = "identity"

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, adjacency: Any = None) -> Self:
        """Fit on points with and without values together; see :meth:`COINClassifier.fit`."""
        self._validate_params()
        X, y, adjacency = unpacked(X, y, adjacency, self.graph)
        nodes, weights = self._read(X, y, sample_weight, adjacency)
        values, self._single = value_targets(y, weights > 0)
        labelled = ~np.isnan(values[:, 0])
        items = value_items(nodes.of_row[labelled], values[labelled], weights[labelled])
        # The base works on values of mean zero and unit variance, or on such logarithms where values are lopsided.
        self._logarithmic = _are_lopsided(items.targets)
        bent = self._bent(items.targets)
        self._offset = np.average(bent, axis=0, weights=items.weights)
        spread = np.sqrt(np.average((bent - self._offset) ** 2, axis=0, weights=items.weights))
        self._spread = np.where(spread > 0, spread, 1.0)
        reach = (bent.max(axis=0) - bent.min(axis=0)) / 4
        self._low, self._high = bent.min(axis=0) - reach, bent.max(axis=0) + reach
        scaled = Items(items.nodes, self.scaled(items.targets), items.weights)
        held_out = held_out_folds(items, np.zeros(len(items.nodes), dtype=np.int64), self.folds, fewest=1)
        item = np.nonzero(held_out)[1]
        with self._domain.threads():
            answers = self._fit(
                nodes,
                scaled,
                held_out,
                values.shape[1],
                item_losses=lambda answers, item: ((answers - scaled.targets[item]) ** 2).mean(axis=1),
            )
        self.record_ = replace(
            self.record_, label_nodes=nodes.of_row[labelled], label_targets=self.scaled(values[labelled])
        )
        self.cv_score_ = float("nan")
        if self.record_.is_scored:
            held_out_values = self._values(answers)
            self.cv_score_ = float(r2_score(items.targets[item], held_out_values, sample_weight=items.weights[item]))
        self.transduction_ = self.values_of(self._outputs_of_rows(nodes, X))
        return self

    def scaled(self, values: Array) -> Array:
        """Values on the scale of the outputs: the inverse of :meth:`values_of`, for a matrix."""
        return np.asarray((self._bent(values) - self._offset) / self._spread)

    def _bent(self, values: Array) -> Array:
        return np.where(self._logarithmic, np.log(np.where(self._logarithmic, values, 1.0)), values)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = True
        return tags
