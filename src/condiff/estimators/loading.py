"""Reading back what an estimator's ``save`` wrote."""

from __future__ import annotations

from pathlib import Path

from condiff.errors import InvalidFileError
from condiff.estimators.classifier import COINClassifier
from condiff.estimators.persistence import load_state
from condiff.estimators.regressor import COINRegressor

_KINDS: dict[str, type[COINClassifier] | type[COINRegressor]] = {
    "COINClassifier": COINClassifier,
    "COINRegressor": COINRegressor,
}


def load(folder: str | Path) -> COINClassifier | COINRegressor:
    """Load a fitted model from its folder; a damaged, edited or foreign one raises :class:`InvalidFileError`."""
    content = load_state(Path(folder))
    if content["kind"] not in _KINDS:
        raise InvalidFileError(f"{folder} holds a {content['kind']!r}, which this version of condiff does not know")
    try:
        model = _KINDS[content["kind"]](**content["params"])
        model._restore(content["state"])
    except (AttributeError, LookupError, TypeError, ValueError, RuntimeError) as error:
        raise InvalidFileError(f"{folder} does not fit this version of condiff ({error}); save it again") from error
    model.metadata_ = content["metadata"]
    return model
