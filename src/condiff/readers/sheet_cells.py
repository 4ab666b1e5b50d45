"""Prints the cells of a sheet as JSON: a script of its own, for a process with a limit on its memory.

It imports nothing of condiff, so that it starts at once. Arguments: the file, and the bytes that reading it may take.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import sys
from typing import Any


def main(path: str, room: int) -> None:
    """Print name, cells and the number of sheets."""
    import python_calamine

    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        limit = room + (1 << 28)  # and what the interpreter takes
        resource.setrlimit(resource.RLIMIT_AS, (limit if hard < 0 else min(limit, hard), hard))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    book = python_calamine.CalamineWorkbook.from_path(path)
    sheets = ((name, book.get_sheet_by_name(name).to_python(skip_empty_area=True)) for name in book.sheet_names)
    name, rows = next(((name, rows) for name, rows in sheets if rows), ("", []))
    json.dump([name, rows, len(book.sheet_names)], sys.stdout, default=_as_json)


def _as_json(value: Any) -> dict[str, Any]:
    if isinstance(value, datetime.timedelta):
        return {"seconds": value.total_seconds()}
    return {type(value).__name__: value.isoformat()}


if __name__ == "__main__":
    try:
        main(sys.argv[1], int(sys.argv[2]))
    except BaseException as error:  # a panic of the compiled reader is no Exception
        lines = str(error).splitlines() or [type(error).__name__]
        print(lines[0], file=sys.stderr)
        sys.exit(3)
