"""Tables as people have them: CSV, Parquet, NPZ or NPY, with an empty target in every unlabelled row.

Row numbers in messages count data rows from 1; line numbers are those of the text file.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from condiff.errors import InvalidFileError, InvalidInputError, did_you_mean
from condiff.readers.cells import MISSING_CELLS, Matrix, as_number, column_kind, listed, number_values, text_values
from condiff.readers.large import read_npy
from condiff.readers.parquet import ParquetColumns
from condiff.readers.table_files import read_csv, read_npz

if TYPE_CHECKING:
    import pandas as pd

Label: TypeAlias = str | int | float | bool

MAX_CLASSES = 20
_SUFFIXES = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet", ".npz", ".npy")


@dataclass(frozen=True, eq=False)
class Table:
    """Rows to learn from or to answer: columns, or a numeric matrix with named arrays beside it.

    Attributes
    ----------
    path
        Where the rows came from; used in messages.
    frame
        The columns, for CSV.
    file
        The columns, for Parquet: they are read when they are asked for.
    matrix
        The features, dense or CSR, for NPZ.
    named
        For NPZ, every other array with one value a row: targets and ``ids``.
    feature_names
        For NPZ, the names of the matrix's columns, if the file has them.
    """

    path: Path
    frame: pd.DataFrame | None = None
    file: ParquetColumns | None = None
    matrix: Matrix | None = None
    named: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    feature_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if sum(each is not None for each in (self.frame, self.file, self.matrix)) != 1:
            raise InvalidInputError("a Table holds a frame, a file or a matrix: give exactly one of them")

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        if self.file is not None:
            return self.file.n_rows
        rows: Any = self.matrix if self.frame is None else self.frame
        return int(rows.shape[0])

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of all columns, or for NPZ of the arrays beside the features."""
        if self.file is not None:
            return self.file.names
        return tuple(self.named) if self.frame is None else tuple(map(str, self.frame.columns))

    def column(self, name: str) -> pd.Series:
        """All rows of a column; not for NPZ."""
        if self.file is not None:
            return self.file.column(name)
        assert self.frame is not None
        return self.frame[name]

    def batches(self, names: Sequence[str]) -> Iterator[tuple[int, Mapping[str, pd.Series]]]:
        """Some columns, a batch of rows at a time, each with the number of rows before it; not for NPZ."""
        if self.file is not None:
            return self.file.batches(names)
        assert self.frame is not None
        return iter([(0, {name: self.frame[name] for name in names})])

    def target(self, name: str) -> NDArray[Any]:
        """One column as float64 with NaN for missing, or as str/bool objects with None for missing.

        In an integer array of an NPZ file, which cannot be empty, -1 means unlabelled if all other values are
        non-negative and at least two different ones remain; so {-1, 0, 1} has unlabelled rows, {-1, 1} has none.
        """
        self._require([name], "target column")
        values = _array_target(self.named[name]) if self.matrix is not None else _series_target(self.column(name))
        where = f"target column {name!r} of {self.path}"
        if values is None:
            raise InvalidInputError(f"{where} holds dates: a target is a class or a number; choose another column")
        if values.dtype != object and np.isinf(values).any():
            row = int(np.flatnonzero(np.isinf(values))[0]) + 1
            raise InvalidInputError(f"{where} is infinite in row {row}: mend that cell or leave it empty")
        if not observed(values).any():
            raise InvalidInputError(f"{where} is empty in every row: fill it for the rows whose answer you know")
        return values

    def other_columns(self, exclude: Collection[str]) -> tuple[str, ...]:
        """All columns but those in ``exclude``, each of which must be there."""
        self._require(exclude, "column")
        return tuple(name for name in self.columns if name not in exclude)

    def _require(self, names: Iterable[str], what: str) -> None:
        for name in names:
            if name not in self.columns:
                raise InvalidInputError(
                    f"{self.path} has no {what} {name!r}{did_you_mean(name, self.columns)}; "
                    f"it has {listed(self.columns) or 'only features'}"
                )


