"""Delimited text: which encoding and which delimiter a file has, its header and its rows, with line numbers."""

from __future__ import annotations

import codecs
import contextlib
import csv
import gzip
import io
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any

import numpy as np

from condiff.errors import InvalidFileError
from condiff.files import FREE, RATIO, check_room, reason
from condiff.readers.cells import TEXT, as_number, clean, listed, no_duplicates
from condiff.readers.columns import Column, ColumnDict

_DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars", " ": "blanks"}
# Characters that decide the delimiter, and rows that are held as Python objects at a time.
_LOOK, _ROWS = 1 << 16, 1 << 14
#: Windows' superset of Latin-1, which gives every byte a meaning.
_LAST_RESORT = "cp1252"
_ERRORS = {_LAST_RESORT: "replace"}


@dataclass(frozen=True)
class TextForm:
    """How a text file is written."""

    encoding: str
    delimiter: str
    skip: int = 0
    remarks: int = 0

    def notes(self) -> list[str]:
        """What is unusual about it, in words."""
        names = {_LAST_RESORT: "Latin-1 (Windows-1252)", "utf-8-sig": ""}
        name = names.get(self.encoding, "UTF-16")
        notes = [f"read as {name}"] * bool(name)
        notes += [f"{self.remarks} line{'s' * (self.remarks > 1)} of remarks left out"] * (self.remarks > 0)
        return notes + [f"{_DELIMITERS[self.delimiter]} separate the cells"] * (self.delimiter not in (",", "\t"))


def inner_name(path: Path) -> str:
    """The name of the file, without ``.gz``, or of the one file in a ``.zip``; in lower case, with an ending."""
    name = path.name.lower()
    if name.endswith(".zip"):
        name = PurePosixPath(_only_member(path)).name.lower()
    name = name.removesuffix(".gz")
    return name if "." in name else f"{name}.csv"  # text, or the first look will tell


@contextlib.contextmanager
def open_binary(path: Path) -> Iterator[IO[bytes]]:
    """The file's bytes, unpacked if need be."""
    if not path.name.lower().endswith((".zip", ".gz")):
        with path.open("rb") as stream:
            yield stream
        return
    try:
        with contextlib.ExitStack() as stack:
            packed: Any
            if path.name.lower().endswith(".zip"):
                archive = stack.enter_context(zipfile.ZipFile(path))
                packed = stack.enter_context(archive.open(_only_member(path)))
            else:
                packed = stack.enter_context(gzip.open(path))
            yield io.BufferedReader(_Bounded(packed, path), _LOOK)
    except (gzip.BadGzipFile, EOFError, zlib.error, zipfile.BadZipFile, RuntimeError, NotImplementedError) as error:
        raise InvalidFileError(f"{path} cannot be unpacked ({reason(error)}): write or download it again") from error
    except OSError as error:
        raise InvalidFileError(f"{path} cannot be read ({reason(error)}): write or download it again") from error


class _Bounded(io.RawIOBase):
    """Unpacked bytes, as long as they are not absurdly many for the file."""

    def __init__(self, stream: IO[bytes], path: Path) -> None:
        self.stream, self.path, self.seen, self.packed = stream, path, 0, path.stat().st_size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        part = self.stream.read(len(buffer))
        self.seen += len(part)
        if self.seen > max(FREE, RATIO * self.packed):
            check_room(self.path, self.seen, "unpack it yourself if you trust it", packed=self.packed)
        buffer[: len(part)] = part
        return len(part)


def _only_member(path: Path) -> str:
    try:
        with zipfile.ZipFile(path) as archive:
            members = [
                name for name in archive.namelist() if not name.endswith("/") and not name.startswith("__MACOSX")
            ]
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise InvalidFileError(f"{path} cannot be unpacked ({reason(error)}): write or download it again") from error
    if len(members) != 1:
        shown = listed(members, 4) or "nothing"
        raise InvalidFileError(f"{path} holds {shown}: unpack it and name the file to read")
    return members[0]


