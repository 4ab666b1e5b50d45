"""Which points are labelled, and with what: every way in which people leave a target empty."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from condiff.errors import InvalidInputError

#: The code of a point without a label.
UNLABELLED = -1


@dataclass(frozen=True)
class ClassTargets:
    """Class labels as codes: ``codes[i]`` is an index into ``classes``, or -1 where point i has no label."""

    classes: NDArray[Any]
    codes: NDArray[np.int64]


def class_targets(y: Any, keep: NDArray[np.bool_]) -> ClassTargets:
    """Read class labels, of which some may be missing; those of rows not to keep count as missing.

    Missing is -1 among integers, NaN among floats, and None, NaN or the empty string among objects and strings, where
    -1 is then a class like any other.
    Integers that are all 1 or -1 are the two classes of the usual binary convention, with none missing.
    """
    labels = column_or_1d(_unpacked(y), warn=True)
    if labels.dtype.kind == "f":
        check_array(labels, ensure_2d=False, dtype=None, ensure_all_finite="allow-nan", input_name="y")
    missing = _missing_labels(labels) | ~keep
    given = labels[~missing]
    if given.size == 0:
        raise InvalidInputError("every target is missing: at least two classes need one labelled point each")
    given = _natural(given)
    try:
        check_classification_targets(given)
    except ValueError as error:
        raise InvalidInputError(str(error)) from error
    classes, present = np.unique(given, return_inverse=True)
    if len(classes) < 2:
        hint = "; note that -1 marks points without a label" if labels.dtype.kind in "iu" and missing.any() else ""
        raise InvalidInputError(
            f"only one class, {str(classes[0])!r}, is among the labels; at least two are needed{hint}"
        )
    codes = np.full(labels.shape[0], UNLABELLED, dtype=np.int64)
    codes[~missing] = present
    return ClassTargets(classes, codes)


def value_targets(y: Any, keep: NDArray[np.bool_]) -> tuple[NDArray[np.float64], bool]:
    """Read values for a regression as a matrix (n, outputs), and whether there is but one output.

    A row of NaN has no label, nor has one not to keep.
    """
    values = check_array(
        y, ensure_2d=False, dtype=np.float64, ensure_all_finite="allow-nan", input_name="y", allow_nd=False
    )
    if values.ndim == 2 and values.shape[1] == 1:
        values = column_or_1d(values, warn=True)
    matrix = values[:, None] if values.ndim == 1 else values
    missing = np.isnan(matrix)
    partly = missing.any(axis=1) & ~missing.all(axis=1)
    if partly.any():
        row = int(np.flatnonzero(partly)[0])
        raise InvalidInputError(
            f"row {row} of y has some of its {matrix.shape[1]} outputs but not all; give all of them or only NaN"
        )
    matrix = np.where(keep[:, None], matrix, np.nan)
    if np.isnan(matrix).all():
        raise InvalidInputError("every target is missing: at least one point needs a value")
    return matrix, values.ndim == 1


def _unpacked(y: Any) -> Any:
    """Columns of pandas' own types as objects: converted by themselves, whole numbers would become floats."""
    return y if isinstance(getattr(y, "dtype", None), np.dtype | None) else np.asarray(y, dtype=object)


def _natural(labels: NDArray[Any]) -> NDArray[Any]:
    """Labels among objects as an array of their own kind; strings stay objects."""
    if labels.dtype.kind != "O":
        return labels
    kinds = {_kind(label) for label in labels}
    if len(kinds) > 1:
        raise InvalidInputError(f"the labels mix {' and '.join(sorted(kinds))}; make them all of one kind")
    return labels if kinds == {"text"} else np.array(labels.tolist())


def _kind(label: Any) -> str:
    if isinstance(label, str):
        return "text"
    if isinstance(label, bool | np.bool_):
        return "truth values"
    return "numbers" if isinstance(label, Real) else type(label).__name__


def _missing_labels(labels: NDArray[Any]) -> NDArray[np.bool_]:
    kind = labels.dtype.kind
    if kind in "iu":
        missing = np.asarray(labels == UNLABELLED)
        return missing if (labels[~missing] != 1).any() else np.zeros_like(missing)
    if kind == "f":
        return np.asarray(np.isnan(labels))
    if kind in "US":
        return np.asarray(labels == labels.dtype.type())
    missing = np.array([_is_missing(label) for label in labels], dtype=bool)
    given = labels[~missing].tolist()
    # Where None or NaN says what is missing, -1 has no need to.
    if not missing.any() and all(isinstance(label, Integral) and not isinstance(label, bool) for label in given):
        return _missing_labels(np.array(given, dtype=np.int64))
    return missing


def _is_missing(label: Any) -> bool:
    # pandas' NA is neither equal nor unequal to itself.
    if label is None or type(label).__name__ in ("NAType", "NaTType"):
        return True
    return bool(label == "") if isinstance(label, str) else bool(label != label)