def read_table(path: Path, as_text: Collection[str] = ()) -> Table:
    """Read a CSV (.csv, .tsv, either with .gz), Parquet, NPZ or NPY file.

    CSV: UTF-8, one header line, delimiter comma, semicolon or tab; cells in `MISSING_CELLS` are missing.
    Parquet: list columns of one length (embeddings) become one column an entry; columns are read when they are needed.
    NPZ: features ``X`` or ``attr_matrix`` (dense), or CSR parts ``X_data X_indices X_indptr X_shape`` or
    ``attr_*``; every other array with one value a row is a possible target, ``ids`` are the row ids.
    NPY: features, which are mapped and not copied; every other NPY file in the same folder with one value a row is a
    possible target, by its name without the ending.

    Parameters
    ----------
    path
        The file.
    as_text
        Columns to read as text even if they look like numbers or booleans, such as post codes. Columns named
        like an id (``id``, ``*_id``) always are, so that ``007`` stays ``007``.
    """
    if not path.exists():
        folder = sorted(p.name for p in path.parent.iterdir()) if path.parent.is_dir() else []
        raise InvalidFileError(f"{path} does not exist{did_you_mean(path.name, folder)}: check the path")
    if not path.is_file():
        raise InvalidFileError(f"{path} is not a file: give one of {', '.join(_SUFFIXES)}")
    name = path.name.lower()
    if not name.endswith(_SUFFIXES):
        hint = "save the sheet as CSV" if name.endswith((".xlsx", ".xls", ".ods")) else "convert it to CSV"
        raise InvalidFileError(f"{path} is not a table that condiff reads ({', '.join(_SUFFIXES)}): {hint}")
    if path.stat().st_size == 0:
        raise InvalidFileError(f"{path} is empty (0 bytes): write the table again")
    if name.endswith(".npz"):
        matrix, named, names = read_npz(path)
        table = Table(path, matrix=matrix, named=named, feature_names=names)
    elif name.endswith(".parquet"):
        table = Table(path, file=ParquetColumns(path, as_text))
    elif name.endswith(".npy"):
        mapped, beside = read_npy(path)
        table = Table(path, matrix=mapped, named=beside)
    else:
        table = Table(path, frame=read_csv(path, as_text))
    if table.n_rows == 0:
        raise InvalidFileError(f"{path} has column names but no rows: add at least one row")
    return table


def infer_task(target: NDArray[Any]) -> Literal["classification", "regression"]:
    """Guess the task from what `Table.target` returned; only labelled rows count.

    Text and booleans are classes. Numbers with any fractional part are a regression target. Whole numbers are
    classes if there are two different ones, or up to 20 with either two labelled rows a value on average or
    values that count 0, 1, 2, ... or 1, 2, 3, ... without a gap; otherwise they are a regression target.
    """
    if target.dtype == object:
        return "classification"
    labelled = target[observed(target)]
    levels = np.unique(labelled)
    if (levels != np.round(levels)).any():
        return "regression"
    codes = levels[0] in (0, 1) and levels[-1] - levels[0] == len(levels) - 1
    few = len(levels) <= MAX_CLASSES and (len(labelled) >= 2 * len(levels) or codes)
    return "classification" if few or len(levels) <= 2 else "regression"


def encode_classes(target: NDArray[Any], where: str = "the target") -> tuple[NDArray[np.int64], list[Label]]:
    """Class codes, -1 for unlabelled rows, and the sorted classes as plain Python values.

    Parameters
    ----------
    target
        What `Table.target` returned.
    where
        How a message names the target, such as ``"target column 'kind' of data.csv"``.
    """
    known = observed(target)
    classes: list[Label]
    if target.dtype == object:
        # Only a hand-made array mixes types; by type first, then by value, any mixture sorts.
        classes = sorted(set(target[known].tolist()), key=lambda v: (type(v).__name__, v))
    else:
        classes = [int(v) if v == int(v) else v for v in np.unique(target[known]).tolist()]
    if len(classes) < 2:
        found = f"only one class, {classes[0]!r}" if classes else "no labelled row"
        raise InvalidInputError(f"{where} has {found}: label rows of at least two classes")
    index = {label: code for code, label in enumerate(classes)}
    codes = np.full(len(target), -1, dtype=np.int64)
    codes[known] = [index[label] for label in target[known].tolist()]
    return codes, classes


def regression_values(target: NDArray[Any], where: str = "the target") -> NDArray[np.float64]:
    """The target as float64, NaN for unlabelled rows; text and booleans are an error that names the row."""
    known = observed(target)
    values = np.full(len(target), np.nan)
    for row in np.flatnonzero(known).tolist():
        number = None if isinstance(target[row], bool) else as_number(str(target[row]))
        if number is None:
            advice = "write a number, empty that cell, or choose classification"
            raise InvalidInputError(f"{where} is not a number in row {row + 1} ({target[row]!r}): {advice}")
        values[row] = number
    if len(np.unique(values[known])) < 2:
        raise InvalidInputError(f"{where} has the same value in every labelled row: there is nothing to learn")
    return values


def observed(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Where a target or id array is not missing."""
    if values.dtype == object:
        return np.array([v is not None for v in values], dtype=bool)
    known: NDArray[np.bool_] = ~np.isnan(values)
    return known


def _series_target(series: pd.Series) -> NDArray[Any] | None:
    kind = column_kind(series)
    if kind == "date":
        return None
    if kind == "number":
        return number_values(series)
    if kind == "text":
        return text_values(series)
    out = np.empty(len(series), dtype=object)
    known = series.notna().to_numpy()
    out[known] = [bool(value) for value in series[known]]
    return out


def _array_target(array: NDArray[Any]) -> NDArray[Any] | None:
    if array.dtype.kind in "Mm":
        return None
    if array.dtype.kind in "US":
        text = [v.decode("utf-8", "replace") if isinstance(v, bytes) else v for v in array.tolist()]
        return np.array([None if v.strip() in MISSING_CELLS else v.strip() for v in text], dtype=object)
    if array.dtype.kind == "b":
        return array.astype(object)
    values = array.astype(np.float64)
    if array.dtype.kind == "i" and values.size and values.min() == -1 and len(np.unique(values)) > 2:
        values[values == -1] = np.nan
    return values
