"""Tables in JSON documents and in sheets of Excel or LibreOffice."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from condiff.errors import InvalidFileError, InvalidInputError, MissingDependencyError
from condiff.readers.cells import listed
from condiff.readers.columns import ColumnDict, gather, object_columns
from condiff.readers.delimited import read_text

_FORMS = "a list of objects, an object with a list for each column, or one object per line"


def read_json(path: Path, *, lines: bool) -> ColumnDict:
    """A list of records, an object of columns, or with ``lines`` a record on each line."""
    text = read_text(path)
    if not text.strip():
        raise InvalidFileError(f"{path} is empty (only white space): write the table again")
    try:
        content = [json.loads(line) for line in text.splitlines() if line.strip()] if lines else json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise InvalidFileError(f"{path} is damaged or not JSON ({error}): write it again") from error
    if isinstance(content, dict) and isinstance(content.get("data"), list) and content.keys() & {"columns", "schema"}:
        # pandas' "split" and "table".
        rows, names = content["data"], content.get("columns")
        split = isinstance(names, list) and all(isinstance(row, list) and len(row) == len(names) for row in rows)
        content = [dict(zip(map(str, names), row, strict=True)) for row in rows] if split and names else rows
    if isinstance(content, dict):
        # pandas writes a column as an object from row names to values.
        columns = {name: list(v.values()) if isinstance(v, dict) else v for name, v in content.items()}
        if not columns or not all(isinstance(values, list) for values in columns.values()):
            raise InvalidFileError(f"{path} is not a table: a JSON table is {_FORMS}")
        return _gathered(path, columns)
    if not isinstance(content, list) or not all(isinstance(record, dict) for record in content):
        raise InvalidFileError(f"{path} is not a table: a JSON table is {_FORMS}")
    names = dict.fromkeys(name for record in content for name in record)
    return _gathered(path, {name: [record.get(name) for record in content] for name in names})


def read_sheet(path: Path) -> tuple[ColumnDict, list[str]]:
    """The first sheet that is not empty, whose first row names the columns, and which of several it was."""
    try:
        import python_calamine
    except ImportError as error:
        raise MissingDependencyError(
            "reading a sheet needs python-calamine: pip install 'condiff[data]', or save the sheet as CSV"
        ) from error
    try:
        book = python_calamine.CalamineWorkbook.from_path(str(path))
        sheets = ((name, book.get_sheet_by_name(name).to_python(skip_empty_area=True)) for name in book.sheet_names)
        sheet, rows = next(((name, rows) for name, rows in sheets if rows), ("", []))
    except Exception as error:
        # The reader has a family of exceptions of its own; whichever it is, the file is to be written again.
        raise InvalidFileError(f"{path} is not a readable sheet ({error}): save it again, or as CSV") from error
    if not rows:
        raise InvalidFileError(f"{path} is empty: write the table again")
    names = [str(cell).strip() for cell in rows[0]]
    filled = [row for row in rows[1:] if any(cell != "" for cell in row)]
    columns: dict[str, list[Any]] = {}
    for position, name in enumerate(names):
        cells = [None if row[position] == "" else row[position] for row in filled]
        if not name and any(cell is not None for cell in cells):
            raise InvalidFileError(f"{path}: column {position + 1} has no name: name it in the first row")
        if name in columns:
            raise InvalidFileError(f"{path} has more than one column named {name!r}: give each its own name")
        if name:
            columns[name] = cells
    others = len(book.sheet_names) - 1
    return _gathered(path, columns), [f"read the sheet {sheet!r}, one of {others + 1}"] * (others > 0)


def _gathered(path: Path, columns: Mapping[str, Sequence[Any]]) -> ColumnDict:
    lengths = {len(values) for values in columns.values()}
    if len(lengths) > 1:
        raise InvalidFileError(f"{path}: the columns have different lengths ({listed(sorted(map(str, lengths)), 4)})")
    try:
        return gather((each for name, values in columns.items() for each in object_columns(name, values)), str(path))
    except (InvalidInputError, OverflowError) as error:
        raise InvalidFileError(f"{path}: {error}") from error
