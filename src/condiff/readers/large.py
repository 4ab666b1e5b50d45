"""Features that are larger than one likes to copy: memory-mapped NPY, and Parquet read batch by batch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from condiff.errors import InvalidFileError, InvalidInputError, did_you_mean
from condiff.readers.cells import listed
from condiff.readers.parquet import is_list, is_number, open_parquet, read_batches

# Rows that are looked at, or read, at a time.
_ROWS = 65_536


def read_npy(path: Path) -> tuple[NDArray[Any], dict[str, NDArray[Any]]]:
    """The features in an NPY file, mapped and not read, and the arrays beside it with one value a row.

    Those are the other NPY files of its folder, by their names without the ending: targets, and ``ids``. Single
    precision stays single.
    """
    matrix = _mapped(path)
    if matrix.dtype.kind not in "biuf" or matrix.ndim != 2 or matrix.shape[1] == 0:
        raise InvalidFileError(
            f"{path} holds {matrix.dtype} of shape {matrix.shape}: save rows x features, as numbers, with numpy.save"
        )
    if matrix.dtype not in (np.float32, np.float64):
        matrix = matrix.astype(np.float64)
    for start in range(0, len(matrix), _ROWS):
        finite = np.isfinite(matrix[start : start + _ROWS]).all(axis=1)
        if not finite.all():
            row = start + int(np.argmin(finite)) + 1
            raise InvalidFileError(f"{path} is NaN or infinite in row {row}: fill such values first")
    named = {}
    for beside in sorted(path.parent.glob("*.npy")):
        if beside != path:
            try:
                array = _mapped(beside)
            except InvalidFileError:
                continue  # none of our business until it is asked for
            if array.shape == (len(matrix),):
                named[beside.stem] = np.asarray(array)
    return matrix, named


def parquet_matrix(
    path: str | Path,
    columns: Sequence[str] | None = None,
    *,
    dtype: type[np.float32] | type[np.float64] = np.float32,
    batch_rows: int = _ROWS,
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
        raise InvalidFileError(f"{path}: the lists of column {name!r} must hold equally many numbers, none missing")
    if not is_number(kind):
        raise InvalidFileError(f"{path}: column {name!r} holds {kind}, not numbers: leave it out or encode it")
    return np.asarray(column.to_numpy(zero_copy_only=False))


def _mapped(path: Path) -> NDArray[Any]:
    try:
        return np.asanyarray(np.load(path, mmap_mode="r", allow_pickle=False))
    except (ValueError, OSError, EOFError) as error:
        if "pickle" in str(error).lower() or "object" in str(error).lower():
            raise InvalidFileError(
                f"{path} holds Python objects, which are never loaded: save plain numbers"
            ) from error
        raise InvalidFileError(f"{path} is not a readable NPY file: write it again with numpy.save") from error
