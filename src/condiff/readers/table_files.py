"""CSV and NPZ tables, each with the errors that its readers meet."""

from __future__ import annotations

import csv
import gzip
import io
import zipfile
import zlib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from condiff.errors import InvalidFileError
from condiff.readers.cells import MISSING_CELLS, Matrix, as_number, id_like, listed, load_pandas, no_duplicates

if TYPE_CHECKING:
    import pandas as pd


def read_csv(path: Path, as_text: Collection[str]) -> pd.DataFrame:
    """The columns of a delimited text file."""
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


def read_records(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The header of a delimited text file, then its rows, each with the line on which it begins."""
    text = _decoded(path)
    return _records(path, text, _delimiter(text))


def _checked_header(path: Path, text: str, delimiter: str) -> list[str]:
    header: list[str] = []
    for _, row in _records(path, text, delimiter):
        header = header or row
    return header


def _records(path: Path, text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True)
    header: list[str] = []
    start = 1
    try:
        for row in reader:
            if not row or (len(row) == 1 and not row[0].strip()):
                pass
            elif not header:
                header = _named_columns(path, [cell.strip() for cell in row])
                yield start, header
            elif len(row) != len(header):
                quote = "; is a quote left open?" if reader.line_num > start + 1 else ""
                raise InvalidFileError(
                    f"{path}, line {start}: {len(row)} cells where the header has {len(header)}: "
                    f"mend the line (a cell that holds the delimiter {delimiter!r} needs quotes){quote}"
                )
            else:
                yield start, row
            start = reader.line_num + 1
    except csv.Error as error:
        raise InvalidFileError(f"{path}, line {start}: {error}: mend the line") from error


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


def read_npz(path: Path) -> tuple[Matrix, dict[str, NDArray[Any]], tuple[str, ...]]:
    """The features of an NPZ file, its other arrays with one value a row, and the features' names."""
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
    return matrix, named, names


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