def read_delimited(path: Path) -> tuple[ColumnDict, list[str]]:
    """The columns of a delimited text file, as text, and what is unusual about the file."""
    form = _form(path)
    return _columns(path, _records(path, form)), form.notes()


def read_records(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The header of a delimited text file, then its rows, each with the line on which it begins."""
    return _records(path, _form(path))


def text_form(path: Path) -> TextForm | None:
    """How a delimited text file is written; None for a file of another kind."""
    return _form(path) if inner_name(path).endswith((".csv", ".tsv", ".txt")) else None


def read_text(path: Path) -> str:
    """A whole text file, in any encoding."""
    encoding, _ = _encoding(path)
    with open_binary(path) as stream:
        try:
            return stream.read().decode(encoding, errors=_ERRORS.get(encoding, "strict"))
        except UnicodeDecodeError as error:
            raise InvalidFileError(f"{path} is cut off within a character ({error}): write it again") from error


def _form(path: Path) -> TextForm:
    encoding, text = _encoding(path)
    if not text.strip():
        raise InvalidFileError(f"{path} is empty (only white space): write the table again")
    first = text.partition("\n")[0].strip()
    if first.lower().startswith("sep=") and len(first) == 5 and first[4] in _DELIMITERS:  # Excel's own notation
        return TextForm(encoding, first[4], skip=1)
    lines = text.splitlines(keepends=True)
    remarks = next((place for place, line in enumerate(lines) if not line.startswith("#")), 0)
    rest = "".join(lines[remarks:])
    delimiter = _delimiter(rest or text)
    # A line of names may begin with # too: it has as many cells as the lines below.
    names = remarks and lines[remarks - 1].count(delimiter) == lines[remarks].count(delimiter) > 0
    remarks -= bool(names)
    return TextForm(encoding, delimiter, skip=remarks, remarks=remarks)


def _encoding(path: Path) -> tuple[str, str]:
    """The encoding of a file, which is known once all of it has been read, and how it begins."""
    with open_binary(path) as stream:
        head = stream.read(_LOOK)
        if head.startswith((b"\xff\xfe", b"\xfe\xff")):
            return "utf-16", head[: len(head) // 2 * 2].decode("utf-16", errors="replace")
        if head.startswith(b"PK\3\4"):
            raise InvalidFileError(f"{path} is not text but an archive or a sheet: name it .zip or .xlsx")
        if b"\0" in head:
            for encoding, zeros in (("utf-16-le", head[1::2]), ("utf-16-be", head[::2])):
                if 2 * zeros.count(0) > len(zeros):  # most letters have a zero on one side
                    return encoding, head[: len(head) // 2 * 2].decode(encoding, errors="replace")
            raise InvalidFileError(f"{path} is not text: save the table as CSV")
        decoder = codecs.getincrementaldecoder("utf-8-sig")()
        try:
            text = decoder.decode(head)
            while part := stream.read(_LOOK << 4):
                decoder.decode(part)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return _LAST_RESORT, head.decode(_LAST_RESORT, errors="replace")
        return "utf-8-sig", text


def _delimiter(text: str) -> str:
    """The delimiter under which most of the first lines are as wide as the header."""

    def score(delimiter: str) -> tuple[float, bool, int]:
        widths = []
        try:
            for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True):
                widths.append(len(row))
                if len(widths) == 50:
                    break
        except csv.Error:
            return 0.0, False, 0
        widths = [width for width in widths if width] or [0]
        share = widths.count(widths[0]) / len(widths) if widths[0] > 1 else 0.0
        # Blanks separate words too: only as a last resort.
        return share, delimiter != " ", widths[0]

    best = max(_DELIMITERS, key=score)
    return best if score(best)[0] > 0 and (best != " " or score(best)[0] == 1.0) else ","


def _columns(path: Path, records: Iterator[tuple[int, list[str]]]) -> ColumnDict:
    header = next(records)[1]
    parts: list[list[np.ndarray]] = [[] for _ in header]
    batch: list[list[str]] = []

    def put_away() -> None:
        for cells, part in zip(zip(*batch, strict=True), parts, strict=True):
            part.append(clean(cells))
        batch.clear()

    for _, row in records:
        batch.append(row)
        if len(batch) == _ROWS:
            put_away()
    if batch:
        put_away()
    columns: dict[str, Column] = {}
    rows = sum(len(part) for part in parts[0])
    for position, (name, part) in enumerate(zip(header, parts, strict=True), start=1):
        values = np.concatenate(part) if part else np.array([], dtype=TEXT)
        part.clear()
        if not name.startswith("\0"):
            columns[name] = Column(name, "text", values)
        elif (values != "").any():
            raise InvalidFileError(f"{path}: column {position} has no name: name it in the first line")
    return ColumnDict(columns, rows, str(path))


def _records(path: Path, form: TextForm) -> Iterator[tuple[int, list[str]]]:
    errors = _ERRORS.get(form.encoding, "strict")
    with open_binary(path) as raw, io.TextIOWrapper(raw, form.encoding, errors=errors, newline="") as stream:
        for _ in range(form.skip):
            stream.readline()
        read: list[str] = []  # the lines of the current row

        def lines() -> Iterator[str]:
            for line in stream:
                read.append(line)
                yield line

        reader = csv.reader(lines(), delimiter=form.delimiter, skipinitialspace=True)
        header: list[str] = []
        start = 1 + form.skip
        last: list[str] = []
        try:
            for row in reader:
                # Of a single column, a cell that is empty is written in quotes, to be told from an empty line.
                quoted = len(header) == 1 and any('"' in line for line in read)
                if not row or (len(row) == 1 and not row[0].strip() and not quoted):
                    pass
                elif not header:
                    header = _named_columns(path, [cell.strip() for cell in row])
                    yield start, header
                elif len(row) != len(header) and (len(row) < len(header) or any(row[len(header) :])):
                    raise _wrong_width(path, start, row, header, form.delimiter, len(read) > 2)
                else:
                    yield start, row[: len(header)]
                start += len(read)
                last = read.copy() if len(read) > 1 else []
                read.clear()
            if not header:
                raise InvalidFileError(f"{path} is empty (no line has a value): write the table again")
            # A quote that is never closed takes in the rest of the file, which only a strict reader notices.
            list(csv.reader(last, delimiter=form.delimiter, skipinitialspace=True, strict=True))
        except (csv.Error, UnicodeDecodeError) as error:
            if str(error) == "unexpected end of data":
                line = start - len(last)
                raise InvalidFileError(f"{path}, line {line}: is a quote left open? fix the line") from error
            raise InvalidFileError(f"{path}, line {start}: {error}: fix the line") from error


def _wrong_width(
    path: Path, line: int, row: list[str], header: list[str], delimiter: str, many_lines: bool
) -> InvalidFileError:
    quote = "; is a quote left open?" if many_lines else ""
    return InvalidFileError(
        f"{path}, line {line}: {len(row)} cell{'s' * (len(row) != 1)} where the header has {len(header)}: "
        f"fix the line (a cell that holds the delimiter {delimiter!r} needs quotes){quote}"
    )


def _named_columns(path: Path, cells: list[str]) -> list[str]:
    filled = [cell for cell in cells if cell]
    # A frame without column names is saved under 0, 1, 2, ...: that is a header.
    if all(as_number(cell) is not None for cell in filled) and filled != [str(i) for i in range(len(filled))]:
        raise InvalidFileError(
            f"{path}: the first line looks like data ({listed(filled, 3)}), not like column names: "
            "add a first line with a name for each column"
        )
    no_duplicates(path, filled)
    # pandas saves its index as a first column without a name; other nameless columns must turn out empty.
    first = "index" if "index" not in cells else "\0 0"
    return [cell or (first if position == 0 else f"\0 {position}") for position, cell in enumerate(cells)]
