"""NumPy files: features in an NPZ archive, dense or CSR, or in an NPY file that is mapped and not read."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from condiff.errors import InvalidFileError
from condiff.readers.cells import listed

# Rows that are looked at, or read, at a time.
_ROWS = 65_536


def read_npz(path: Path) -> tuple[Any, dict[str, NDArray[Any]], tuple[str, ...]]:
    """The features of an NPZ file, its other arrays with one value per row, and the features' names."""
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
                f"{path}: {key!r} has shape {shape} but there are {matrix.shape[0]} rows: save one value per row"
            )
    named = {
        k: a for k, a in arrays.items() if k not in used and k != "feature_names" and a.shape == (matrix.shape[0],)
    }
    return matrix, named, names


def _npz_features(path: Path, arrays: Mapping[str, NDArray[Any]]) -> tuple[Any, set[str]]:
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
            row = _first_infinite(matrix)
            raise InvalidFileError(f"{path}: {dense!r} is NaN or infinite in row {row}: fill such values first")
        return matrix, used
    raise InvalidFileError(
        f"{path} has no features: it has {listed(list(arrays)) or 'no arrays'}, but needs 'X' (rows x features), "
        "or 'X_data', 'X_indices', 'X_indptr' and 'X_shape', or the same with 'attr'"
    )


def _csr(path: Path, prefix: str, arrays: Mapping[str, NDArray[Any]]) -> Any:
    import scipy.sparse as sp

    data, indices, indptr, shape = (arrays[f"{prefix}_{part}"] for part in ("data", "indices", "indptr", "shape"))
    try:
        matrix = sp.csr_array((data.astype(np.float64), indices, indptr), shape=tuple(shape.tolist()))
        matrix.check_format(full_check=True)
    except (ValueError, TypeError, IndexError) as error:
        raise InvalidFileError(f"{path}: {prefix}_* is not a CSR matrix ({error}): write it again") from error
    matrix.sum_duplicates()
    return matrix


def _first_infinite(matrix: Any) -> int:
    """The first row, from 1, that holds NaN or an infinite value."""
    if isinstance(matrix, np.ndarray):
        return int(np.argmin(np.isfinite(matrix).all(axis=1))) + 1
    cells = matrix.tocoo()
    return int(cells.coords[0][~np.isfinite(cells.data)].min()) + 1


def read_npy(path: Path) -> tuple[NDArray[Any], dict[str, NDArray[Any]]]:
    """The features in an NPY file, mapped and not read, and the arrays beside it with one value per row.

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
                continue  # irrelevant until it is used
            if array.shape == (len(matrix),):
                named[beside.stem] = np.asarray(array)
    return matrix, named


def _mapped(path: Path) -> NDArray[Any]:
    try:
        with path.open("rb") as stream:
            if stream.read(2) == b"PK":  # numpy would take it for an NPZ file, and leave it open where it is none
                raise ValueError("an archive")
        return np.asanyarray(np.load(path, mmap_mode="r", allow_pickle=False))
    except (ValueError, OSError, EOFError) as error:
        if "pickle" in str(error).lower() or "object" in str(error).lower():
            raise InvalidFileError(
                f"{path} holds Python objects, which are never loaded: save plain numbers"
            ) from error
        raise InvalidFileError(f"{path} is not a readable NPY file: write it again with numpy.save") from error
