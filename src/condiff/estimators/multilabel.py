"""Several labels for each row, such as the tags of a text: a classifier for each of them, on one graph."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils._param_validation import HasMethods
from sklearn.utils.validation import check_array, check_is_fitted

from condiff.errors import InvalidInputError
from condiff.estimators.answering import SeveralAnswers
from condiff.estimators.classifier import COINClassifier
from condiff.estimators.prepared import Prepared
from condiff.estimators.saving import Saveable


class COINMultiLabelClassifier(SeveralAnswers, Saveable):
    """Whether each of several labels applies to a row: one :class:`COINClassifier` for each, on the same graph.

    The rows are encoded and joined once. Every label then has its own base, diffusion and temperature, and its own
    missing answers: one may be known for a row and another not.

    Parameters
    ----------
    estimator : COINClassifier, default=None
        What answers for each label; with every default if None.

    Attributes
    ----------
    classes_ : ndarray of shape (n_labels,)
        The names of the labels: the columns of a data frame, or 0, 1, 2, ...
    heads_ : list of COINClassifier
        One for each.
    cv_scores_ : ndarray of shape (n_labels,)
        Accuracy at held-out rows, NaN where there were too few to hold out.
    transduction_ : ndarray of shape (n_samples, n_labels)
        Zeros and ones for the training rows.

    Examples
    --------
    >>> from condiff import COINMultiLabelClassifier
    >>> X = [[0.0], [0.1], [0.2], [5.0], [5.1], [5.2]]
    >>> Y = [[1, 0], [-1, -1], [-1, 0], [0, 1], [-1, -1], [0, -1]]  # -1 or NaN: not known
    >>> COINMultiLabelClassifier().fit(X, Y).transduction_.tolist()
    [[1, 0], [1, 0], [1, 0], [0, 1], [0, 1], [0, 1]]
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {"estimator": [HasMethods(["fit", "prepare"]), None]}

    heads_: list[COINClassifier]

    def __init__(self, estimator: Any = None) -> None:
        self.estimator = estimator

    def fit(self, X: Any, Y: Any, sample_weight: Any = None, *, adjacency: Any = None) -> Self:
        """Fit one classifier for each column of ``Y``: 1 applies, 0 does not, -1 or NaN is not known."""
        self._validate_params()
        names = np.asarray(Y.columns) if hasattr(Y, "columns") else None
        labels = _read_labels(Y)
        self.classes_ = np.arange(labels.shape[1]) if names is None else names
        own = COINClassifier() if self.estimator is None else self.estimator
        rows = X if isinstance(X, Prepared) else own.prepare(X, adjacency=adjacency)
        self.heads_ = []
        for name, column in zip(self.classes_, labels.T, strict=True):
            if len(set(column[column >= 0])) < 2:
                raise InvalidInputError(f"the label {name!s} needs at least one row with 1 and one with 0")
            self.heads_.append(clone(own).fit(rows, column, sample_weight))
        self.cv_scores_ = np.array([head.cv_score_ for head in self.heads_])
        self.transduction_ = np.stack([head.transduction_ for head in self.heads_], axis=1)
        return self

    @property
    def n_features_in_(self) -> int:
        """How many features or columns there are."""
        self._require_fitted()
        return self.heads_[0].n_features_in_

    def _require_fitted(self) -> None:
        check_is_fitted(self, "heads_")

    def _saved_params(self) -> dict[str, Any]:
        return {"estimator": None}  # each head has its own

    def _state(self) -> dict[str, Any]:
        heads = [{"params": head._saved_params(), "state": head._state()} for head in self.heads_]
        return self._fitted() | {"heads_": heads}

    def _head_of(self, params: dict[str, Any], state: dict[str, Any]) -> COINClassifier:
        head = COINClassifier(**params)
        head._validate_params()
        head._restore(state)
        return head


def _read_labels(Y: Any) -> NDArray[np.int64]:
    """Zeros and ones, and -1 for what is not known."""
    if np.ndim(Y) == 1:
        raise InvalidInputError(
            "Y has one column: for one label per row use COINClassifier, or give a column per label"
        )
    found = check_array(Y, dtype=np.float64, ensure_all_finite="allow-nan", input_name="Y")
    found = np.where(np.isnan(found), -1.0, found)
    wrong = np.argwhere(~np.isin(found, (-1.0, 0.0, 1.0)))
    if len(wrong):
        row, column = wrong[0]
        raise InvalidInputError(
            f"Y is {found[row, column]:g} in row {row}, column {column}: give 1, 0, or -1 if unknown"
        )
    return found.astype(np.int64)
