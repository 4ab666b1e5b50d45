"""The published text files of patients and genes, one reader each, with the errors that they can hold."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from condiff.errors import InvalidFileError, InvalidInputError, did_you_mean
from condiff.readers.cells import as_number
from condiff.readers.delimited import read_records
from condiff.reproduce.datasets.gene_table import PublishedSplit

if TYPE_CHECKING:
    from numpy.typing import NDArray

_PARTS = ("training", "validation", "test")


@dataclass(frozen=True, eq=False)
class Alterations:
    """A table of patients by genes; ``entries`` are those that are not zero."""

    patients: tuple[str, ...]
    genes: tuple[str, ...]
    entries: sp.coo_array


class _NumberOf(dict[str, float]):
    """The number that a text spells, NaN for none: millions of cells spell only a few, and each is read once."""

    def __missing__(self, text: str) -> float:
        number = as_number(text)
        return self.setdefault(text, np.nan if number is None else number)


def read_alterations(path: Path, lowest: int, highest: float) -> Alterations:
    """A table of whole numbers within limits, with one row per patient and one column per gene."""
    records = read_records(path)
    genes = next(records)[1][1:]
    for column, gene in enumerate(genes, start=2):
        if gene.startswith("\0"):
            raise InvalidInputError(f"{path}: column {column} has no gene: name it in the first line")
    number_of = _NumberOf()
    patients: dict[str, int] = {}
    columns: list[NDArray[np.int64]] = []
    values: list[NDArray[np.float64]] = []
    for line, cells in records:
        _add(patients, cells[0], len(patients), f"{path}, line {line}")
        row = np.fromiter(map(number_of.__getitem__, cells[1:]), np.float64, len(genes))
        wrong = ~((row == np.rint(row)) & (row >= lowest) & (row <= highest))
        if wrong.any():
            place = int(wrong.argmax())
            limits = f"from {lowest} to {highest}" if np.isfinite(highest) else f"from {lowest} on"
            found = f"{genes[place]} is {cells[place + 1]!r}"
            raise InvalidInputError(f"{path}, line {line}: gene {found}, not a whole number {limits}: fix the cell")
        columns.append(np.flatnonzero(row))
        values.append(row[columns[-1]])
    if not patients:
        raise InvalidInputError(f"{path} has no patient: it needs a row for each")
    rows = np.repeat(np.arange(len(patients)), [len(part) for part in columns])
    entries = (np.concatenate(values), (rows, np.concatenate(columns)))
    return Alterations(tuple(patients), tuple(genes), sp.coo_array(entries, shape=(len(patients), len(genes))))


def read_response(path: Path) -> dict[str, int]:
    """The columns ``id`` and ``response``: 0 or 1 for each patient."""
    response: dict[str, int] = {}
    for where, name, value in _responses(path):
        _add(response, name, value, where)
    return response


def read_column(path: Path, name: str) -> set[str]:
    """The cells of one column of a delimited file."""
    records = read_records(path)
    place = _place(path, next(records)[1], name)
    return {cells[place].strip() for _, cells in records}


def read_coordinates(path: Path) -> set[str]:
    """The genes of a file without a header, whose lines are chromosome, start, end and name with tabs between."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise InvalidFileError(f"{path} is not UTF-8 text ({error.reason}): write or download it again") from error
    names = set()
    for line, text in enumerate(lines, start=1):
        cells = text.split("\t")
        if len(cells) != 4:
            raise InvalidInputError(f"{path}, line {line}: {len(cells)} cells, not chromosome, start, end and name")
        names.add(cells[3].strip())
    return names


def read_splits(
    files: Mapping[str, Path], patients: Sequence[str], response: Mapping[str, int]
) -> tuple[PublishedSplit, ...]:
    """The splits of ``training_set_0.csv``, ``validation_set_0.csv``, ``test_set_0.csv`` and so on.

    A patient without features is left out, but one without a response is unknown.
    """
    found = (re.fullmatch(rf"(?:{'|'.join(_PARTS)})_set_(\d+)\.csv", name) for name in files)
    numbers = sorted({int(match[1]) for match in found if match})
    place = {name: index for index, name in enumerate(patients)}
    return tuple(_read_split(files, number, place, response) for number in numbers)


def _read_split(
    files: Mapping[str, Path], number: int, place: Mapping[str, int], response: Mapping[str, int]
) -> PublishedSplit:
    seen: dict[str, int] = {}
    parts = []
    for part in _PARTS:
        path = files.get(f"{part}_set_{number}.csv")
        if path is None:
            raise InvalidInputError(f"split {number} has no {part}_set_{number}.csv: give its three files")
        members = []
        for where, name, value in _responses(path):
            if name not in response:
                raise InvalidInputError(f"{where}: unknown patient {name!r}{did_you_mean(name, response)}")
            if response[name] != value:
                raise InvalidInputError(f"{where}: patient {name!r} is {value} here but {response[name]} elsewhere")
            _add(seen, name, value, where)
            if name in place:
                members.append(place[name])
        parts.append(np.array(sorted(members), dtype=np.int64))
    return PublishedSplit(*parts)


def _responses(path: Path) -> Iterator[tuple[str, str, int]]:
    """Every row of a file with the columns ``id`` and ``response``: its place, the patient, the response."""
    records = read_records(path)
    header = next(records)[1]
    name, value = _place(path, header, "id"), _place(path, header, "response")
    for line, cells in records:
        number = as_number(cells[value])
        if number not in (0, 1):
            raise InvalidInputError(f"{path}, line {line}: the response is {cells[value]!r}, not 0 or 1: fix it")
        yield f"{path}, line {line}", cells[name], int(number)


def _place(path: Path, header: list[str], name: str) -> int:
    if name not in header:
        raise InvalidInputError(f"{path} has no column {name!r}{did_you_mean(name, header)}: name it in the first line")
    return header.index(name)


def _add(known: dict[str, int], name: str, value: int, where: str) -> None:
    if name in known:
        raise InvalidInputError(f"{where}: patient {name!r} is there for the second time: keep one of them")
    known[name] = value
