"""Fitted estimators as folders: arrays in safetensors, everything else in JSON, checksums over both; never a pickle."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save_file
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from condiff.bases import Residual
from condiff.bases.classical import Base
from condiff.diffusion import Diffusion
from condiff.diffusion.readout import ReadOut
from condiff.encoders import TableEncoder
from condiff.errors import InvalidFileError, InvalidInputError
from condiff.estimators.choice import Choice
from condiff.estimators.domain import Domain
from condiff.estimators.recipe import Affine
from condiff.estimators.state import Mismatch, check_state
from condiff.files import atomic_folder, check_room, read_sealed, reason, refusing, sha256, write_sealed
from condiff.model import COIN, Head
from condiff.uncertainty import FitRecord

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
        "params": _encode(params, "params", arrays),
        "state": _encode(state, "state", arrays),
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
        "params": _decode(content["params"], arrays),
        "state": _decode(content["state"], arrays),
        "metadata": content["metadata"],
    }


def _encode(value: Any, name: str, arrays: dict[str, NDArray[Any]]) -> Any:
    """JSON for a value; the numbers of arrays go to ``arrays`` under a name that says where they belong."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, np.generic) and value.dtype.kind in "biufU":
        value = value.item()
        return _encode(value, name, arrays)
    if isinstance(value, float):
        return value if np.isfinite(value) else {"$float": str(value)}
    if isinstance(value, list | tuple):
        return [_encode(item, f"{name}.{i}", arrays) for i, item in enumerate(value)]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {"$dict": {key: _encode(item, f"{name}.{key}", arrays) for key, item in value.items()}}
    if isinstance(value, dict):
        pairs = [[key, item] for key, item in value.items()]
        return {"$pairs": _encode(pairs, name, arrays)}
    if sp.issparse(value):
        matrix = sp.csr_array(value)
        for part in ("data", "indices", "indptr"):
            arrays[f"{name}.{part}"] = np.ascontiguousarray(getattr(matrix, part))
        return {"$csr": name, "shape": list(matrix.shape)}
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        arrays[name] = np.ascontiguousarray(value)
        return {"$array": name, "shape": list(value.shape)}
    if isinstance(value, np.ndarray) and value.dtype.kind in "UO" and value.ndim == 1:
        return {"$objects": _encode(value.tolist(), name, arrays), "kind": value.dtype.kind}
    raise InvalidInputError(f"{name} is a {type(value).__name__}, which cannot be saved without a pickle")


def _decode(value: Any, arrays: dict[str, NDArray[Any]]) -> Any:
    if isinstance(value, list):
        return [_decode(item, arrays) for item in value]
    if not isinstance(value, dict):
        return value
    try:
        if "$float" in value:
            return _FLOATS[value["$float"]]
        if "$dict" in value:
            return {key: _decode(item, arrays) for key, item in value["$dict"].items()}
        if "$pairs" in value:
            return dict(_decode(value["$pairs"], arrays))
        if "$csr" in value:
            parts = tuple(arrays[f"{value['$csr']}.{part}"] for part in ("data", "indices", "indptr"))
            return sp.csr_array(parts, shape=_shape(value["shape"], 2))
        if "$array" in value:
            return arrays[value["$array"]].reshape(_shape(value["shape"]))
        return np.array(_decode(value["$objects"], arrays), dtype=object if value["kind"] == "O" else None)
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


class Saveable(BaseEstimator):  # type: ignore[misc]
    """Gives an estimator :meth:`save`; :func:`condiff.load` reads the folder back."""

    def save(self, folder: str | Path, metadata: Any = None) -> Path:
        """Write the fitted model to a folder: safetensors and JSON with checksums, no pickle; see :func:`condiff.load`.

        The folder holds the training points, because answers for new points need their neighbours among them.
        ``metadata`` may be any JSON value; the loaded model has it as ``metadata_``.
        """
        check_is_fitted(self)
        params = self._saved_params()
        kind, arrays = type(self).__name__, dict[str, NDArray[Any]]()
        try:  # what cannot be loaded is not saved
            state = self._state()
            check_state(kind, _decode(_encode(state, "state", arrays), arrays))
        except Mismatch as error:
            raise InvalidInputError(f"this {kind} cannot be saved: {error}") from error
        return save_state(Path(folder), kind, params, state, metadata)

    def _saved_params(self) -> dict[str, Any]:
        params: dict[str, Any] = self.get_params(deep=False)
        if not isinstance(params["random_state"], int | np.integer | None):
            params["random_state"] = None  # a generator has moved on since; the fit is not repeated on loading
        return params

    def _fitted(self) -> dict[str, Any]:
        """The attributes that the fit has set, as they are."""
        params = self.get_params(deep=False)
        return {name: value for name, value in vars(self).items() if name not in params and name != "metadata_"}

    def _state(self) -> dict[str, Any]:
        """Everything that the fit has set, as arrays and plain values."""
        raise NotImplementedError

    def _restore(self, state: dict[str, Any]) -> None:
        """Take over a state that has been checked."""
        raise NotImplementedError


