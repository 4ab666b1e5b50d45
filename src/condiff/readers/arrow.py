"""Parquet and Feather: columns that are read when needed, one for all rows or all for some rows."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from condiff.errors import InvalidFileError, InvalidInputError, MissingDependencyError, did_you_mean
from condiff.files import check_room, refusing
from condiff.readers.cells import clean, listed, no_duplicates
from condiff.readers.columns import Column

# Numbers in a batch of rows: 32 MB in double precision.
_CELLS = 1 << 22
# A column of lists is as large as the table it stands for, so it is read in this many parts.
_PARTS = 8
# Bytes of a stored column that are read at a time; without it a whole row group would be.
_BUFFER = 1 << 16
# Entries of a list, each of which becomes a column.
_WIDEST = 100_000
# Whole numbers past this are not exact as floats.
_EXACT = 1 << 53


def open_parquet(path: str | Path) -> Any:
    """The opened file, or an error that says why it cannot be read."""
    pyarrow = _pyarrow()
    with _refusing(path):
        file = pyarrow.parquet.ParquetFile(path, buffer_size=_BUFFER)
        metadata = file.metadata
        groups = [metadata.row_group(group) for group in range(metadata.num_row_groups)]
        # What pages of one value many times over unpack to, as the footer has it.
        values = [group.column(column).num_values for group in groups for column in range(metadata.num_columns)]
        check_room(path, 8 * max([metadata.num_rows, *values]), "split it into smaller files")
        if min([metadata.num_rows, *values]) < 0 or sum(group.num_rows for group in groups) != metadata.num_rows:
            raise ValueError("its footer counts wrong")
        return file


def open_feather(path: str | Path) -> Any:
    """A Feather file as a table that is mapped and not read."""
    pyarrow = _pyarrow()
    with _refusing(path):
        table = pyarrow.feather.read_table(path, memory_map=True)
        # Offsets and codes are believed by everything that reads them.
        table.validate(full=True)
        return table


def _pyarrow() -> Any:
    try:
        import pyarrow.feather
        import pyarrow.parquet
    except ImportError as error:
        raise MissingDependencyError("reading this file needs pyarrow: pip install 'condiff[data]'") from error
    return pyarrow


def write_parquet(columns: Mapping[str, Sequence[Any]], path: str | Path) -> None:
    """Write columns of plain values, None where missing."""
    pyarrow = _pyarrow()
    pyarrow.parquet.write_table(pyarrow.table(dict(columns)), path)


def read_batches(
    file: Any, path: str | Path, rows: int, columns: Sequence[str], groups: Sequence[int] | None = None
) -> Iterator[Any]:
    """Batches of at most ``rows`` rows of some columns, in the order in which they are named.

    ``groups`` are the row groups of a Parquet file that are read, if not all.
    """
    import pyarrow

    names = list(columns)
    mapped = isinstance(file, pyarrow.Table)
    batches = iter(
        file.select(names).to_batches(rows) if mapped else file.iter_batches(rows, columns=names, row_groups=groups)
    )
    while True:
        with _refusing(path):  # what the caller does with a batch is not the file's fault
            batch = next(batches, None)
            if batch is None:
                return
            batch = batch.select(names)
            batch.validate(full=True)
        yield batch


def is_list(kind: Any) -> bool:
    """Whether a column of this type holds lists."""
    from pyarrow import types

    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def is_number(kind: Any) -> bool:
    """Whether a column of this type holds numbers, true and false counted as such."""
    from pyarrow import types

    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind))


class ArrowColumns:
    """The columns of a Parquet or Feather file, without holding more than a part of it.

    Number lists of one length become a column for each entry; a named index of pandas becomes a column, one without a
    name is left out. ``groups`` are the row groups of a Parquet file that make the table, if not all.
    """

    def __init__(self, path: Path, groups: Sequence[int] | None = None) -> None:
        self.path, self._groups = path, groups
        parquet = path.name.lower().endswith((".parquet", ".pq"))
        self._file = open_parquet(path) if parquet else open_feather(path)
        self.n_rows = int(self._file.metadata.num_rows if parquet else self._file.num_rows)
        if groups is not None:
            self.n_rows = sum(self._file.metadata.row_group(group).num_rows for group in groups)
        schema = self._schema = self._file.schema_arrow if parquet else self._file.schema
        no_duplicates(path, schema.names)
        with _refusing(path):
            self._widths = self._list_widths(schema)
            self._name_columns(schema)
        self._part: tuple[tuple[str, int], NDArray[Any]] | None = None

    def _name_columns(self, schema: Any) -> None:
        #: Where a column comes from: a stored column and the place in its lists, or the numbers of the rows.
        self._origins: dict[str, tuple[str, int | None] | range] = {}
        names: list[str] = []
        pandas = schema.pandas_metadata or {}
        noted = [each for each in pandas.get("columns", ()) if each.get("pandas_type") == "categorical"]
        self._categories = {each.get("field_name", each["name"]) for each in noted}
        for name, stored in _named_fields(schema, pandas, self.n_rows):
            found: dict[str, tuple[str, int | None] | range] = (
                {f"{name}[{entry}]": (stored, entry) for entry in range(self._widths[stored])}
                if isinstance(stored, str) and stored in self._widths
                else {name: stored if isinstance(stored, range) else (stored, None)}
            )
            names += found
            self._origins |= found
        no_duplicates(self.path, names)

    @property
    def source(self) -> str:
        """The table's name in messages."""
        return str(self.path)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names."""
        return tuple(self._origins)

    def column(self, name: str) -> Column:
        """All rows of a column."""
        origin = self._origins[name]
        if isinstance(origin, range):
            return Column(name, "number", np.array(origin, dtype=np.float64))
        stored, entry = origin
        if entry is not None:
            return Column(name, "number", self._entries(stored, entry))
        import pyarrow

        batches = list(self._batches(self._rows([stored]), [stored]))
        arrays = [batch.column(0) for batch in batches]
        with _refusing(self.path):
            whole = pyarrow.chunked_array(arrays, self._schema.field(stored).type)
            return _column(name, whole, stored in self._categories)

    def batches(self, names: Sequence[str]) -> Iterator[tuple[int, Mapping[str, Column]]]:
        """Some columns, batch by batch, each with the number of rows before it."""
        self._part = None
        origins = {name: self._origins[name] for name in names}
        stored = list(dict.fromkeys(origin[0] for origin in origins.values() if isinstance(origin, tuple)))
        stored = stored or self._schema.names[:1]  # which says how many rows there are
        start = 0
        for batch in self._batches(self._rows(stored), stored):
            here = slice(start, start + len(batch))
            columns = {}
            with _refusing(self.path):
                lists = {
                    field: _matrix(batch.column(field), width, np.float64)
                    for field, width in self._widths.items()
                    if field in stored
                }
                for name, origin in origins.items():
                    if isinstance(origin, range):
                        columns[name] = Column(name, "number", np.array(origin[here], dtype=np.float64))
                    elif origin[1] is None:
                        columns[name] = _column(name, batch.column(origin[0]), origin[0] in self._categories)
                    else:
                        columns[name] = Column(name, "number", lists[origin[0]][:, origin[1]])
            yield start, columns
            start = here.stop

    def _batches(self, rows: int, stored: Sequence[str]) -> Iterator[Any]:
        return read_batches(self._file, self.path, rows, stored, self._groups)

    def _rows(self, stored: Collection[str]) -> int:
        return max(1, _CELLS // max(1, sum(self._widths.get(field, 1) for field in stored)))

    def _entries(self, stored: str, entry: int) -> NDArray[Any]:
        """One entry of every list; read with its neighbours, which will be needed next."""
        width = self._widths[stored]
        size = -(-width // _PARTS)
        first = entry - entry % size
        if self._part is None or self._part[0] != (stored, first):
            self._part = None  # freed before the next one is made
            kind = self._schema.field(stored).type.value_type
            dtype = np.float32 if kind.bit_width <= 16 or str(kind) == "float" else np.float64
            values = np.empty((self.n_rows, min(size, width - first)), dtype)
            start = 0
            for batch in self._batches(self._rows([stored]), [stored]):
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
            for batch in self._batches(max(1, _CELLS >> 8), list(lengths)):
                for name, column in zip(lengths, batch.columns, strict=True):
                    known = pyarrow.compute.list_value_length(column).drop_null()
                    lengths[name].update(known.unique().to_pylist())
        for each in nested:
            if (len(lengths[each.name]) != 1 and self.n_rows) or max(lengths[each.name], default=0) > _WIDEST:
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


def _column(name: str, values: Any, category: bool) -> Column:
    """An array of Arrow's as a column; ``category`` where pandas has noted that it is one."""
    import pyarrow
    import pyarrow.compute
    from pyarrow import types

    kind = values.type
    if types.is_dictionary(kind):
        kind = kind.value_type
        values, category = values.cast(kind), True
    if category and types.is_integer(kind):  # its levels are names
        return Column(name, "text", clean(values.cast("string").fill_null("").to_pylist()), names=True)
    if types.is_boolean(kind):
        return Column(name, "boolean", _floats(values.cast("int8")))
    if types.is_integer(kind):
        whole = values.drop_null()
        limits = pyarrow.compute.min_max(whole).as_py() if len(whole) else {"min": 0, "max": 0}
        if max(abs(limits["min"]), abs(limits["max"])) <= _EXACT:
            return Column(name, "number", _floats(values))
        kind = "string"  # ids of 64 bits stay as they are
    elif types.is_floating(kind):
        return Column(name, "number", _floats(values))
    elif types.is_decimal(kind):
        return Column(name, "number", _floats(values.cast("float64")))
    elif types.is_date(kind) or types.is_timestamp(kind):
        moments = values.cast(pyarrow.timestamp("us", getattr(kind, "tz", None)), safe=False).cast("int64")
        return Column(name, "date", _floats(moments) / 86_400e6)
    elif types.is_duration(kind):
        return Column(name, "number", _floats(values.cast(pyarrow.duration("us")).cast("int64")) / 1e6)
    elif types.is_time(kind):
        values = values.cast(pyarrow.time64("us")).cast(pyarrow.int64()).cast(pyarrow.timestamp("us"))
        values = pyarrow.compute.strftime(values, format="%H:%M:%S")
    text = values.cast("string").fill_null("").to_pylist()
    return Column(name, "text", clean(text))


