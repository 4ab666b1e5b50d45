"""Fitted estimators as folders: arrays in safetensors, everything else in JSON, checksums over both; never a pickle."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from condiff.bases import Residual
from condiff.bases.classical import Base
from condiff.diffusion import Diffusion
from condiff.diffusion.readout import ReadOut
from condiff.encoders import TableEncoder
from condiff.errors import InvalidFileError, InvalidInputError
from condiff.estimators.blended import Affine, Choice
from condiff.estimators.domain import Domain
from condiff.files import atomic_folder, read_sealed, sha256, write_sealed
from condiff.model import COIN, Head
from condiff.uncertainty import FitRecord

FORMAT = "condiff-model"
SCHEMA = 1
_ARRAYS = "arrays.safetensors"
_DESCRIPTION = "model.json"


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
    except (TypeError, ValueError) as error:
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
    content = read_sealed(folder / _DESCRIPTION, FORMAT, SCHEMA, what="model", mend="save the model again")
    path = folder / _ARRAYS
    if not path.is_file() or sha256(path) != content["files"].get(_ARRAYS):
        raise InvalidFileError(f"{path} is missing, truncated or changed; save the model again")
    try:
        arrays = load_file(path)
    except SafetensorError as error:
        raise InvalidFileError(f"{path} cannot be read ({error}); save the model again") from error
    return {
        "kind": content["kind"],
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
            return float(value["$float"])
        if "$dict" in value:
            return {key: _decode(item, arrays) for key, item in value["$dict"].items()}
        if "$pairs" in value:
            return dict(_decode(value["$pairs"], arrays))
        if "$csr" in value:
            parts = tuple(arrays[f"{value['$csr']}.{part}"] for part in ("data", "indices", "indptr"))
            return sp.csr_array(parts, shape=tuple(value["shape"]))
        if "$array" in value:
            return arrays[value["$array"]].reshape(value["shape"])
        return np.array(_decode(value["$objects"], arrays), dtype=object if value["kind"] == "O" else None)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise InvalidFileError(f"the model lacks or garbles a part of its state ({error}); save it again") from error


class Saveable(BaseEstimator):  # type: ignore[misc]
    """Gives an estimator :meth:`save`; :func:`condiff.load` reads the folder back."""

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

    def save(self, folder: str | Path, metadata: Any = None) -> Path:
        """Write the fitted model to a folder: safetensors and JSON with checksums, no pickle; see :func:`condiff.load`.

        The folder holds the training points, because answers for new points need their neighbours among them.
        ``metadata`` may be any JSON value; the loaded model has it as ``metadata_``.
        """
        check_is_fitted(self)
        params = self.get_params(deep=False)
        if not isinstance(params["base"], str):
            params["base"] = "blend"  # its fitted state is saved, or says that it cannot be
        if callable(params["graph"]):
            raise InvalidInputError("a model whose graph is a function cannot be saved; pass its result as adjacency")
        if not isinstance(params["random_state"], int | np.integer | None):
            params["random_state"] = None  # a generator has moved on since; the fit is not repeated on loading
        return save_state(Path(folder), type(self).__name__, params, self._state(), metadata)

    def on_numbers(self) -> Self:
        """The same model for what ``encoder_`` makes of a table, where that is known already."""
        model = copy.copy(self)
        if self.encoder_ is not None:
            model.encoder_, model.n_features_in_ = None, self.encoder_.blocks_[-1].stop
            del model.feature_names_in_
        return model

    def _state(self) -> dict[str, Any]:
        """Everything that the fit has set, as arrays and plain values."""
        fitted = {name: value for name, value in vars(self).items() if name not in self.get_params(deep=False)}
        fitted.pop("metadata_", None)
        fitted["models_"] = [{k: v.numpy() for k, v in m.convection.state_dict().items()} for m in self.models_]
        fitted["_domain"] = self._domain.to_dict()
        fitted["record_"] = vars(self.record_)
        fitted["encoder_"] = None if self.encoder_ is None else self.encoder_.to_state()
        fitted["base_"] = None if self.base_ is None else self.base_.to_dict()
        fitted["choice_"] = self.choice_.to_dict()
        fitted["readout_"] = None if self.readout_ is None else vars(self.readout_)
        return fitted

    def _restore(self, state: dict[str, Any]) -> None:
        state = dict(state)
        self._domain = Domain.from_dict(state.pop("_domain"))
        self.record_ = FitRecord(**state.pop("record_"))
        diffusion = Diffusion(state["layers_"], state["strength_"], solver=self.solver, strict=self.strict)
        encoder = state.pop("encoder_")
        self.encoder_ = None if encoder is None else TableEncoder.from_state(encoder)
        base, read = state.pop("base_"), state.pop("readout_")
        self.choice_ = Choice.from_dict(state.pop("choice_"))
        self.base_ = None if base is None else Base.from_dict(base)
        self.readout_ = None if read is None else (ReadOut if self._head == "softmax" else Affine)(**read)
        self.models_ = []
        self.__dict__.update({name: value for name, value in state.items() if name != "models_"})
        if self.base_ is not None:
            return
        parameters = state["models_"]
        n_outputs, width = parameters[0]["readout.weight"].shape
        n_inputs = parameters[0]["blocks.0.weight"].shape[1]
        for arrays in parameters:
            model = COIN(Residual(n_inputs, n_outputs, width=width).double(), diffusion, head=self._head).eval()
            model.convection.load_state_dict({name: torch.as_tensor(value) for name, value in arrays.items()})
            self.models_.append(model)


def load(folder: str | Path) -> Any:
    """Load a fitted model from its folder; a damaged, edited or foreign one raises :class:`InvalidFileError`."""
    content = load_state(Path(folder))
    kinds = {kind.__name__: kind for kind in _all_kinds(Saveable)}
    if content["kind"] not in kinds:
        raise InvalidFileError(f"{folder} holds a {content['kind']!r}, which this version of condiff does not know")
    try:
        model = kinds[content["kind"]](**content["params"])
        model._restore(content["state"])
    except (AttributeError, LookupError, TypeError, ValueError, RuntimeError) as error:
        raise InvalidFileError(f"{folder} does not fit this version of condiff ({error}); save it again") from error
    model.metadata_ = content["metadata"]
    return model


def _all_kinds(kind: type[Saveable]) -> list[type[Saveable]]:
    below = kind.__subclasses__()
    return below + [lower for each in below for lower in _all_kinds(each)]
