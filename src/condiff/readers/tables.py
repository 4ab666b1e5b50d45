"""Tables as people have them, with an empty target in every unlabelled row.

Row numbers in messages count data rows from 1; line numbers are those of the text file.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from condiff.errors import InvalidFileError, InvalidInputError, did_you_mean
from condiff.readers.arrays import read_npy, read_npz
from condiff.readers.arrow import ArrowColumns
from condiff.readers.cells import TEXT, as_number, id_like, listed
from condiff.readers.columns import Column, ColumnDict, Columns, array_columns
from condiff.readers.delimited import inner_name, read_delimited
from condiff.readers.documents import read_json, read_sheet
from condiff.readers.image_folder import list_images
from condiff.readers.targets import array_target, column_target, observed

_TEXT = (".csv", ".tsv", ".txt")
_JSON = (".json", ".jsonl", ".ndjson")
_SHEETS = (".xlsx", ".xls", ".ods")
_ARROW = (".parquet", ".pq", ".feather", ".arrow")
SUFFIXES = (*_TEXT, *_JSON, *_SHEETS, *_ARROW, ".npz", ".npy")


@dataclass(frozen=True, eq=False)
class Table:
    """Rows to learn from or to answer: columns, or a numeric matrix with named arrays beside it.

    Attributes
    ----------
    path
        Where the rows came from; used in messages.
    content
        The columns, or for NPZ and NPY the arrays beside the features.
    matrix
        The features, dense or CSR, for NPZ and NPY.
    feature_names
        For NPZ, the names of the matrix's columns, if the file has them.
    notes
        What is unusual about the file, in words.
    """

    path: Path
    content: Columns
    matrix: Any = None
    feature_names: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    named: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    @property
    def source(self) -> str:
        """The table's name in messages."""
        return str(self.path)

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return int(self.content.n_rows if self.matrix is None else self.matrix.shape[0])

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of all columns, or for NPZ of the arrays beside the features."""
        return self.content.columns

    def column(self, name: str) -> Column:
        """All rows of a column."""
        self.require([name])
        return self.content.column(name)

    def batches(self, names: Sequence[str]) -> Iterator[tuple[int, Mapping[str, Column]]]:
        """Some columns, a batch of rows at a time, each with the number of rows before it."""
        return self.content.batches(names)

    def target(self, name: str, unlabelled: Collection[str] = ()) -> NDArray[Any]:
        """One column as float64 with NaN for missing, or as str/bool objects with None for missing.

        In an integer array of an NPZ file, which cannot be empty, -1 means unlabelled if all other values are
        non-negative and at least two different ones remain; so {-1, 0, 1} has unlabelled rows, {-1, 1} has none.

        Parameters
        ----------
        name
            The column.
        unlabelled
            Words in it that mean that there is no label, besides empty cells.
        """
        self.require([name], "target column")
        return _checked(self.labels(name, unlabelled), f"target column {name!r} of {self.path}")

    def labels(self, name: str, unlabelled: Collection[str] = ()) -> NDArray[Any] | None:
        """The same without any check; None where the column holds dates."""
        if name in self.named:
            return array_target(self.named[name])
        return column_target(self.column(name), unlabelled)

    def id_column(self, used: Collection[str] = (), likely: Collection[str] = ()) -> str | None:
        """The column that names the rows: one called an id, ``ids`` of an NPZ file, or a likely one.

        No value may repeat in it, and none be missing.
        """
        called = [name for name in self.columns if id_like(name) or (self.matrix is not None and name == "ids")]
        for name in [*called, *likely]:
            if name not in used:
                words = self.column(name).words().tolist()
                if "" not in words and len(set(words)) == len(words):
                    return name
        return None

    def require(self, names: Iterable[str], what: str = "column") -> None:
        """Raise if a column is missing."""
        for name in names:
            if name not in self.columns:
                raise InvalidInputError(
                    f"{self.path} has no {what} {name!r}{did_you_mean(name, self.columns)}; "
                    f"it has {listed(self.columns) or 'only features'}{self._headless}"
                )

    @property
    def _headless(self) -> str:
        """A hint where the names of the columns look like values."""
        numbers = [name for name in self.columns if as_number(name) is not None and not name.isdigit()]
        return "; is the first line data? add a line with a name for each column" if numbers else ""


def check_exists(path: Path) -> None:
    """Refuse a path that is no file, or an empty one."""
    if not path.exists():
        folder = sorted(p.name for p in path.parent.iterdir()) if path.parent.is_dir() else []
        raise InvalidFileError(f"{path} does not exist{did_you_mean(path.name, folder)}: check the path")
    if not path.is_file():
        raise InvalidFileError(f"{path} is not a file: give one of {', '.join(SUFFIXES)}")
    if path.stat().st_size == 0:
        raise InvalidFileError(f"{path} is empty (0 bytes): write the table again")


def read_table(path: Path) -> Table:
    """Read a table: delimited text, JSON, a sheet, Parquet, Feather, NPZ or NPY.

    Text (.csv, .tsv, .txt, also within .gz and .zip): one header line; encoding and delimiter are detected, and what
    is unusual is reported in ``notes``. Its cells stay text, for the caller to interpret.
    JSON: a list of records, an object of columns, or one record per line (.jsonl).
    Sheets (.xlsx, .xls, .ods): the first sheet that is not empty.
    Parquet and Feather: list columns of one length (embeddings) become one column per entry; columns are read when
    they are needed.
    NPZ: features ``X`` or ``attr_matrix`` (dense), or CSR parts ``X_data X_indices X_indptr X_shape`` or
    ``attr_*``; every other array with one value per row is a possible target, ``ids`` are the row ids.
    NPY: features, which are mapped and not copied; every other NPY file in the same folder with one value per row is a
    possible target, by its name without the ending.
    """
    check_exists(path)
    name = inner_name(path)
    packed = path.name.lower().endswith((".gz", ".zip"))
    if not name.endswith((*_TEXT, *_JSON) if packed else SUFFIXES):
        hint = "unpack it first" if packed and name.endswith(SUFFIXES) else "convert it to CSV"
        raise InvalidFileError(
            f"{path} is not a table that condiff reads ({', '.join(SUFFIXES)}; text also in .gz and .zip): {hint}"
        )
    table = _read(path, name)
    if table.n_rows == 0:
        raise InvalidFileError(f"{path} has column names but no rows: add at least one row")
    return table


def image_table(folder: Path) -> Table:
    """A folder of images as a table of one column, ``file``; names are relative to the folder."""
    files = list_images(folder)
    column = Column("file", "text", np.array(files, dtype=TEXT))
    return Table(folder, ColumnDict({"file": column}, len(files), str(folder)))


def _read(path: Path, name: str) -> Table:
    if name.endswith(".npz"):
        matrix, named, names = read_npz(path)
        return Table(path, _beside(named, path), matrix, names, named=named)
    if name.endswith(".npy"):
        mapped, beside = read_npy(path)
        return Table(path, _beside(beside, path), mapped, named=beside)
    if name.endswith(_ARROW):
        return Table(path, ArrowColumns(path))
    if name.endswith(_SHEETS):
        sheet, notes = read_sheet(path)
        return Table(path, sheet, notes=tuple(notes))
    if name.endswith(_JSON):
        return Table(path, read_json(path, lines=not name.endswith(".json")))
    columns, remarks = read_delimited(path)
    return Table(path, columns, notes=tuple(remarks))


def _beside(named: Mapping[str, NDArray[Any]], path: Path) -> ColumnDict:
    columns = {name: array_columns(name, array)[0] for name, array in named.items()}
    return ColumnDict(columns, len(next(iter(named.values()), ())), str(path))


def _checked(values: NDArray[Any] | None, where: str) -> NDArray[Any]:
    if values is None:
        raise InvalidInputError(f"{where} holds dates: a target is a class or a number; choose another column")
    if values.dtype != object and np.isinf(values).any():
        row = int(np.flatnonzero(np.isinf(values))[0]) + 1
        raise InvalidInputError(f"{where} is infinite in row {row}: fix that cell or leave it empty")
    if not observed(values).any():
        raise InvalidInputError(f"{where} is empty in every row: fill it for the rows whose answer you know")
    return values
