"""Columns: named values of one kind, whatever their source: files, data frames, arrays or Python objects."""

from __future__ import annotations

import datetime
import decimal
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from condiff.errors import InvalidInputError
from condiff.readers.cells import TEXT, Floats, Text, as_words, clean, listed

Kind: TypeAlias = Literal["text", "number", "boolean", "date"]
_DAY = 86_400e6  # microseconds


@dataclass(frozen=True, eq=False)
class Column:
    """The values of one column.

    Attributes
    ----------
    name
        What it is called.
    kind
        ``text``: cleaned text, "" where missing. ``number``: float, NaN where missing. ``boolean``: 1, 0 or NaN.
        ``date``: days since 1970, or NaN.
    values
        One for each row.
    names
        Whether its source says that the values are names of categories, even where they look like numbers.
    """

    name: str
    kind: Kind
    values: NDArray[Any]
    names: bool = False

    def __len__(self) -> int:
        return len(self.values)

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Where there is no value."""
        return np.asarray(self.values == "" if self.kind == "text" else np.isnan(self.values))

    def words(self) -> Text:
        """The values as text, "" where missing; whole numbers without a decimal point."""
        if self.kind == "text":
            return self.values
        if self.kind == "boolean":
            names = np.array(["False", "True", ""], dtype=TEXT)
            return np.asarray(names[np.where(np.isnan(self.values), 2, self.values).astype(int)])
        if self.kind == "date":
            known = ~np.isnan(self.values)
            moments = np.array(np.round(self.values[known] * _DAY), dtype="datetime64[us]")
            out = np.full(len(self), "", dtype=TEXT)
            texts = np.datetime_as_string(moments, unit="s")
            out[known] = [text.removesuffix("T00:00:00").replace("T", " ") for text in texts.tolist()]
            return out
        return as_words(np.asarray(self.values, dtype=np.float64))

    def cell(self, row: int) -> str:
        """One value as text, for a message."""
        return str(Column(self.name, self.kind, self.values[row : row + 1]).words()[0])


class Columns(Protocol):
    """A table as encoders see it: columns by name, all rows of one or some rows of all."""

    @property
    def source(self) -> str:
        """The table's name in messages."""
        ...

    @property
    def columns(self) -> tuple[str, ...]:
        """The names."""
        ...

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        ...

    def column(self, name: str) -> Column:
        """All rows of a column."""
        ...

    def batches(self, names: Sequence[str]) -> Iterator[tuple[int, Mapping[str, Column]]]:
        """Some columns, a batch of rows at a time, each with the number of rows before it."""
        ...


@dataclass(frozen=True, eq=False)
class ColumnDict:
    """Columns that are in memory."""

    content: Mapping[str, Column]
    n_rows: int
    source: str = "the table"

    @property
    def columns(self) -> tuple[str, ...]:
        """The names."""
        return tuple(self.content)

    def column(self, name: str) -> Column:
        """All rows of a column."""
        return self.content[name]

    def batches(self, names: Sequence[str]) -> Iterator[tuple[int, Mapping[str, Column]]]:
        """All rows at once."""
        yield 0, {name: self.content[name] for name in names}


def gather(columns: Iterable[Column], source: str = "the table") -> ColumnDict:
    """Columns of equal length, checked."""
    content: dict[str, Column] = {}
    for column in columns:
        if column.name in content:
            raise InvalidInputError(f"{source} has more than one column named {column.name!r}: give each its own name")
        content[column.name] = column
    lengths = {len(column) for column in content.values()}
    if len(lengths) > 1:
        raise InvalidInputError(f"the columns of {source} have different lengths: {sorted(lengths)}")
    return ColumnDict(content, lengths.pop() if lengths else 0, source)


def as_columns(X: Any) -> Columns:
    """Anything that is a table: a data frame, a mapping from names to values, a matrix of objects or numbers.

    Data frames are those of pandas, polars, pyarrow and whatever else narwhals reads. The columns of a matrix are
    called ``x0``, ``x1``, and so on.
    """
    if hasattr(X, "batches") and hasattr(X, "columns") and hasattr(X, "source"):
        found: Columns = X
        return found
    if isinstance(X, Mapping):
        return gather(each for name, values in X.items() for each in _column_of(str(name), values))
    frame = as_frame(X)
    if frame is not None:
        named = zip(frame.columns, frame.iter_columns(), strict=True)  # by place: a name may be a number
        return gather(each for name, series in named for each in _series_columns(str(name), series))
    matrix = np.asarray(X) if isinstance(X, np.ndarray) else np.array(X, dtype=object)
    if matrix.ndim != 2:
        raise InvalidInputError(f"a table has two dimensions (rows and columns), not {matrix.ndim}")
    return gather(each for at in range(matrix.shape[1]) for each in array_columns(f"x{at}", matrix[:, at]))


def _column_of(name: str, values: Any) -> list[Column]:
    if isinstance(values, Column):
        return [Column(name, values.kind, values.values, values.names)]
    if isinstance(values, np.ndarray):
        return array_columns(name, values)
    if isinstance(values, list | tuple):
        return object_columns(name, values)
    import narwhals as nw

    series = nw.from_native(values, series_only=True, pass_through=True)
    return _series_columns(name, series) if isinstance(series, nw.Series) else object_columns(name, list(values))


