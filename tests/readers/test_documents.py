"""JSON documents and sheets."""

from __future__ import annotations

import datetime
import gzip
import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from condiff.errors import InvalidFileError
from condiff.readers.tables import Table, read_table


def saved(path: Path, content: Any) -> Table:
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return read_table(path)


@pytest.mark.parametrize(
    "content",
    [
        [{"a": 1, "b": "x", "c": True}, {"a": None, "b": "y"}, {"a": 2.5, "c": False}],
        {"a": [1, None, 2.5], "b": ["x", "y", None], "c": [True, None, False]},
        {
            "a": {"0": 1, "1": None, "2": 2.5},
            "b": {"0": "x", "1": "y", "2": None},
            "c": {"0": True, "1": None, "2": False},
        },
    ],
    ids=["records", "columns", "pandas"],
)
def test_json_in_its_forms(tmp_path: Path, content: Any) -> None:
    table = saved(tmp_path / "t.json", content)
    assert table.columns == ("a", "b", "c")
    np.testing.assert_array_equal(table.target("a"), [1, np.nan, 2.5])
    assert table.target("b").tolist() == ["x", "y", None]
    assert table.target("c").tolist() == [True, None, False]
    if isinstance(content, list):
        lines = saved(tmp_path / "t.jsonl", "".join(json.dumps(record) + "\n" for record in content))
        assert lines.target("b").tolist() == ["x", "y", None]
        (tmp_path / "t.jsonl.gz").write_bytes(gzip.compress((tmp_path / "t.jsonl").read_bytes()))
        assert read_table(tmp_path / "t.jsonl.gz").n_rows == 3


def test_lists_become_columns(tmp_path: Path) -> None:
    table = saved(tmp_path / "t.json", [{"v": [1, 2]}, {"v": None}, {"v": [3, 4]}])
    assert table.columns == ("v[0]", "v[1]")
    np.testing.assert_array_equal(table.target("v[1]"), [2, np.nan, 4])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is damaged or not JSON"),
        ("  ", "only white space"),
        ("3", "is not a table: a JSON table is a list of objects"),
        ("[1, 2]", "is not a table"),
        ('{"a": 3}', "is not a table"),
        ('{"a": [1], "b": [1, 2]}', "different lengths"),
        ('[{"a": {"b": 1}}]', "column 'a' holds dict"),
        ('[{"a": [1]}, {"a": [1, 2]}]', "number lists of one length"),
        ("[]", "no rows"),
        ("[" * 100_000, "not JSON"),
        ('[{"a": ' + "9" * 400 + "}]", "t.json"),
    ],
)
def test_json_that_is_no_table(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(InvalidFileError, match=message):
        saved(tmp_path / "t.json", content)


def test_a_sheet(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    pytest.importorskip("python_calamine")
    book = openpyxl.Workbook()
    book.active.title = "empty"
    sheet = book.create_sheet("pets")
    sheet.append(["name", "age", "fine", "born", None])
    sheet.append(["Rex", 3, True, datetime.datetime(2024, 1, 2), None])
    sheet.append([None, None, None, None, None])
    sheet.append(["Tom", None, False, None, None])
    book.save(tmp_path / "t.xlsx")
    table = read_table(tmp_path / "t.xlsx")
    assert table.columns == ("name", "age", "fine", "born")
    assert table.n_rows == 2
    assert table.notes == ("read the sheet 'pets', one of 2",)
    assert table.column("born").words().tolist() == ["2024-01-02", ""]
    np.testing.assert_array_equal(table.target("age"), [3, np.nan])
    assert table.target("fine").tolist() == [True, False]
    sheet["E1"] = "name"
    book.save(tmp_path / "t.xlsx")
    with pytest.raises(InvalidFileError, match="more than one column named 'name'"):
        read_table(tmp_path / "t.xlsx")
    sheet["E1"], sheet["E2"] = None, "stray"
    book.save(tmp_path / "t.xlsx")
    with pytest.raises(InvalidFileError, match="column 5 has no name"):
        read_table(tmp_path / "t.xlsx")
    (tmp_path / "t.xlsx").write_bytes(b"PK no sheet")
    with pytest.raises(InvalidFileError, match="is not a readable sheet"):
        read_table(tmp_path / "t.xlsx")


def test_a_reader_that_says_several_lines_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "t.xls").write_bytes(b"x")
    said = b"thread panicked at cfb.rs:330:\nindex out of bounds\nnote: run with a backtrace\nindex out of bounds\n"
    monkeypatch.setattr("subprocess.run", lambda *_, **__: subprocess.CompletedProcess([], 3, b"", said))
    with pytest.raises(InvalidFileError, match=r"t\.xls is not a readable sheet \(index out of bounds\): save"):
        read_table(tmp_path / "t.xls")


def test_two_cells_in_the_corners_of_a_sheet_do_not_fill_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    pytest.importorskip("python_calamine")
    book = openpyxl.Workbook()
    book.active["A1"], book.active["XFD1048576"] = "a", "b"
    book.save(tmp_path / "t.xlsx")
    monkeypatch.setenv("CONDIFF_MEMORY", "500M")
    with pytest.raises(InvalidFileError, match=r"t\.xlsx is not a readable sheet \(it needs too much memory"):
        read_table(tmp_path / "t.xlsx")


def test_numbers_of_thousands_of_digits_are_one_error(tmp_path: Path) -> None:
    with pytest.raises(InvalidFileError, match="not JSON"):
        saved(tmp_path / "t.json", '[{"a": ' + "9" * 5000 + "}]")
