from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from condiff.errors import InvalidInputError
from condiff.estimators.targets import class_targets, value_targets

ALL = np.ones(4, dtype=bool)


def objects(*values: Any) -> np.ndarray:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


@pytest.mark.parametrize(
    ("y", "classes"),
    [
        (np.array([3, -1, 5, 3]), [3, 5]),
        ([3, -1, 5, 3], [3, 5]),
        (np.array([3, -1, 5, 3], dtype=np.int8), [3, 5]),
        (objects(3, -1, 5, 3), [3, 5]),
        (np.array([3.0, np.nan, 5.0, 3.0]), [3.0, 5.0]),
        (objects("a", None, "b", "a"), ["a", "b"]),
        (objects("a", np.nan, "b", "a"), ["a", "b"]),
        (objects("a", "", "b", "a"), ["a", "b"]),
        (["a", "", "b", "a"], ["a", "b"]),
        (objects(3, None, 5, 3), [3, 5]),
        (objects(True, None, False, True), [False, True]),
        (objects("a", pd.NA, "b", "a"), ["a", "b"]),
        (pd.Series(["a", None, "b", "a"]), ["a", "b"]),
        (pd.Series(["a", None, "b", "a"], dtype="category"), ["a", "b"]),
        (pd.Series(["a", pd.NA, "b", "a"], dtype="string"), ["a", "b"]),
        (pd.Series([3, pd.NA, 5, 3], dtype="Int64"), [3, 5]),
        (pd.Series([3, -1, 5, 3], dtype="Int64"), [3, 5]),
        (pd.Series([True, pd.NA, False, True], dtype="boolean"), [False, True]),
        (pd.Series([3, None, 5, 3]), [3.0, 5.0]),
    ],
    ids=lambda value: str(getattr(value, "dtype", "")) or None,
)
def test_every_way_of_leaving_a_label_out(y: Any, classes: list[Any]) -> None:
    found = class_targets(y, ALL)
    assert found.classes.tolist() == classes
    assert [type(label) for label in found.classes.tolist()] == [type(label) for label in classes]
    there = {label: code for code, label in enumerate(classes)}
    first = found.codes[0]
    assert found.codes[1] == -1
    assert first == found.codes[3] == there[classes[first]]
    assert sorted({first, found.codes[2]}) == [0, 1]


def test_codes_point_at_the_classes() -> None:
    found = class_targets(["pear", "", "apple", "quince"], ALL)
    assert found.classes.tolist() == ["apple", "pear", "quince"]
    assert found.codes.tolist() == [1, -1, 0, 2]


@pytest.mark.parametrize("y", [np.array([-1, 1, 1, -1]), objects(-1, 1, 1, -1)])
def test_minus_one_and_one_alone_are_two_classes(y: np.ndarray) -> None:
    found = class_targets(y, ALL)
    assert found.classes.tolist() == [-1, 1]
    assert found.codes.tolist() == [0, 1, 1, 0]


def test_minus_one_is_a_class_where_none_says_what_is_missing() -> None:
    found = class_targets(objects(-1, 0, None, 1), ALL)
    assert found.classes.tolist() == [-1, 0, 1]
    assert found.codes.tolist() == [0, 1, -1, 2]


def test_minus_one_and_one_are_classes_where_none_marks_what_is_missing() -> None:
    found = class_targets(objects(-1, 1, None, -1), ALL)
    assert found.classes.tolist() == [-1, 1]
    assert found.codes.tolist() == [0, 1, -1, 0]


def test_truth_values_are_classes_with_none_missing() -> None:
    found = class_targets(np.array([True, False, True, True]), ALL)
    assert found.classes.dtype == bool
    assert found.codes.tolist() == [1, 0, 1, 1]


def test_rows_not_to_keep_count_as_missing() -> None:
    found = class_targets(np.array([0, 1, 2, 1]), np.array([True, True, False, True]))
    assert found.classes.tolist() == [0, 1]
    assert found.codes.tolist() == [0, 1, -1, 1]


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.array([2, -1, 2, 2]), "only one class, '2', .*-1 marks points without a label"),
        (objects("a", None, "a", "a"), "only one class, 'a'"),
        (np.array([1.0, np.nan, np.nan, np.nan]), "only one class"),
        (np.full(4, np.nan), "every target is missing"),
        (["", "", "", ""], "every target is missing"),
        (objects(None, None, None, None), "every target is missing"),
        (objects(1, "a", None, 2), "mix numbers and text"),
        (objects(True, 2, None, 3), "mix numbers and truth values"),
        (np.array([0.5, 1.5, np.nan, 0.25]), "Unknown label type: continuous"),
        (objects(0.5, 1.5, None, 0.25), "Unknown label type: continuous"),
    ],
)
def test_what_cannot_be_learnt_is_one_clear_error(y: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        class_targets(y, ALL)


def test_an_infinite_label_is_refused() -> None:
    with pytest.raises(ValueError, match="y contains infinity"):
        class_targets(np.array([0.0, 1.0, np.inf, 0.0]), ALL)


def test_values_of_one_output_are_one_column() -> None:
    values, single = value_targets([1.5, np.nan, 2.5, 0.0], ALL)
    assert single
    np.testing.assert_array_equal(values, [[1.5], [np.nan], [2.5], [0.0]])


def test_values_of_several_outputs_keep_their_columns() -> None:
    given = np.array([[1.0, 2.0], [np.nan, np.nan], [3.0, 4.0], [5.0, 6.0]])
    values, single = value_targets(given, np.array([True, True, True, False]))
    assert not single
    np.testing.assert_array_equal(values, [[1.0, 2.0], [np.nan, np.nan], [3.0, 4.0], [np.nan, np.nan]])


def test_pandas_numbers_with_na_are_values() -> None:
    values, _ = value_targets(pd.Series([1, pd.NA, 3, 4], dtype="Int64"), ALL)
    np.testing.assert_array_equal(values[:, 0], [1.0, np.nan, 3.0, 4.0])


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.array([[1.0, 2.0], [1.0, np.nan], [1.0, 2.0], [1.0, 2.0]]), "row 1 of y has some of its 2 outputs"),
        (np.full(4, np.nan), "every target is missing"),
    ],
)
def test_values_that_cannot_be_learnt_are_one_clear_error(y: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        value_targets(y, ALL)
