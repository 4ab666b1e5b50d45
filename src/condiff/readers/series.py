"""A user's series on a graph: two CSV files.

``SERIES.csv`` has a line per day. Its first column names the day, every other column is a region; an empty cell is a
value that is missing. ``EDGES.csv`` has the columns ``source`` and ``target``, which hold names of regions, and perhaps
``weight`` and ``day``. With ``day`` each day has a graph of its own. Commas, semicolons or tabs separate the cells.
"""

from __future__ import annotations

import datetime
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from condiff.errors import InvalidFileError, did_you_mean
from condiff.readers.cells import MISSING_CELLS, as_number, listed
from condiff.readers.delimited import read_records
from condiff.readers.node import undirected

if TYPE_CHECKING:
    from numpy.typing import NDArray

_EDGE_COLUMNS = ("source", "target", "weight", "day")


@dataclass(frozen=True, eq=False)
class SeriesFile:
    """Series of regions and the graph between them.

    Attributes
    ----------
    days
        The names of the days, the oldest first.
    names
        The names of the regions.
    values
        (days, regions), NaN where a value is missing.
    weights
        One (regions, regions) graph for all days, or one per day.
    """

    days: tuple[str, ...]
    names: tuple[str, ...]
    values: NDArray[np.float64]
    weights: tuple[sp.csr_array, ...]

    def coming_days(self, count: int) -> list[str]:
        """The names of the days after the last one: dates and numbers continue, other names get ``+1``, ``+2``."""
        places = _places(self.days)
        if places is None or len(places) < 2:
            return [f"+{step}" for step in range(1, count + 1)]
        last, gap = places[-1], places[-1] - places[-2]
        coming = [last + step * gap for step in range(1, count + 1)]
        if _date(self.days[-1]) is not None:
            return [datetime.date.fromordinal(int(place)).isoformat() for place in coming]
        return [f"{place:g}" for place in coming]


def read_series(series: Path | str, edges: Path | str, *, directed: bool = False) -> SeriesFile:
    """Read both files and check them against each other.

    Parameters
    ----------
    series, edges
        The files.
    directed
        Whether an edge lets only its source average over its target. If not, an edge joins both, and of the weights
        of a pair the largest counts.
    """
    days, names, values = _read_values(Path(series))
    graphs = _read_edges(Path(edges), Path(series), days, names)
    if not directed:
        graphs = tuple(undirected(graph) for graph in graphs)
    return SeriesFile(days, names, values, graphs)


def _read_values(path: Path) -> tuple[tuple[str, ...], tuple[str, ...], NDArray[np.float64]]:
    records = read_records(_existing(path))
    _, header = next(records)
    names = tuple(header[1:])
    if not names:
        raise InvalidFileError(f"{path} has one column: the first is the day, and each other one is a region")
    for position, name in enumerate(names, start=2):
        if name.startswith("\0"):
            raise InvalidFileError(f"{path}: column {position} has no name: write the region's name in the first line")
    lines: dict[str, int] = {}
    rows = []
    for line, row in records:
        day = row[0].strip()
        if not day or day in lines:
            what = f"{day!r} is that of line {lines[day]} as well" if day else "is empty"
            raise InvalidFileError(f"{path}, line {line}: the day {what}: give every line its own day")
        lines[day] = line
        rows.append([_value(path, line, name, cell.strip()) for name, cell in zip(names, row[1:], strict=True)])
    if not rows:
        raise InvalidFileError(f"{path} has column names but no rows: add a line for each day")
    _check_order(path, lines)
    return tuple(lines), names, np.array(rows)


def _value(path: Path, line: int, name: str, cell: str) -> float:
    if cell in MISSING_CELLS:
        return float("nan")
    number = as_number(cell)
    if number is None:
        raise InvalidFileError(
            f"{path}, line {line}, column {name!r} is {cell!r}, which is not a finite number: correct it, or "
            "leave the cell empty where the value is missing"
        )
    return number


