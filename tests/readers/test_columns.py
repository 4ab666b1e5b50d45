"""Columns out of whatever people have."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import numpy as np
import pytest

from condiff.errors import InvalidInputError
from condiff.readers.columns import Column, as_columns, object_columns


@pytest.mark.parametrize(
    ("values", "kind", "words"),
    [
        ([1, None, 2.5], "number", ["1", "", "2.5"]),
        ([decimal.Decimal("1.50"), None], "number", ["1.5", ""]),
        ([True, None, False], "boolean", ["True", "", "False"]),
        ([datetime.date(2024, 1, 2), None], "date", ["2024-01-02", ""]),
        ([datetime.datetime(2024, 1, 2, 3, 4, 5), None], "date", ["2024-01-02 03:04:05", ""]),
        ([" a ", "NA", None, "b"], "text", ["a", "", "", "b"]),
        ([1, "a", 2.0, True], "text", ["1", "a", "2", "True"]),
        ([None, float("nan")], "text", ["", ""]),
        ([], "text", []),
    ],
)
def test_python_objects(values: list[Any], kind: str, words: list[str]) -> None:
    [column] = object_columns("c", values)
    assert column.kind == kind
    assert column.words().tolist() == words
    assert column.missing.tolist() == [word == "" for word in words]


@pytest.mark.parametrize(
    ("array", "kind", "words"),
    [
        (np.array([1, 2], dtype=np.int8), "number", ["1", "2"]),
        (np.array([1.5, np.nan], dtype=np.float32), "number", ["1.5", ""]),
        (np.array([True, False]), "boolean", ["True", "False"]),
        (np.array(["a ", "NA"]), "text", ["a", ""]),
        (np.array([b"a", b""]), "text", ["a", ""]),
        (np.array(["2024-01-02", "NaT"], dtype="datetime64[D]"), "date", ["2024-01-02", ""]),
        (np.array([1500, "NaT"], dtype="timedelta64[ms]"), "number", ["1.5", ""]),
        (np.array([None, 3], dtype=object), "number", ["", "3"]),
    ],
)
def test_arrays(array: np.ndarray, kind: str, words: list[str]) -> None:
    column = as_columns({"c": array}).column("c")
    assert column.kind == kind
    assert column.words().tolist() == words


def test_lists_become_a_column_for_each_entry() -> None:
    table = as_columns({"v": [[1, 2], None, np.array([3, 4])], "w": [1, 2, 3]})
    assert table.columns == ("v[0]", "v[1]", "w")
    np.testing.assert_array_equal(table.column("v[1]").values, [2, np.nan, 4])


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ({"a": [1], "b": [1, 2]}, "different lengths"),
        ({"a": [{"b": 1}]}, "holds dict"),
        ({"a": [[1], [1, 2]]}, "number lists of one length"),
        ({"a": [["x"], ["y"]]}, "number lists of one length"),
        ({"a[0]": [1], "a": [[2]]}, r"more than one column named 'a\[0\]'"),
        (np.zeros((2, 2, 2)), "two dimensions"),
    ],
)
def test_what_is_no_table(X: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        as_columns(X)


def test_a_column_is_taken_as_it_is() -> None:
    column = Column("x", "number", np.array([1.0]))
    assert as_columns({"y": column}).column("y").values is column.values
