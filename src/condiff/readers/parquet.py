"""The columns of a Parquet file, read when they are asked for: one of them for all rows, or all of them for some."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from condiff.errors import InvalidFileError, MissingDependencyError
from condiff.readers.cells import load_pandas, no_duplicates, text_values

if TYPE_CHECKING:
    import pandas as pd

# Numbers in a batch of rows: 32 MB in double precision.
_CELLS = 1 << 22
# A column of lists is as large as the table it stands for, so it is looked at in so many parts.
_PARTS = 8
# Bytes of a stored column that are read at a time; without it a whole row group would be.
_BUFFER = 1 << 16


def open_parquet(path: str | Path) -> Any:
    """The opened file, or an error that says why there is none."""
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise MissingDependencyError("reading Parquet needs pyarrow: pip install 'condiff[data]'") from error
    try:
        return pyarrow.parquet.ParquetFile(path, buffer_size=_BUFFER)
    except (pyarrow.ArrowException, OSError) as error:
        raise _unreadable(path, error) from error


def read_batches(file: Any, path: str | Path, rows: int, columns: Sequence[str]) -> Iterator[Any]:
    """Batches of at most ``rows`` rows of some columns, in the order in which they are named."""
    import pyarrow

    try:
        for batch in file.iter_batches(rows, columns=list(columns)):
            yield batch.select(list(columns))
    except (pyarrow.ArrowException, OSError) as error:
        raise _unreadable(path, error) from error


def is_list(kind: Any) -> bool:
    """Whether a column of this type holds lists."""
    from pyarrow import types

    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def is_number(kind: Any) -> bool:
    """Whether a column of this type holds numbers, true and false counted as such."""
    from pyarrow import types

    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind))


class ParquetColumns:
    """What :class:`condiff.readers.tables.Table` needs of a Parquet file, without holding more than a part of it.

    Number lists of one length become a column an entry; a named index of pandas becomes a column, one without a name
    is left out.

    Parameters
    ----------
    path
        The file.
    as_text
        Columns to read as text whatever they hold.
    """

    def __init__(self, path: Path, as_text: Collection[str] = ()) -> None:
        self.path = path
        self._as_text = frozenset(as_text)
        self._file = open_parquet(path)
        self.n_rows = int(self._file.metadata.num_rows)
        schema = self._file.schema_arrow
        no_duplicates(path, schema.names)
        pandas: dict[str, Any] = schema.pandas_metadata or {}
        # With no index named, pandas' types are restored and every column stays one.
        self._metadata = {b"pandas": json.dumps({**pandas, "index_columns": []}).encode()} if pandas else None
        self._widths = self._list_widths(schema)
        #: Where a column comes from: a stored column and the place in its lists, or the numbers of the rows.
        self._origins: dict[str, tuple[str, int | None] | range] = {}
        names: list[str] = []
        for name, stored in _named_fields(schema, pandas, self.n_rows):
            found: dict[str, tuple[str, int | None] | range] = (
                {f"{name}[{entry}]": (stored, entry) for entry in range(self._widths[stored])}
                if isinstance(stored, str) and stored in self._widths
                else {name: stored if isinstance(stored, range) else (stored, None)}
            )
            names += found
            self._origins |= found
        no_duplicates(path, names)
        self._part: tuple[tuple[str, int], NDArray[Any]] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The columns."""
        return tuple(self._origins)

    def column(self, name: str) -> pd.Series:
        """All rows of a column."""
        origin = self._origins[name]
        if isinstance(origin, range):
            return self._series(np.array(origin), name)
        stored, entry = origin
        if entry is not None:
            return self._series(self._entries(stored, entry), name)
        import pyarrow

        batches = list(read_batches(self._file, self.path, self._rows([stored]), [stored]))
        return self._series(self._frame(pyarrow.Table.from_batches(batches)).iloc[:, 0], name)

    def batches(self, names: Sequence[str]) -> Iterator[tuple[int, Mapping[str, pd.Series]]]:
        """Some columns, batch by batch, each with the number of rows before it."""
        import pyarrow

        self._part = None
        origins = {name: self._origins[name] for name in names}
        stored = list(dict.fromkeys(origin[0] for origin in origins.values() if isinstance(origin, tuple)))
        stored = stored or self._file.schema_arrow.names[:1]  # which says how many rows there are
        plain = [field for field in stored if field not in self._widths]
        start = 0
        for batch in read_batches(self._file, self.path, self._rows(stored), stored):
            frame = self._frame(pyarrow.Table.from_batches([batch]).select(plain))
            lists = {
                field: _matrix(batch.column(field), width, np.float64)
                for field, width in self._widths.items()
                if field in stored
            }
            here = slice(start, start + len(batch))
            columns = {}
            for name, origin in origins.items():
                if isinstance(origin, range):
                    values: Any = np.array(origin[here])
                elif origin[1] is None:
                    values = frame.iloc[:, plain.index(origin[0])]
                else:
                    values = lists[origin[0]][:, origin[1]]
                columns[name] = self._series(values, name)
            yield start, columns
            start = here.stop

    def _rows(self, stored: Collection[str]) -> int:
        return max(1, _CELLS // max(1, sum(self._widths.get(field, 1) for field in stored)))

    def _frame(self, content: Any) -> pd.DataFrame:
        return content.replace_schema_metadata(self._metadata).to_pandas(date_as_object=False)

    def _series(self, values: Any, name: str) -> pd.Series:
        series = load_pandas().Series(values, name=name)
        return load_pandas().Series(text_values(series), name=name) if name in self._as_text else series

    def _entries(self, stored: str, entry: int) -> NDArray[Any]:
        """One entry of every list; read with those beside it, which will be asked for next."""
        width = self._widths[stored]
        size = -(-width // _PARTS)
        first = entry - entry % size
        if self._part is None or self._part[0] != (stored, first):
            self._part = None  # let go before the next one is made
            kind = self._file.schema_arrow.field(stored).type.value_type
            dtype = np.float32 if kind.bit_width <= 16 or str(kind) == "float" else np.float64
            values = np.empty((self.n_rows, min(size, width - first)), dtype)
            start = 0
            for batch in read_batches(self._file, self.path, self._rows([stored]), [stored]):
                values[start : start + len(batch)] = _matrix(batch.column(0), width, dtype)[:, first : first + size]
                start += len(batch)
            self._part = (stored, first), values
        return self._part[1][:, entry - first]

    def _list_widths(self, schema: Any) -> dict[str, int]:
        """How many entries the lists of a column have; whatever else is nested is refused."""
        import pyarrow
        import pyarrow.compute

        nested = [each for each in schema if pyarrow.types.is_nested(each.type) or "binary" in str(each.type)]
        for each in nested:
            if not (is_list(each.type) and is_number(each.type.value_type)):
                raise self._unusable(each)
        lengths: dict[str, set[int]] = {each.name: set() for each in nested}
        if nested:
            for batch in read_batches(self._file, self.path, max(1, _CELLS >> 8), list(lengths)):
                for name, column in zip(lengths, batch.columns, strict=True):
                    known = pyarrow.compute.list_value_length(column).drop_null()
                    lengths[name].update(known.unique().to_pylist())
        for each in nested:
            if len(lengths[each.name]) != 1 and self.n_rows:
                raise self._unusable(each)
        return {name: max(found, default=0) for name, found in lengths.items()}

    def _unusable(self, field: Any) -> InvalidFileError:
        return InvalidFileError(
            f"{self.path}: column {field.name!r} holds {field.type}: only numbers, text, dates and number lists "
            "of one length can be used; drop or flatten it"
        )


def _named_fields(schema: Any, pandas: Mapping[str, Any], n_rows: int) -> Iterator[tuple[str, str | range]]:
    """The names that people see, the index first, and what is stored under them."""
    index = list(pandas.get("index_columns", ()))
    names = {each.get("field_name", each["name"]): each["name"] for each in pandas.get("columns", ())}
    for each in index:
        if isinstance(each, str):
            if names.get(each, each) is not None and each in schema.names:
                yield str(names.get(each, each)), each
        elif each.get("kind") == "range" and each.get("name") is not None:
            numbers = range(each["start"], each["stop"], each["step"])
            if len(numbers) == n_rows:
                yield str(each["name"]), numbers
    for field in schema.names:
        if field not in index:
            yield field, field


def _matrix(column: Any, width: int, dtype: type[np.floating[Any]]) -> NDArray[Any]:
    """Lists of one length as rows, NaN where a list or an entry is missing."""
    known = np.asarray(column.is_valid())
    out = np.full((len(column), width), np.nan, dtype)
    entries = np.asarray(column.flatten().to_numpy(zero_copy_only=False))
    out[known] = entries.reshape(int(known.sum()), width)
    return out


def _unreadable(path: str | Path, error: Exception) -> InvalidFileError:
    reason = str(error).split("\n")[0].rstrip(". ")
    return InvalidFileError(f"{path} is not a readable Parquet file ({reason}): write it again")