def _read_edges(path: Path, series: Path, days: tuple[str, ...], names: tuple[str, ...]) -> tuple[sp.csr_array, ...]:
    records = read_records(_existing(path))
    _, header = next(records)
    _check_columns(path, header)
    region = {name: number for number, name in enumerate(names)}
    at = {name: header.index(name) for name in header}
    # The largest weight of each edge, for each day or, under the empty name, for all.
    found: dict[str, dict[tuple[int, int], float]] = defaultdict(dict)
    for line, cells in records:
        row = {name: cells[place].strip() for name, place in at.items()}
        for end in ("source", "target"):
            if row[end] not in region:
                raise InvalidFileError(
                    f"{path}, line {line}: {series.name} has no region {row[end]!r}{did_you_mean(row[end], names)}: "
                    f"its columns are {listed(list(names), 6)}"
                )
        weight = as_number(row["weight"]) if "weight" in row else 1.0
        if weight is None or weight < 0:
            raise InvalidFileError(
                f"{path}, line {line}: the weight is {row['weight']!r}: give a finite number that is not negative"
            )
        day = row.get("day", "")
        if "day" in row and day not in days:
            raise InvalidFileError(f"{path}, line {line}: {series.name} has no day {day!r}: fix it, or drop the line")
        edge = region[row["source"]], region[row["target"]]
        found[day][edge] = max(weight, found[day].get(edge, 0.0))
    if not found:
        raise InvalidFileError(f"{path} has column names but no rows: add a line for each edge")
    return tuple(_matrix(found[day], len(names)) for day in (days if "day" in header else ("",)))


def _matrix(edges: dict[tuple[int, int], float], regions: int) -> sp.csr_array:
    ends = np.array(list(edges), dtype=np.int64).reshape(-1, 2)
    return sp.csr_array((list(edges.values()), (ends[:, 0], ends[:, 1])), shape=(regions, regions), dtype=np.float64)


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise InvalidFileError(f"{path} does not exist, or is not a file: name a CSV file")
    return path


def _check_columns(path: Path, header: list[str]) -> None:
    for name in _EDGE_COLUMNS[:2]:
        if name not in header:
            others = [other for other in header if other not in _EDGE_COLUMNS]
            raise InvalidFileError(
                f"{path} has no column {name!r}{did_you_mean(name, others)}: its first line names {listed(header, 6)}; "
                "edges have the columns source and target, and perhaps weight and day"
            )
    for name in header:
        if name not in _EDGE_COLUMNS:
            shown = "without a name" if name.startswith("\0") else repr(name)
            raise InvalidFileError(
                f"{path} has a column {shown}, which nothing reads: drop it; the columns are {', '.join(_EDGE_COLUMNS)}"
            )


def _check_order(path: Path, lines: dict[str, int]) -> None:
    """Days that are dates or numbers must rise, and none may be left out."""
    days = list(lines)
    places = _places(days)
    if places is None or len(places) < 2:
        return
    gaps = np.diff(places)
    if (gaps < 0).any():
        later = days[int(np.argmax(gaps < 0)) + 1]
        raise InvalidFileError(f"{path}, line {lines[later]}: {later} comes before the day above it: sort the lines")
    # Months differ in length, so that only gaps of whole multiples are holes.
    multiples = gaps / gaps.min()
    holes = (multiples > 1.5) & np.isclose(multiples, np.round(multiples))
    if holes.any():
        after = days[int(np.argmax(holes)) + 1]
        raise InvalidFileError(
            f"{path}, line {lines[after]}: a day before {after} is left out: add its line, with empty cells"
        )


def _places(days: list[str] | tuple[str, ...]) -> list[float] | None:
    """Where the days are in time, if all are dates or all are numbers."""
    for read in (_date, as_number):
        found = [read(day) for day in days]
        if None not in found:
            return [float(place) for place in found if place is not None]
    return None


def _date(text: str) -> float | None:
    try:
        return float(datetime.date.fromisoformat(text).toordinal()) if "-" in text else None
    except ValueError:
        return None