class SaveableCOIN(Saveable):
    """What is saved of :class:`COINClassifier` and :class:`COINRegressor`."""

    _head: ClassVar[Head]
    _domain: Domain
    models_: list[COIN]
    record_: FitRecord
    encoder_: TableEncoder | None
    base_: Base | None
    choice_: Choice
    readout_: ReadOut | Affine | None
    n_features_in_: int
    feature_names_in_: NDArray[Any]
    solver: str
    strict: bool

    def on_numbers(self) -> Self:
        """The same model for what ``encoder_`` makes of a table, where that is known already."""
        model = copy.copy(self)
        if self.encoder_ is not None:
            model.encoder_, model.n_features_in_ = None, self.encoder_.blocks_[-1].stop
            del model.feature_names_in_
        return model

    def _saved_params(self) -> dict[str, Any]:
        params = super()._saved_params()
        if not isinstance(params["base"], str):
            params["base"] = "blend"  # its fitted state is saved, or says that it cannot be
        if callable(params["graph"]):
            raise InvalidInputError("a model whose graph is a function cannot be saved; pass its result as adjacency")
        return params

    def _state(self) -> dict[str, Any]:
        fitted = self._fitted()
        fitted["models_"] = [{k: v.numpy() for k, v in m.convection.state_dict().items()} for m in self.models_]
        fitted["_domain"] = self._domain.to_dict()
        fitted["record_"] = vars(self.record_)
        fitted["encoder_"] = None if self.encoder_ is None else self.encoder_.to_state()
        fitted["base_"] = None if self.base_ is None else self.base_.to_dict()
        fitted["choice_"] = self.choice_.to_dict()
        fitted["readout_"] = None if self.readout_ is None else vars(self.readout_)
        return fitted

    def _restore(self, state: dict[str, Any]) -> None:
        self._domain = Domain.from_dict(state.pop("_domain"))
        self._domain.graph.require_symmetric("a saved model")
        self.record_ = FitRecord(**state.pop("record_"))
        diffusion = Diffusion(state["layers_"], state["strength_"], solver=self.solver, strict=self.strict)
        encoder = state.pop("encoder_")
        self.encoder_ = None if encoder is None else TableEncoder.from_state(encoder)
        width = self._domain.points.shape[1]
        if self.encoder_ is not None and self.encoder_.blocks_[-1].stop != width:
            raise Mismatch(f"encoder_ gives {self.encoder_.blocks_[-1].stop} columns for {width}")
        base, read = state.pop("base_"), state.pop("readout_")
        self.choice_ = Choice.from_dict(state.pop("choice_"))
        self.base_ = None if base is None else Base.from_dict(base)
        self.readout_ = None if read is None else (ReadOut if self._head == "softmax" else Affine)(**read)
        self.models_ = []
        for arrays in state.pop("models_"):
            (n_outputs, width), n_inputs = arrays["readout.weight"].shape, arrays["blocks.0.weight"].shape[1]
            model = COIN(Residual(n_inputs, n_outputs, width=width).double(), diffusion, head=self._head).eval()
            model.convection.load_state_dict({name: torch.as_tensor(value) for name, value in arrays.items()})
            self.models_.append(model)
        self.__dict__.update(state)


def load(folder: str | Path) -> Any:
    """Load a fitted model from its folder; a damaged, edited or foreign one raises :class:`InvalidFileError`.

    Everything in it is checked before it is used: kinds, shapes and bounds of all values, and that they agree.
    """
    content = load_state(Path(folder))
    kinds = {kind.__name__: kind for kind in _all_kinds(Saveable)}
    kind = kinds.get(content["kind"])
    if kind is None:
        raise InvalidFileError(f"{folder} holds a {content['kind']!r}, which this version of condiff does not know")
    with refusing(folder, "a model that this version of condiff can load", "save it again"):
        check_state(content["kind"], content["state"])
        model = kind(**content["params"])
        model._validate_params()
        model._restore(dict(content["state"]))
    model.metadata_ = content["metadata"]
    return model


def _all_kinds(kind: type[Saveable]) -> list[type[Saveable]]:
    below = kind.__subclasses__()
    return below + [lower for each in below for lower in _all_kinds(each)]
