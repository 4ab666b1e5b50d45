"""What an estimator needs to be written to a folder and to come back."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from condiff.bases import Residual
from condiff.diffusion import Diffusion
from condiff.errors import InvalidInputError
from condiff.estimators import persistence
from condiff.estimators.domain import Domain
from condiff.model import COIN, Head


class Saveable(BaseEstimator):  # type: ignore[misc]
    """Gives an estimator :meth:`save`; :func:`condiff.load` reads the folder back."""

    _head: ClassVar[Head]
    _domain: Domain
    models_: list[COIN]
    solver: str
    strict: bool

    def save(self, folder: str | Path, metadata: Any = None) -> Path:
        """Write the fitted model to a folder: safetensors and JSON with checksums, no pickle; see :func:`condiff.load`.

        The folder holds the training points, because answers for new points need their neighbours among them.
        ``metadata`` may be any JSON value; the loaded model has it as ``metadata_``.
        """
        check_is_fitted(self)
        params = self.get_params(deep=False)
        if callable(params["graph"]):
            raise InvalidInputError("a model whose graph is a function cannot be saved; pass its result as adjacency")
        if not isinstance(params["random_state"], int | np.integer | None):
            params["random_state"] = None  # a generator has moved on since; the fit is not repeated on loading
        return persistence.save_state(Path(folder), type(self).__name__, params, self._state(), metadata)

    def _state(self) -> dict[str, Any]:
        """Everything that the fit has set, in terms of arrays and plain values."""
        fitted = {name: value for name, value in vars(self).items() if name not in self.get_params(deep=False)}
        fitted.pop("metadata_", None)
        fitted["models_"] = [{k: v.numpy() for k, v in m.convection.state_dict().items()} for m in self.models_]
        fitted["_domain"] = self._domain.to_dict()
        return fitted

    def _restore(self, state: dict[str, Any]) -> None:
        state = dict(state)
        self._domain = Domain.from_dict(state.pop("_domain"))
        diffusion = Diffusion(state["layers_"], state["strength_"], solver=self.solver, strict=self.strict)
        parameters = state.pop("models_")
        n_outputs, width = parameters[0]["readout.weight"].shape
        n_inputs = parameters[0]["blocks.0.weight"].shape[1]
        self.models_ = []
        for arrays in parameters:
            model = COIN(Residual(n_inputs, n_outputs, width=width).double(), diffusion, head=self._head).eval()
            model.convection.load_state_dict({name: torch.as_tensor(value) for name, value in arrays.items()})
            self.models_.append(model)
        self.__dict__.update(state)
