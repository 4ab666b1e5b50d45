"""Tables in JSON documents and in sheets of Excel or LibreOffice."""

from __future__ import annotations

import datetime
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from condiff.errors import InvalidFileError, InvalidInputError, MissingDependencyError, shortened
from condiff.files import memory_budget, parse_json, refusing
from condiff.readers.cells import listed
from condiff.readers.columns import ColumnDict, gather, object_columns
from condiff.readers.delimited import read_text

_AGAIN = "write it again"
# Seconds that a sheet may take, and how its reader ends where it cannot be read.
_SECONDS, _REFUSED = 300, 3
_FORMS = "a list of objects, an object with a list for each column, or one object per line"


def read_json(path: Path, *, lines: bool) -> ColumnDict:
    """A list of records, an object of columns, or with ``lines`` a record on each line."""
    text = read_text(path)
    if not text.strip():
        raise InvalidFileError(f"{path} is empty (only white space): write the table again")
    content = [parse_json(line, path, _AGAIN) for line in text.splitlines() if line.strip()] if lines else None
    content = parse_json(text, path, _AGAIN) if content is None else content
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
        import python_calamine  # noqa: F401
    except ImportError as error:
        raise MissingDependencyError(
            "reading a sheet needs python-calamine: pip install 'condiff[data]', or save the sheet as CSV"
        ) from error
    sheet, rows, number = _sheet_cells(path)
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
    return _gathered(path, columns), [f"read the sheet {sheet!r}, one of {number}"] * (number > 1)


def _sheet_cells(path: Path) -> tuple[str, list[list[Any]], int]:
    """The name and the cells of the first sheet that is not empty, and the number of sheets.

    Another process reads them: a few cells can span a sheet of billions, and the compiled reader ends its process where
    memory runs out.
    """
    command = [sys.executable, "-P", str(Path(__file__).with_name("sheet_cells.py")), str(path), str(memory_budget())]
    try:
        found = subprocess.run(command, capture_output=True, timeout=_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise InvalidFileError(f"{path} took more than {_SECONDS} s to read: save it as CSV") from error
    if found.returncode == 0:
        with refusing(path, "a readable sheet", "save it again, or as CSV"):
            name, rows, number = json.loads(found.stdout)
            return str(name), [[_cell(cell) for cell in row] for row in rows], int(number)
    # The last line: the compiled reader may have said more, over several, before.
    said = (found.stderr.decode("utf-8", "replace").strip().splitlines() or [""])[-1]
    if found.returncode != _REFUSED:
        said = "it needs too much memory, or the reader stopped"
    raise InvalidFileError(f"{path} is not a readable sheet ({shortened(said, 200)}): save it again, or as CSV")


def _cell(value: Any) -> Any:
    """A cell as Python has it; JSON knows no dates."""
    if not isinstance(value, dict):
        return value
    ((kind, text),) = value.items()
    if kind == "seconds":
        return datetime.timedelta(seconds=text)
    kinds: dict[str, Any] = {"date": datetime.date, "datetime": datetime.datetime, "time": datetime.time}
    return kinds[kind].fromisoformat(text)


def _gathered(path: Path, columns: Mapping[str, Sequence[Any]]) -> ColumnDict:
    lengths = {len(values) for values in columns.values()}
    if len(lengths) > 1:
        raise InvalidFileError(f"{path}: the columns have different lengths ({listed(sorted(map(str, lengths)), 4)})")
    try:
        return gather((each for name, values in columns.items() for each in object_columns(name, values)), str(path))
    except (InvalidInputError, ArithmeticError, ValueError, TypeError) as error:
        raise InvalidFileError(f"{path}: {error}") from error
