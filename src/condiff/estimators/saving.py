"""Fitted estimators in folders, and back."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from condiff.errors import InvalidFileError, InvalidInputError
from condiff.estimators.checks import Mismatch
from condiff.estimators.folders import decode, encode, load_state, save_state
from condiff.estimators.state import check_state
from condiff.files import refusing

# Where the kinds of models are.
_HOMES = {
    "COINClassifier": "classifier",
    "COINMultiLabelClassifier": "multilabel",
    "COINRegressor": "regressor",
    "PanelForecaster": "forecasting",
}


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
            check_state(kind, decode(encode(state, "state", arrays), arrays))
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


def load(folder: str | Path) -> Any:
    """Load a fitted model from its folder; a damaged, edited or foreign one raises :class:`InvalidFileError`.

    Everything in it is checked before it is used: kinds, shapes and bounds of all values, and that they agree.
    """
    content = load_state(Path(folder))
    home = _HOMES.get(content["kind"])
    if home is None:
        raise InvalidFileError(f"{folder} holds a {content['kind']!r}, which this version of condiff does not know")
    kind = getattr(import_module(f"condiff.estimators.{home}"), content["kind"])
    with refusing(folder, "a model that this version of condiff can load", "save it again"):
        check_state(content["kind"], content["state"])
        model = kind(**content["params"])
        model._validate_params()
        model._restore(dict(content["state"]))
    model.metadata_ = content["metadata"]
    return model
