"""Tables as people have them: CSV, Parquet or NPZ, with an empty target in every unlabelled row.

Row numbers in messages count data rows from 1; line numbers are those of the text file.
"""

from __future__ import annotations

import csv
import gzip
import io
import zipfile
import zlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from condiff.datasets.columns import (
    Matrix,
    as_number,
    column_kind,
    did_you_mean,
    id_like,
    listed,
    load_pandas,
    number_values,
    text_values,
)
from condiff.errors import InvalidFileError, InvalidInputError, MissingDependencyError

if TYPE_CHECKING:
    import pandas as pd

Label: TypeAlias = str | int | float | bool

# "None" and "-" are left out on purpose: in real tables they are values.
MISSING_CELLS = ("", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null")
MAX_CLASSES = 20
_SUFFIXES = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet", ".npz")


@dataclass(frozen=True, eq=False)
class Table:
    """Rows to learn from or to answer: a data frame, or a numeric matrix with named arrays beside it.

    Attributes
    ----------
    path
        Where the rows came from; used in messages.
    frame
        The columns, for CSV and Parquet.
    matrix
        The features, dense or CSR, for NPZ.
    named
        For NPZ, every other array with one value a row: targets and ``ids``.
    feature_names
        For NPZ, the names of the matrix's columns, if the file has them.
    """

    path: Path
    frame: pd.DataFrame | None = None
    matrix: Matrix | None = None
    named: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    feature_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if (self.frame is None) == (self.matrix is None):
            raise InvalidInputError("a Table holds either a frame or a matrix: give exactly one of them")

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        rows: Any = self.matrix if self.frame is None else self.frame
        return int(rows.shape[0])

    @property
    def columns(self) -> tuple[str, ...]:
        """The names that `target` and `features` know: all columns, or for NPZ the named arrays."""
        return tuple(self.named) if self.frame is None else tuple(map(str, self.frame.columns))

    def target(self, name: str) -> NDArray[Any]:
        """One column as float64 with NaN for missing, or as str/bool objects with None for missing.

        In an integer array of an NPZ file, which cannot be empty, -1 means unlabelled if all other values are
        non-negative and at least two different ones remain; so {-1, 0, 1} has unlabelled rows, {-1, 1} has none.
        """
        self._require([name], "target column")
        values = _array_target(self.named[name]) if self.frame is None else _series_target(self.frame[name])
        where = f"target column {name!r} of {self.path}"
        if values is None:
            raise InvalidInputError(f"{where} holds dates: a target is a class or a number; choose another column")
        if values.dtype != object and np.isinf(values).any():
            row = int(np.flatnonzero(np.isinf(values))[0]) + 1
            raise InvalidInputError(f"{where} is infinite in row {row}: mend that cell or leave it empty")
        if not observed(values).any():
            raise InvalidInputError(f"{where} is empty in every row: fill it for the rows whose answer you know")
        return values

    def features(self, exclude: Collection[str] = ()) -> pd.DataFrame | Matrix:
        """All columns but those in ``exclude``; for NPZ the matrix, which never holds the targets."""
        self._require(exclude, "column")
        return self.matrix if self.frame is None else self.frame.drop(columns=list(exclude))

    def _require(self, names: Iterable[str], what: str) -> None:
        for name in names:
            if name not in self.columns:
                raise InvalidInputError(
                    f"{self.path} has no {what} {name!r}{did_you_mean(name, self.columns)}; "
                    f"it has {listed(self.columns) or 'only features'}"
                )


def read_table(path: Path, as_text: Collection[str] = ()) -> Table:
    """Read a CSV (.csv, .tsv, either with .gz), Parquet or NPZ file.

    CSV: UTF-8, one header line, delimiter comma, semicolon or tab; cells in `MISSING_CELLS` are missing.
    Parquet: list columns of one length (embeddings) become one column an entry.
    NPZ: features ``X`` or ``attr_matrix`` (dense), or CSR parts ``X_data X_indices X_indptr X_shape`` or
    ``attr_*``; every other array with one value a row is a possible target, ``ids`` are the row ids.

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
        table = _read_npz(path)
    else:
        table = Table(path, frame=(_read_parquet if name.endswith(".parquet") else _read_csv)(path, as_text))
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


def _read_csv(path: Path, as_text: Collection[str]) -> pd.DataFrame:
    pandas = load_pandas()
    text = _decoded(path)
    delimiter = _delimiter(text)
    header = _checked_header(path, text, delimiter)
    try:
        frame = pandas.read_csv(
            io.StringIO(text, newline=""),
            sep=delimiter,
            names=header,
            header=0,
            index_col=False,
            skipinitialspace=True,
            keep_default_na=False,
            na_values=list(MISSING_CELLS),
            dtype={name: str for name in header if name in as_text or id_like(name)},
            low_memory=False,
        )
    except (ValueError, OverflowError) as error:
        raise InvalidFileError(f"{path} cannot be read as CSV ({error}): mend it or save it again") from error
    for position, name in enumerate(header, start=1):
        if name.startswith("\0"):
            if frame[name].notna().any():
                raise InvalidFileError(f"{path}: column {position} has no name: name it in the first line")
            frame = frame.drop(columns=name)
    return frame


def _decoded(path: Path) -> str:
    try:
        raw = gzip.decompress(path.read_bytes()) if path.name.lower().endswith(".gz") else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise InvalidFileError(f"{path} cannot be unpacked ({error}): write or download it again") from error
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise InvalidFileError(f"{path} is not UTF-8 text (line {line}): save it with the encoding UTF-8") from error
    if not text.strip():
        raise InvalidFileError(f"{path} is empty (only white space): write the table again")
    return text


def _delimiter(text: str) -> str:
    """The delimiter under which most of the first lines are as wide as the header."""

    def score(delimiter: str) -> tuple[float, int]:
        widths = []
        for row in csv.reader(io.StringIO(text[:65536], newline=""), delimiter=delimiter, skipinitialspace=True):
            widths.append(len(row))
            if len(widths) == 50:
                break
        widths = [width for width in widths if width] or [0]
        return (widths.count(widths[0]) / len(widths) if widths[0] > 1 else 0.0), widths[0]

    try:
        return max((",", ";", "\t"), key=score)
    except csv.Error:
        return ","


def _checked_header(path: Path, text: str, delimiter: str) -> list[str]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True)
    header: list[str] = []
    start = 1
    try:
        for row in reader:
            if not row or (len(row) == 1 and not row[0].strip()):
                pass
            elif not header:
                header = _named_columns(path, [cell.strip() for cell in row])
            elif len(row) != len(header):
                quote = "; is a quote left open?" if reader.line_num > start + 1 else ""
                raise InvalidFileError(
                    f"{path}, line {start}: {len(row)} cells where the header has {len(header)}: "
                    f"mend the line (a cell that holds the delimiter {delimiter!r} needs quotes){quote}"
                )
            start = reader.line_num + 1
    except csv.Error as error:
        raise InvalidFileError(f"{path}, line {start}: {error}: mend the line") from error
    return header


def _named_columns(path: Path, cells: list[str]) -> list[str]:
    filled = [cell for cell in cells if cell]
    # A frame without column names is saved under 0, 1, 2, ...: that is a header.
    if all(as_number(cell) is not None for cell in filled) and filled != [str(i) for i in range(len(filled))]:
        raise InvalidFileError(
            f"{path}: the first line looks like data ({listed(filled, 3)}), not like column names: "
            "add a first line with a name for each column"
        )
    _no_duplicates(path, filled)
    # pandas saves its index as a first column without a name; other nameless columns must turn out empty.
    first = "index" if "index" not in cells else "\0 0"
    return [cell or (first if position == 0 else f"\0 {position}") for position, cell in enumerate(cells)]


def _no_duplicates(path: Path, names: list[str]) -> None:
    twice = list(dict.fromkeys(name for name in names if names.count(name) > 1)) if len(set(names)) < len(names) else []
    if twice:
        raise InvalidFileError(f"{path} has more than one column named {listed(twice, 3)}: give each its own name")


def _read_parquet(path: Path, as_text: Collection[str]) -> pd.DataFrame:
    pandas = load_pandas()
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise MissingDependencyError("reading Parquet needs pyarrow: pip install 'condiff[data]'") from error
    try:
        content = pyarrow.parquet.ParquetFile(path).read()
    except (pyarrow.ArrowException, OSError) as error:
        reason = str(error).split("\n")[0].rstrip(". ")
        raise InvalidFileError(f"{path} is not a readable Parquet file ({reason}): write it again") from error
    _no_duplicates(path, list(content.column_names))
    frame = content.to_pandas(date_as_object=False)
    if any(frame.index.names):
        frame = frame.reset_index()
    pieces = []
    for name in frame.columns:
        kind = content.schema.field(name).type if name in content.column_names else None
        if kind is not None and (pyarrow.types.is_nested(kind) or "binary" in str(kind)):
            pieces.append(_expanded(path, frame[name], str(kind)))
        else:
            series = frame[name]
            pieces.append(pandas.Series(text_values(series), name=name) if name in as_text else series)
    whole = pandas.concat([piece.reset_index(drop=True) for piece in pieces], axis=1) if pieces else pandas.DataFrame()
    whole.columns = [str(name) for name in whole.columns]
    return whole


def _expanded(path: Path, series: pd.Series, kind: str) -> pd.DataFrame:
    known = series.notna().to_numpy()
    try:
        block = np.array([np.asarray(row, dtype=np.float64) for row in series[known]])
        if block.ndim != 2:
            raise ValueError
    except (ValueError, TypeError) as error:
        raise InvalidFileError(
            f"{path}: column {series.name!r} holds {kind}: only numbers, text, dates and number lists "
            "of one length can be used; drop or flatten it"
        ) from error
    values = np.full((len(series), block.shape[1]), np.nan)
    values[known] = block
    return load_pandas().DataFrame(values, columns=[f"{series.name}[{i}]" for i in range(block.shape[1])])


def _read_npz(path: Path) -> Table:
    try:
        # numpy leaves a damaged file open unless it is given a stream.
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as archive:
            arrays = {key: archive[key] for key in archive.files}
    except (ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error, AttributeError, TypeError) as error:
        if "pickle" in str(error) and zipfile.is_zipfile(path):
            advice = "holds pickled Python objects, which are never loaded: save plain number and text arrays"
            raise InvalidFileError(f"{path} {advice}") from error
        raise InvalidFileError(f"{path} is not a readable NPZ file: write it again with numpy.savez") from error
    matrix, used = _npz_features(path, arrays)
    names = tuple(str(name) for name in arrays.get("feature_names", np.array([])).ravel().tolist())
    if names and len(names) != matrix.shape[1]:
        raise InvalidFileError(f"{path}: {len(names)} feature_names for {matrix.shape[1]} features: make them agree")
    for key in ("y", "labels", "ids"):
        if key in arrays and arrays[key].shape != (matrix.shape[0],):
            shape = "x".join(map(str, arrays[key].shape))
            raise InvalidFileError(
                f"{path}: {key!r} has shape {shape} but there are {matrix.shape[0]} rows: save one value a row"
            )
    named = {
        k: a for k, a in arrays.items() if k not in used and k != "feature_names" and a.shape == (matrix.shape[0],)
    }
    return Table(path, matrix=matrix, named=named, feature_names=names)


def _npz_features(path: Path, arrays: Mapping[str, NDArray[Any]]) -> tuple[Matrix, set[str]]:
    for prefix, dense in (("X", "X"), ("attr", "attr_matrix")):
        parts = [f"{prefix}_{part}" for part in ("data", "indices", "indptr", "shape")]
        used = {dense} if dense in arrays else set(parts)
        if not used <= arrays.keys():
            continue
        if any(arrays[key].dtype.kind not in "biuf" for key in used):
            raise InvalidFileError(f"{path}: {listed(sorted(used))} must hold numbers: encode text, or use CSV")
        matrix = arrays[dense].astype(np.float64) if dense in arrays else _csr(path, prefix, arrays)
        if matrix.ndim != 2 or matrix.shape[1] == 0:
            raise InvalidFileError(f"{path}: {dense!r} has shape {matrix.shape}: save rows x features")
        if not np.isfinite(matrix if isinstance(matrix, np.ndarray) else matrix.data).all():
            cells = sp.coo_array(matrix)
            row = int(cells.coords[0][~np.isfinite(cells.data)].min()) + 1
            raise InvalidFileError(f"{path}: {dense!r} is NaN or infinite in row {row}: fill such values first")
        return matrix, used
    raise InvalidFileError(
        f"{path} has no features: it has {listed(list(arrays)) or 'no arrays'}, but needs 'X' (rows x features), "
        "or 'X_data', 'X_indices', 'X_indptr' and 'X_shape', or the same with 'attr'"
    )


def _csr(path: Path, prefix: str, arrays: Mapping[str, NDArray[Any]]) -> sp.csr_array:
    data, indices, indptr, shape = (arrays[f"{prefix}_{part}"] for part in ("data", "indices", "indptr", "shape"))
    try:
        matrix = sp.csr_array((data.astype(np.float64), indices, indptr), shape=tuple(shape.tolist()))
        matrix.check_format(full_check=True)
    except (ValueError, TypeError, IndexError) as error:
        raise InvalidFileError(f"{path}: {prefix}_* is not a CSR matrix ({error}): write it again") from error
    matrix.sum_duplicates()
    return matrix
