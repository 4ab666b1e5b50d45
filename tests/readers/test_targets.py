"""The column to learn: what it holds, which task that is, and what looks like a mistake."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from condiff.errors import InvalidInputError
from condiff.readers.columns import object_columns
from condiff.readers.targets import class_slips, column_target, encode_classes, infer_task, regression_values


def target(*cells: Any, unlabelled: tuple[str, ...] = ()) -> list[Any]:
    found = column_target(object_columns("y", cells)[0], unlabelled)
    assert found is not None
    return [None if value is None or value != value else value for value in found.tolist()]


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (("1", "", "2.5"), [1.0, None, 2.5]),
        (("1,5", "2,5", "4,25"), [1.5, 2.5, 4.25]),
        (("$125.73", "-", "$99"), [125.73, None, 99.0]),
        (("1", "?", "2", "1"), [1.0, None, 2.0, 1.0]),
        (("true", "FALSE", ""), [True, False, None]),
        (("5 stars", "4 stars", "5 stars"), ["5 stars", "4 stars", "5 stars"]),
        (("yes", "?", "no "), ["yes", "?", "no"]),
        (("1", "2", "cat"), ["1", "2", "cat"]),
        ((1, None, 0), [1.0, None, 0.0]),
        ((True, None, False), [True, None, False]),
    ],
)
def test_what_a_target_holds(cells: tuple[Any, ...], values: list[Any]) -> None:
    assert target(*cells) == values


def test_words_that_mean_that_there_is_no_label() -> None:
    assert target("yes", "?", "no", "unknown", unlabelled=("?", "unknown")) == ["yes", None, "no", None]
    assert target(-1, 0, 1, 2, unlabelled=("-1",)) == [None, 0.0, 1.0, 2.0]


def test_slips_are_pointed_out_with_what_to_do() -> None:
    slips = class_slips(["?", "No", "Yes", "yes", "unknown"], [3, 20, 18, 2, 1])
    assert slips[0].startswith(
        "'?' (3 rows) is learned as a class: if it means that the answer is not known, empty those"
    )
    assert slips[0].endswith("add --unlabelled '?'")
    assert slips[1].startswith("'unknown' (1 row) is learned as a class")
    assert (
        slips[2]
        == "'Yes' (18 rows) and 'yes' (2 rows) are learned as different classes: spell them the same if they are one"
    )
    assert slips[3].startswith("class 'unknown' has a single labelled row")
    assert class_slips(["a", "b"], [2, 2]) == []
    assert class_slips([-1, 1], [5, 5]) == []
    assert "--unlabelled -1" in class_slips([-1, 0, 1], [5, 5, 5])[0]


def test_every_label_is_minus_one() -> None:
    with pytest.raises(InvalidInputError, match=r"is -1 in every row that has a value: .* no row is labelled"):
        encode_classes(np.array([-1.0, -1.0, np.nan]))


@pytest.mark.parametrize(
    ("values", "task"),
    [
        (np.array(["a", None, "b"], dtype=object), "classification"),
        (np.array([True, False, None], dtype=object), "classification"),
        (np.array([0.0, 1.0, np.nan]), "classification"),
        (np.array([-1.0, 1.0]), "classification"),
        (np.arange(10.0), "classification"),
        (np.repeat([10.0, 20.0, 35.0], 4), "classification"),
        (np.array([0.5, 1.5, 0.5, 1.5]), "regression"),
        (np.array([23.0, 31.0, 35.0, 48.0, 52.0, 61.0]), "regression"),
        (np.tile(np.arange(18.0, 90.0), 100), "regression"),
    ],
)
def test_infer_task(values: np.ndarray, task: str) -> None:
    assert infer_task(values) == task


def test_classes_keep_their_type() -> None:
    codes, classes = encode_classes(np.array([2.0, np.nan, 10.0, 2.0]))
    assert codes.tolist() == [0, -1, 1, 0]
    assert classes == [2, 10]
    assert isinstance(classes[0], int)
    assert encode_classes(np.array([True, None, False], dtype=object))[1] == [False, True]
    assert encode_classes(np.array(["b", None, "a"], dtype=object))[0].tolist() == [1, -1, 0]
    assert encode_classes(np.array([0.5, 2.0]))[1] == [0.5, 2]


def test_one_class_is_not_enough() -> None:
    with pytest.raises(InvalidInputError, match="column 'k' has only one class, 'cat': label rows of at least two"):
        encode_classes(np.array(["cat", None], dtype=object), "column 'k'")


def test_regression_values() -> None:
    np.testing.assert_array_equal(regression_values(np.array([1.0, np.nan, 2.0])), [1.0, np.nan, 2.0])
    np.testing.assert_array_equal(regression_values(np.array(["1", None, "2.5"], dtype=object)), [1.0, np.nan, 2.5])
    with pytest.raises(InvalidInputError, match=r"not a number in row 3 \('much'\)"):
        regression_values(np.array(["1", None, "much"], dtype=object))
    with pytest.raises(InvalidInputError, match="same value in every labelled row"):
        regression_values(np.array([2.0, 2.0]))