def _floats(values: Any) -> NDArray[Any]:
    single = str(values.type) == "float" or str(values.type) == "halffloat"
    known = np.asarray(values.is_valid())
    out = np.full(len(values), np.nan, np.float32 if single else np.float64)
    out[known] = np.asarray(values.drop_null())
    return out


def _matrix(column: Any, width: int, dtype: type[np.floating[Any]]) -> NDArray[Any]:
    """Lists of one length as rows, NaN where a list or an entry is missing."""
    known = np.asarray(column.is_valid())
    out = np.full((len(column), width), np.nan, dtype)
    entries = np.asarray(column.flatten().to_numpy(zero_copy_only=False))
    out[known] = entries.reshape(int(known.sum()), width)
    return out


def _refusing(path: str | Path) -> AbstractContextManager[None]:
    kind = "Feather" if str(path).lower().endswith((".feather", ".arrow")) else "Parquet"
    return refusing(path, f"a readable {kind} file", "write it again")


def parquet_matrix(
    path: str | Path,
    columns: Sequence[str] | None = None,
    *,
    dtype: type[np.float32] | type[np.float64] = np.float32,
    batch_rows: int = 65_536,
) -> NDArray[Any]:
    """Number columns of a Parquet file as one matrix, filled batch by batch: nothing else of the file is held.

    Parameters
    ----------
    path
        The file.
    columns
        Which columns, of numbers or of number lists of one length (embeddings), in this order; all by default.
    dtype
        Precision of the matrix.
    batch_rows
        Rows that are read at a time.
    """
    file = open_parquet(path)
    known = list(file.schema_arrow.names)
    chosen = known if columns is None else list(columns)
    for name in chosen:
        if name not in known:
            raise InvalidInputError(f"{path} has no column {name!r}{did_you_mean(name, known)}; it has {listed(known)}")
    out: NDArray[Any] | None = None
    start = 0
    for batch in read_batches(file, path, batch_rows, chosen):
        parts = [_numbers(column, name, path, start) for name, column in zip(chosen, batch.columns, strict=True)]
        block = np.column_stack(parts)
        if out is None:
            out = np.empty((file.metadata.num_rows, block.shape[1]), dtype)
        if block.shape[1] != out.shape[1]:
            raise InvalidFileError(f"{path}: the lists do not all have the same length; flatten or pad them")
        out[start : start + len(block)] = block
        start += len(block)
    if out is None:
        raise InvalidFileError(f"{path} has no rows: add at least one")
    return out


def _numbers(column: Any, name: str, path: str | Path, start: int) -> NDArray[Any]:
    """A column of a batch as (rows,) or (rows, entries); a missing cell is an error that names the row."""
    kind = column.type
    if column.null_count:
        row = start + int(np.argmin(column.is_valid().to_numpy(zero_copy_only=False))) + 1
        raise InvalidFileError(f"{path}: column {name!r} is empty in row {row}: fill it or leave the column out")
    if is_list(kind):
        entries = column.flatten()
        if len(column) and len(entries) % len(column) == 0 and is_number(entries.type) and not entries.null_count:
            lengths = np.asarray(column.value_lengths())
            if (lengths == lengths[0]).all():
                return np.asarray(entries.to_numpy(zero_copy_only=False)).reshape(len(column), -1)
        raise InvalidFileError(
            f"{path}: the lists of column {name!r} must all hold the same number of values, none missing"
        )
    if not is_number(kind):
        raise InvalidFileError(f"{path}: column {name!r} holds {kind}, not numbers: leave it out or encode it")
    return np.asarray(column.to_numpy(zero_copy_only=False))
