"""Model folders: arrays in safetensors, everything else in JSON, checksums over both; never a pickle."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save_file

from condiff.errors import InvalidFileError, InvalidInputError
from condiff.files import atomic_folder, check_room, read_sealed, reason, refusing, sha256, write_sealed

FORMAT = "condiff-model"
SCHEMA = 1
_ARRAYS = "arrays.safetensors"
_DESCRIPTION = "model.json"
# How often a model that is replaced while it is read is read again.
_ATTEMPTS = 20
_FLOATS = {str(value): value for value in (float("nan"), float("inf"), float("-inf"))}


def check_folder(folder: Path) -> None:
    """Refuse a place that holds anything but a model: saving replaces the whole folder."""
    if folder.exists() and not (folder / _DESCRIPTION).is_file() and (not folder.is_dir() or any(folder.iterdir())):
        raise InvalidInputError(f"{folder} exists and is not a condiff model; choose another name or remove it")


def save_state(folder: Path, kind: str, params: dict[str, Any], state: dict[str, Any], metadata: Any) -> Path:
    """Write a model folder, completely or not at all.

    Parameters
    ----------
    folder
        Where to write it; a model folder that is there already is replaced, anything else is left alone.
    kind
        Name of the estimator's class.
    params, state
        Constructor parameters and fitted attributes: scalars, strings, None, lists, dicts, arrays, CSR matrices.
    metadata
        JSON values stored with the model.
    """
    check_folder(folder)
    try:
        metadata = json.loads(json.dumps(metadata, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInputError(f"the metadata are not JSON values: {error}") from error
    arrays: dict[str, NDArray[Any]] = {}
    content = {
        "format": FORMAT,
        "schema": SCHEMA,
        "kind": kind,
        "params": encode(params, "params", arrays),
        "state": encode(state, "state", arrays),
        "metadata": metadata,
    }
    with atomic_folder(folder) as temporary:
        save_file(arrays, temporary / _ARRAYS)
        content["files"] = {_ARRAYS: sha256(temporary / _ARRAYS)}
        write_sealed(temporary / _DESCRIPTION, content)
    return folder


def load_state(folder: Path) -> dict[str, Any]:
    """Read a model folder back: ``kind``, ``params``, ``state`` and ``metadata``."""
    for _ in range(_ATTEMPTS):
        with _held(folder) as before:
            try:
                return _load_once(folder)
            except InvalidFileError:
                if _identity(folder) == before:
                    raise
                # Somebody has saved another model in its place meanwhile: its two files belong together.
    return _load_once(folder)


def _identity(place: Path | int) -> tuple[int, int] | None:
    try:
        found = os.fstat(place) if isinstance(place, int) else place.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


@contextlib.contextmanager
def _held(folder: Path) -> Iterator[tuple[int, int] | None]:
    """Which folder has this name now. While it is open no other can be given its number."""
    try:
        number = os.open(folder, os.O_RDONLY)
    except OSError:  # there is none, or folders cannot be opened (Windows)
        yield _identity(folder)
        return
    try:
        yield _identity(number)
    finally:
        os.close(number)


def _load_once(folder: Path) -> dict[str, Any]:
    content = read_sealed(folder / _DESCRIPTION, FORMAT, SCHEMA, what="model", mend="save the model again")
    path = folder / _ARRAYS
    files, kind = content.get("files"), content.get("kind")
    whole = isinstance(kind, str) and {"params", "state", "metadata"} <= content.keys()
    if not isinstance(files, dict) or not whole:
        raise InvalidFileError(f"{folder / _DESCRIPTION} lacks a part of the model; save it again")
    with refusing(path, "a file of arrays", "save the model again"):
        if path.is_file():
            check_room(path, path.stat().st_size, "load it on a larger machine")
        # Read once: the bytes that are compared are the bytes that are used.
        data = path.read_bytes() if path.is_file() else b""
        if hashlib.sha256(data).hexdigest() != files.get(_ARRAYS):
            raise InvalidFileError(f"{path} is missing, truncated or changed; save the model again")
        arrays = load_arrays(data)
    return {
        "kind": kind,
        "params": decode(content["params"], arrays),
        "state": decode(content["state"], arrays),
        "metadata": content["metadata"],
    }


def encode(value: Any, name: str, arrays: dict[str, NDArray[Any]]) -> Any:
    """JSON for a value; the numbers of arrays go to ``arrays`` under a name that says where they belong."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, np.generic) and value.dtype.kind in "biufU":
        value = value.item()
        return encode(value, name, arrays)
    if isinstance(value, float):
        return value if np.isfinite(value) else {"$float": str(value)}
    if isinstance(value, list | tuple):
        return [encode(item, f"{name}.{i}", arrays) for i, item in enumerate(value)]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {"$dict": {key: encode(item, f"{name}.{key}", arrays) for key, item in value.items()}}
    if isinstance(value, dict):
        pairs = [[key, item] for key, item in value.items()]
        return {"$pairs": encode(pairs, name, arrays)}
    if sp.issparse(value):
        matrix = sp.csr_array(value)
        for part in ("data", "indices", "indptr"):
            arrays[f"{name}.{part}"] = np.ascontiguousarray(getattr(matrix, part))
        return {"$csr": name, "shape": list(matrix.shape)}
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        arrays[name] = np.ascontiguousarray(value)
        return {"$array": name, "shape": list(value.shape)}
    if isinstance(value, np.ndarray) and value.dtype.kind in "UO" and value.ndim == 1:
        return {"$objects": encode(value.tolist(), name, arrays), "kind": value.dtype.kind}
    raise InvalidInputError(f"{name} is a {type(value).__name__}, which cannot be saved without a pickle")


def decode(value: Any, arrays: dict[str, NDArray[Any]]) -> Any:
    """The inverse of :func:`encode`."""
    if isinstance(value, list):
        return [decode(item, arrays) for item in value]
    if not isinstance(value, dict):
        return value
    try:
        if "$float" in value:
            return _FLOATS[value["$float"]]
        if "$dict" in value:
            return {key: decode(item, arrays) for key, item in value["$dict"].items()}
        if "$pairs" in value:
            return dict(decode(value["$pairs"], arrays))
        if "$csr" in value:
            parts = tuple(arrays[f"{value['$csr']}.{part}"] for part in ("data", "indices", "indptr"))
            return sp.csr_array(parts, shape=_shape(value["shape"], 2))
        if "$array" in value:
            return arrays[value["$array"]].reshape(_shape(value["shape"]))
        return np.array(decode(value["$objects"], arrays), dtype=object if value["kind"] == "O" else None)
    except InvalidFileError:
        raise
    except Exception as error:  # SciPy has its own ways to fail over parts that do not fit
        raise InvalidFileError(
            f"the model lacks or garbles a part of its state ({reason(error)}); save it again"
        ) from error


def _shape(value: Any, dimensions: int | None = None) -> tuple[int, ...]:
    """A shape as it stands: NumPy would take a negative length for one that it is to find."""
    if not isinstance(value, list) or len(value) != (len(value) if dimensions is None else dimensions):
        raise TypeError("a shape is no list of lengths")
    if not all(isinstance(length, int) and not isinstance(length, bool) and 0 <= length < 1 << 48 for length in value):
        raise TypeError("a shape has a length that no array has")
    return tuple(value)
