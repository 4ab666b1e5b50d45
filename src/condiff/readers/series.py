"""A user's series: CSV files of values, of edges between them, of features and of covariates.

``PANEL.csv`` is long or wide. A long table has the columns ``unique_id``, ``ds`` and ``y``, a line for each value; rows
may be in any order, and those that are left out are missing. A wide one has a line per time: its first column names the
time, every other column is a series; an empty cell is a value that is missing, and so is a line that is left out.
``EDGES.csv`` has the columns ``source`` and ``target``, which hold names of series, and perhaps ``weight`` and ``day``:
with ``day`` each time has a graph of its own. Commas, semicolons or tabs separate the cells.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from condiff.errors import InvalidFileError, did_you_mean
from condiff.readers.calendar import Calendar, IrregularError, calendar_of
from condiff.readers.cells import MISSING_CELLS, as_number, listed
from condiff.readers.delimited import read_records
from condiff.readers.node import undirected

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    _Records = Iterator[tuple[int, list[str]]]

_EDGE_COLUMNS = ("source", "target", "weight", "day")
#: The columns of a long table.
LONG = ("unique_id", "ds", "y")
# Names of columns that are degrees on a globe.
_LATITUDES, _LONGITUDES = ("lat", "latitude"), ("lon", "long", "lng", "longitude")
# What messages call a data frame.
_FRAME = Path("the data frame")


@dataclass(frozen=True, eq=False)
class SeriesFile:
    """Series, their times and the graph between them.

    Attributes
    ----------
    calendar
        The times, the oldest first.
    names
        The names of the series.
    values
        (times, series), NaN where a value is missing.
    weights
        One (series, series) graph for all times, or one per time; empty where no edges are given.
    long
        Whether the table was long.
    left_out
        How many times have no line.
    unread
        Columns of a long table that are neither series, time nor value.
    """

    calendar: Calendar
    names: tuple[str, ...]
    values: NDArray[np.float64]
    weights: tuple[sp.csr_array, ...] = ()
    long: bool = False
    left_out: int = 0
    unread: tuple[str, ...] = ()

    @property
    def days(self) -> tuple[str, ...]:
        """The names of the times."""
        return self.calendar.times

    def coming_days(self, count: int) -> list[str]:
        """The names of the times after the last one: the calendar goes on, other names get ``+1``, ``+2``."""
        return self.calendar.coming(count)


def read_series(series: Path | str, edges: Path | str | None = None, *, directed: bool = False) -> SeriesFile:
    """Read the files and check them against each other.

    Parameters
    ----------
    series, edges
        The files.
    directed
        Whether an edge lets only its source average over its target. If not, an edge joins both, and of the weights
        of a pair the largest counts.
    """
    path = _existing(Path(series))
    records = read_records(path)
    _, header = next(records)
    is_long = all(name in header for name in LONG)
    cells = _long_cells(path, header, records) if is_long else _wide_cells(path, header, records)
    unread = tuple(name for name in header if name not in LONG) if is_long else ()
    found = replace(_panel(path, cells, is_long), unread=unread)
    if edges is None:
        return found
    graphs = _read_edges(Path(edges), path, found.days, found.names)
    return replace(found, weights=graphs if directed else tuple(undirected(graph) for graph in graphs))


def series_of(frame: Any) -> SeriesFile:
    """The panel of a data frame: long, or wide with the times in a column ``ds``, in the index, or the first column."""
    columns = [str(name) for name in frame.columns]
    if all(name in columns for name in LONG):
        names, days, values = (list(frame[name]) for name in LONG)
        rows = enumerate(zip(map(str, names), _time_texts(days), map(_cell, values), strict=True), start=1)
        cells = _long_cells(_FRAME, list(LONG), ((number, list(row)) for number, row in rows))
        return _panel(_FRAME, cells, True)
    own = next((name for name in frame.columns if str(name) == "ds"), None)
    if own is None and not hasattr(frame, "index"):
        own = frame.columns[0]
    days = list(frame.index) if own is None else list(frame[own])
    series = [name for name in frame.columns if own is None or name != own]
    table = zip(_time_texts(days), *(map(_cell, frame[name]) for name in series), strict=True)
    cells = _wide_cells(_FRAME, ["", *map(str, series)], ((line, list(row)) for line, row in enumerate(table, start=1)))
    return _panel(_FRAME, cells, False)


def _time_texts(times: list[Any]) -> list[str]:
    """Times as they would be written: dates without a time of day where none has one."""
    texts = [str(time) for time in times]
    midnight = " 00:00:00"
    return [text.removesuffix(midnight) for text in texts] if all(text.endswith(midnight) for text in texts) else texts


def _cell(value: Any) -> str:
    return "" if value is None or value != value else str(value)


def _panel(path: Path, cells: _Cells, is_long: bool) -> SeriesFile:
    calendar, places = _calendar(path, list(cells.times))
    values = np.full((len(calendar.times), len(cells.names)), np.nan)
    for time, column, number in cells.values:
        values[places[time], column] = number
    left_out = len(calendar.times) - len(cells.times)
    return SeriesFile(calendar, tuple(cells.names), values, (), is_long, left_out)


@dataclass
class _Cells:
    """Values by the places of their time and their series; times have the line where they are first."""

    times: dict[str, int]
    names: dict[str, int]
    values: list[tuple[int, int, float]]


def _wide_cells(path: Path, header: list[str], records: _Records) -> _Cells:
    names = header[1:]
    if not names:
        raise InvalidFileError(f"{path} has one column: the first is the time, and each other one is a series")
    for position, name in enumerate(names, start=2):
        if name.startswith("\0"):
            raise InvalidFileError(f"{path}: column {position} has no name: write the region's name in the first line")
    found = _Cells({}, {name: place for place, name in enumerate(names)}, [])
    for line, row in records:
        day = row[0].strip()
        if not day or day in found.times:
            what = f"{day!r} is that of line {found.times[day]} as well" if day else "is empty"
            raise InvalidFileError(f"{path}, line {line}: the day {what}: give every line its own day")
        found.times[day] = line
        if len(found.times) == 1 and len(names) > 1 and row[1].strip() and calendar_of([row[1].strip()])[0].season:
            raise InvalidFileError(
                f"{path}, line {line}, column {names[0]!r} is a time: if the table is long, name the columns of its "
                f"series, times and values {', '.join(LONG)}; if it is wide, its first column is the time"
            )
        for column, (name, cell) in enumerate(zip(names, row[1:], strict=True)):
            found.values.append((len(found.times) - 1, column, _value(path, line, name, cell.strip())))
    if not found.times:
        raise InvalidFileError(f"{path} has column names but no rows: add a line for each day")
    return found


def _long_cells(path: Path, header: list[str], records: _Records) -> _Cells:
    at = [header.index(name) for name in LONG]
    found, seen, order = _Cells({}, {}, []), dict[tuple[str, str], int](), dict[str, int]()
    for line, row in records:
        name, day, cell = (row[place].strip() for place in at)
        for what, text in (("unique_id", name), ("ds", day)):
            if not text:
                raise InvalidFileError(f"{path}, line {line}: {what} is empty: every line has a series and a time")
        if (name, day) in seen:
            raise InvalidFileError(
                f"{path}, line {line}: {name!r} at {day!r} is on line {seen[name, day]} as well: keep one of them"
            )
        seen[name, day] = line
        order.setdefault(day, len(order))
        found.times.setdefault(day, line)
        column = found.names.setdefault(name, len(found.names))
        found.values.append((order[day], column, _value(path, line, "y", cell)))
    if not found.times:
        raise InvalidFileError(f"{path} has column names but no rows: add a line for each value")
    return found


def _calendar(path: Path, times: list[str]) -> tuple[Calendar, list[int]]:
    try:
        calendar, places = calendar_of(times)
    except IrregularError as error:
        raise InvalidFileError(f"{path}: {error}; give values at regular times, such as means per day") from error
    if len(times) == 1:
        raise InvalidFileError(f"{path} has one time, {times[0]}: of two or more it is known what comes next")
    if len(set(places)) < len(places):
        raise InvalidFileError(f"{path}: two of the times are the same, written differently: write them alike")
    return calendar, places


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


def read_static(path: Path | str, names: Sequence[str], *, words: bool = True) -> NDArray[np.float64]:
    """Features of each series, (series, columns): a line per series, its name first.

    Where ``words`` are allowed, a column that has any becomes one column for each of them, 1 where it is said.
    """
    path = _existing(Path(path))
    records = read_records(path)
    _, header = next(records)
    if len(header) < 2:
        raise InvalidFileError(f"{path} has one column: the first is the name of a series, and each other one a number")
    found = {row[0].strip(): (line, [cell.strip() for cell in row[1:]]) for line, row in records}
    for name in names:
        if name not in found:
            raise InvalidFileError(f"{path} has no line for {name!r}{did_you_mean(name, found)}: add it")
    columns: list[list[float]] = []
    for place, title in enumerate(header[1:]):
        cells = [found[name][1][place] for name in names]
        said = {cell for cell in cells if as_number(cell) is None}
        if words and said and not said & set(MISSING_CELLS):
            columns += [[float(cell == word) for cell in cells] for word in sorted(set(cells))]
        else:
            columns.append([_given(path, found[n][0], title, cell) for n, cell in zip(names, cells, strict=True)])
    return np.array(columns).T


@dataclass(frozen=True, eq=False)
class Positions:
    """Where series are.

    Attributes
    ----------
    points
        (series, columns) in one unit, to measure distances between: on a sphere where degrees are given.
    drawn
        (series, 2): to the right and upwards on a map.
    """

    points: NDArray[np.float64]
    drawn: NDArray[np.float64]


def read_positions(path: Path | str, names: Sequence[str]) -> Positions:
    """Coordinates of each series, a line per series, its name first: two in one unit, or latitude and longitude."""
    values = read_static(path, names, words=False)
    _, header = next(read_records(Path(path)))
    words = [name.strip().lower() for name in header[1:]]
    if values.shape[1] != 2:
        raise InvalidFileError(
            f"{path} has {values.shape[1]} numbers per series: positions are two, as x and y or latitude and longitude"
        )
    found = [[place for place, word in enumerate(words) if word in of] for of in (_LATITUDES, _LONGITUDES)]
    if not all(found):
        return Positions(values, values)
    latitude, longitude = (values[:, place[0]] for place in found)
    if np.abs(latitude).max() > 90:
        raise InvalidFileError(f"{path} has latitudes beyond 90 degrees: are the columns swapped?")
    up, around = np.radians(latitude), np.radians(longitude)
    points = np.stack([np.cos(up) * np.cos(around), np.cos(up) * np.sin(around), np.sin(up)], axis=1)
    # As wide as at the middle latitude.
    drawn = np.stack([longitude * np.cos(np.radians(latitude.mean())), latitude], axis=1)
    return Positions(points, drawn)


def read_covariates(path: Path | str, data: SeriesFile, horizon: int) -> NDArray[np.float64]:
    """What is known of all times and of the coming ones, (times + horizon, series, columns).

    The file has a line per time, its name first, and perhaps a column ``unique_id`` where series differ.
    """
    path = _existing(Path(path))
    records = read_records(path)
    _, header = next(records)
    own = "unique_id" in header
    time = header.index("ds") if "ds" in header else next(p for p, name in enumerate(header) if name != "unique_id")
    columns = [place for place, name in enumerate(header) if place != time and name != "unique_id"]
    if not columns:
        raise InvalidFileError(f"{path} has no covariate: beside the time each column is one")
    wanted = [*data.days, *data.coming_days(horizon)]
    row_of, series_of = {name: row for row, name in enumerate(wanted)}, {n: place for place, n in enumerate(data.names)}
    found = np.full((len(wanted), len(data.names), len(columns)), np.nan)
    for line, row in records:
        if row[time].strip() not in row_of:
            continue
        numbers = [_given(path, line, header[place], row[place]) for place in columns]
        which: int | slice = slice(None)
        if own:
            name = row[header.index("unique_id")].strip()
            if name not in series_of:
                raise InvalidFileError(
                    f"{path}, line {line}: there is no series {name!r}{did_you_mean(name, series_of)}"
                )
            which = series_of[name]
        found[row_of[row[time].strip()], which] = numbers
    lacking = np.argwhere(np.isnan(found))
    if lacking.size:
        row, series, _ = lacking[0]
        raise InvalidFileError(
            f"{path} has no covariates of {data.names[series]!r} at {wanted[row]}: every time needs them, and the "
            f"{horizon} to come as well"
        )
    return found


def _given(path: Path, line: int, name: str, cell: str) -> float:
    number = as_number(cell.strip())
    if number is None:
        raise InvalidFileError(
            f"{path}, line {line}, column {name!r} is {cell!r}, which is not a finite number: give one"
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
                    f"{path}, line {line}: {series.name} has no series {row[end]!r}{did_you_mean(row[end], names)}: "
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