def as_frame(X: Any) -> Any:
    """A data frame of any library as narwhals has it, None for anything else."""
    import narwhals as nw

    try:
        frame = nw.from_native(X, eager_only=True, pass_through=True)
    except nw.exceptions.DuplicateError:
        twice = next(name for name, times in Counter(X.columns).items() if times > 1)
        raise InvalidInputError(f"the table has several columns named {twice!r}: rename or drop all but one") from None
    if isinstance(nw.from_native(X, pass_through=True), nw.LazyFrame):
        raise InvalidInputError("the table is a lazy frame: pass what its collect() returns")
    return frame if isinstance(frame, nw.DataFrame) else None


def _series_columns(name: str, series: Any) -> list[Column]:
    import narwhals as nw

    kind = series.dtype
    if kind == nw.Boolean:
        return [Column(name, "boolean", _floats(series.cast(nw.Float64)))]
    if kind.is_numeric():
        return [Column(name, "number", _floats(series.cast(nw.Float64)))]
    if kind == nw.Date or kind == nw.Datetime:
        moments = series.cast(nw.Datetime("us")) if kind == nw.Date else series
        return [Column(name, "date", _floats(moments.dt.timestamp("us")) / _DAY)]
    if kind == nw.Duration:
        return [Column(name, "number", _floats(series.dt.total_milliseconds()) / 1000)]
    if kind in (nw.String, nw.Categorical, nw.Enum):
        return [Column(name, "text", _text(series.to_list()), names=kind != nw.String)]
    return object_columns(name, series.to_list())


def _floats(series: Any) -> Floats:
    # A column with gaps may come back as objects, None among the numbers.
    values = np.asarray(series.to_numpy())
    if values.dtype == object:
        values = np.array([math.nan if value is None or value != value else float(value) for value in values.tolist()])
    return values.astype(np.float64)


def _text(values: Sequence[Any]) -> Text:
    return clean(["" if _is_missing(value) else str(value) for value in values])


def array_columns(name: str, array: NDArray[Any]) -> list[Column]:
    """A NumPy array as a column; single precision stays single."""
    kind = array.dtype.kind
    if kind == "b":
        return [Column(name, "boolean", array.astype(np.float64))]
    if kind in "iuf":
        return [Column(name, "number", array if array.dtype in (np.float32, np.float64) else array.astype(np.float64))]
    if kind == "M":
        known = ~np.isnat(array)
        days = np.full(len(array), np.nan)
        days[known] = array[known].astype("datetime64[us]").astype(np.int64) / _DAY
        return [Column(name, "date", days)]
    if kind == "m":
        seconds = np.where(np.isnat(array), np.nan, array / np.timedelta64(1, "us") / 1e6)
        return [Column(name, "number", seconds)]
    if kind == "S":
        return [Column(name, "text", clean([value.decode("utf-8", "replace") for value in array.tolist()]))]
    if kind in "UT":
        return [Column(name, "text", clean(array.astype(TEXT)))]
    return object_columns(name, array.tolist())


def object_columns(name: str, values: Sequence[Any]) -> list[Column]:
    """Python objects as a column: all true or false, all numbers, all dates, or else text.

    Lists of numbers, all of one length, become a column for each of their entries.
    """
    known = [value for value in values if not _is_missing(value)]
    types = {type(value) for value in known}
    if not types or types <= {str}:
        return [Column(name, "text", _text(values))]
    if all(issubclass(kind, bool | np.bool_) for kind in types):
        return [Column(name, "boolean", _numbers(values))]
    if all(issubclass(kind, Real | decimal.Decimal) and not issubclass(kind, bool | np.bool_) for kind in types):
        return [Column(name, "number", _numbers(values))]
    if all(issubclass(kind, datetime.date) for kind in types):
        return [Column(name, "date", np.array([_days(value) for value in values]))]
    if all(issubclass(kind, list | tuple | np.ndarray) for kind in types):
        return _entries(name, values)
    if any(issubclass(kind, dict | set | bytes | complex) for kind in types):
        shown = ", ".join(sorted(kind.__name__ for kind in types))
        raise InvalidInputError(
            f"column {name!r} holds {shown}: only numbers, text, dates and number lists can be used"
        )
    texts = [
        "" if _is_missing(value) else str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
        for value in values
    ]
    return [Column(name, "text", clean(texts))]


def is_cell(value: Any) -> bool:
    """Whether a Python object is what a cell of a table may hold."""
    return _is_missing(value) or isinstance(value, str | Real | decimal.Decimal | datetime.date)


def _entries(name: str, values: Sequence[Any]) -> list[Column]:
    lengths = {len(value) for value in values if not _is_missing(value)}
    try:
        (width,) = lengths
        nothing = [math.nan] * width
        matrix = np.array([nothing if _is_missing(value) else value for value in values], dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidInputError(
            f"column {name!r} holds lists that are not number lists of one length ({listed(sorted(map(str, lengths)))} "
            "entries): drop or flatten it"
        ) from None
    return [Column(f"{name}[{entry}]", "number", matrix[:, entry]) for entry in range(width)]


def _numbers(values: Sequence[Any]) -> Floats:
    return np.array([math.nan if _is_missing(value) else float(value) for value in values], dtype=np.float64)


def _days(value: Any) -> float:
    if _is_missing(value):
        return math.nan
    if not isinstance(value, datetime.datetime):
        return float(value.toordinal() - datetime.date(1970, 1, 1).toordinal())
    aware = value if value.tzinfo else value.replace(tzinfo=datetime.UTC)
    return (aware - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)).total_seconds() / 86_400


def _is_missing(value: Any) -> bool:
    # pandas' NA is neither equal nor unequal to itself.
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float | np.floating | decimal.Decimal) and bool(value != value)
