"""NumPy files: features in an NPZ archive, dense or CSR, or in an NPY file that is mapped and not read."""

from __future__ import annotations

import contextlib
import math
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Self

import numpy as np
from numpy.typing import NDArray

from condiff.errors import InvalidFileError
from condiff.files import check_room, refusing
from condiff.readers.cells import listed

# Rows that are looked at, or read, at a time.
_ROWS = 65_536
_LAST_CHARACTER = 0x10FFFF
_SPARSER = "save it as CSR parts if most of it is zero, or uncompressed with numpy.savez"


class NpzArrays(Mapping[str, NDArray[Any]]):
    """The arrays of an NPZ archive, each checked by its header and read when it is asked for, never unpickled.

    Parameters
    ----------
    path
        The file.
    mend
        What to do where it is damaged, for messages.
    """

    def __init__(self, path: Path, mend: str = "write it again with numpy.savez") -> None:
        self.path, self.mend = path, mend
        self._stack = contextlib.ExitStack()
        with refusing(path, "a readable NPZ file", mend), contextlib.ExitStack() as stack:
            stream = stack.enter_context(path.open("rb"))  # zipfile leaves a damaged file open
            self._zip = stack.enter_context(zipfile.ZipFile(stream))
            self._members = {info.filename.removesuffix(".npy"): info for info in self._zip.infolist()}
            self._stack = stack.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, key: object) -> bool:
        return key in self._members  # without reading it, as a mapping would

    def header(self, key: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
        """Shape and type of an array, without reading it."""
        with self._opened(key) as stream:
            return self._header(key, stream)

    def __getitem__(self, key: str) -> NDArray[Any]:
        if key not in self._members:
            raise KeyError(key)
        info = self._members[key]
        with self._opened(key) as stream:
            shape, dtype = self._header(key, stream)
            if dtype.kind == "V" or dtype.itemsize == 0:
                raise InvalidFileError(f"{self.path}: {key} holds {dtype}, neither numbers nor text: {self.mend}")
            size = math.prod(shape) * dtype.itemsize
            if size != info.file_size - stream.tell():
                raise InvalidFileError(f"{self.path}: {key} is cut off or too long for its header: {self.mend}")
            check_room(f"{self.path}: {key}", size, _SPARSER, packed=info.compress_size)
        with self._opened(key) as stream:
            return _with_characters(np.asarray(np.lib.format.read_array(stream, allow_pickle=False)))

    @contextlib.contextmanager
    def _opened(self, key: str) -> Iterator[IO[bytes]]:
        with refusing(f"{self.path}: {key}", "a readable array", self.mend), self._zip.open(self._members[key]) as it:
            yield it

    def _header(self, key: str, stream: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
        version = np.lib.format.read_magic(stream)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(stream)
        if dtype.hasobject:
            advice = "holds pickled Python objects, which are never loaded: save plain number and text arrays"
            raise InvalidFileError(f"{self.path}: {key} {advice}")
        if any(not isinstance(length, int) or length < 0 for length in shape):
            raise InvalidFileError(f"{self.path}: {key} has the shape {shape}, which no array has: {self.mend}")
        return tuple(shape), dtype


def read_npz(path: Path) -> tuple[Any, dict[str, NDArray[Any]], tuple[str, ...]]:
    """The features of an NPZ file, its other arrays with one value per row, and the features' names."""
    with NpzArrays(path) as arrays:
        matrix, used = _npz_features(path, arrays)
        rows = (int(matrix.shape[0]),)
        names: tuple[str, ...] = ()
        if "feature_names" in arrays:
            names = tuple(str(name) for name in arrays["feature_names"].ravel().tolist())
        if names and len(names) != matrix.shape[1]:
            raise InvalidFileError(
                f"{path}: {len(names)} feature_names for {matrix.shape[1]} features: make them agree"
            )
        # Others are not even unpacked: they may be of any size.
        shapes = {key: arrays.header(key)[0] for key in arrays if key not in used and key != "feature_names"}
        for key in ("y", "labels", "ids"):
            if shapes.get(key, rows) != rows:
                shape = "x".join(map(str, shapes[key]))
                raise InvalidFileError(
                    f"{path}: {key!r} has shape {shape} but there are {rows[0]} rows: save one value per row"
                )
        return matrix, {key: arrays[key] for key, shape in shapes.items() if shape == rows}, names


def _npz_features(path: Path, arrays: NpzArrays) -> tuple[Any, set[str]]:
    for prefix, dense in (("X", "X"), ("attr", "attr_matrix")):
        parts = [f"{prefix}_{part}" for part in ("data", "indices", "indptr", "shape")]
        used = {dense} if dense in arrays else set(parts)
        if not used <= arrays.keys():
            continue
        if any(arrays.header(key)[1].kind not in "biuf" for key in used):
            raise InvalidFileError(f"{path}: {listed(sorted(used))} must hold numbers: encode text, or use CSV")
        shape = arrays.header(dense)[0] if dense in arrays else (1, 1)
        if len(shape) != 2 or shape[1] == 0:
            raise InvalidFileError(f"{path}: {dense!r} has shape {shape}: save rows x features")
        matrix = arrays[dense].astype(np.float64) if dense in arrays else _csr(path, prefix, arrays)
        if matrix.shape[1] == 0:
            raise InvalidFileError(f"{path}: {prefix!r} has shape {matrix.shape}: save rows x features")
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
    with refusing(f"{path}: {prefix}_*", "a CSR matrix", "write it again"):
        check_room(f"{path}: {prefix}_shape", 8 * int(shape.max(initial=0)), "correct it")
        matrix = sp.csr_array((data.astype(np.float64), indices, indptr), shape=tuple(shape.tolist()))
        matrix.check_format(full_check=True)
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
                with refusing(beside, "a readable NPY file", "write it again with numpy.save"):
                    named[beside.stem] = _with_characters(np.asarray(array))
    return matrix, named


def _with_characters(array: NDArray[Any]) -> NDArray[Any]:
    """The array, if its texts are made of characters: NumPy believes any number to be one, until it is used."""
    if array.dtype.kind == "U" and array.size:
        codes = np.ascontiguousarray(array).reshape(-1).astype(array.dtype.newbyteorder("=")).view(np.uint32)
        if codes.max() > _LAST_CHARACTER or ((codes >= 0xD800) & (codes < 0xE000)).any():
            raise ValueError("it holds texts of no characters")
    return array


def _mapped(path: Path) -> NDArray[Any]:
    with refusing(path, "a readable NPY file", "write it again with numpy.save"):
        with path.open("rb") as stream:
            if stream.read(2) == b"PK":  # numpy would take it for an NPZ file, and leave it open where it is none
                raise ValueError("an archive")
        try:
            return np.asanyarray(np.load(path, mmap_mode="r", allow_pickle=False))
        except ValueError as error:
            if "pickle" in str(error).lower() or "object" in str(error).lower():
                raise InvalidFileError(
                    f"{path} holds Python objects, which are never loaded: save plain numbers"
                ) from error
            raise
