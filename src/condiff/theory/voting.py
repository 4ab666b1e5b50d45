"""Who votes in a smoothed classifier: any estimator or torch callable, asked in one way."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from condiff.errors import InvalidInputError

Codes = NDArray[np.int64]


class Voter:
    """A base classifier that answers rows with positions in ``classes``.

    Parameters
    ----------
    f
        A fitted estimator with ``predict``, or a torch callable from a batch to class scores (m, classes) or to
        classes (m,). A module is asked in evaluation mode, in its own precision and on its own device.
    n_classes
        Needed where neither ``f.classes_`` nor a table of scores tells it.
    """

    def __init__(self, f: Any, n_classes: int | None = None) -> None:
        if n_classes is not None and (
            isinstance(n_classes, bool) or not isinstance(n_classes, int | np.integer) or n_classes < 2
        ):
            raise InvalidInputError(f"n_classes must be a whole number, 2 or more, not {n_classes!r}")
        self.is_estimator = callable(getattr(f, "predict", None))
        if not self.is_estimator and not callable(f):
            raise InvalidInputError(f"f must have a predict method or be callable, but is a {type(f).__name__}")
        self.f = f
        known = getattr(f, "classes_", None) if self.is_estimator else None
        self.classes: NDArray[Any] | None = None
        if known is not None:
            self.classes = np.asarray(known)
            if self.classes.ndim != 1 or (n_classes is not None and len(self.classes) != n_classes):
                raise InvalidInputError(f"n_classes is {n_classes} but f.classes_ has the shape {self.classes.shape}")
        elif n_classes is not None:
            self.classes = np.arange(n_classes)

    def __call__(self, rows: NDArray[np.float64]) -> Codes:
        """The position in ``classes`` of the answer to each row."""
        answers = np.asarray(self.f.predict(rows)) if self.is_estimator else _ask_torch(self.f, rows)
        if answers.ndim == 2 and answers.shape[0] == len(rows) and not self.is_estimator:
            return self._from_scores(answers)
        if answers.shape != (len(rows),):
            raise InvalidInputError(
                f"f answered {len(rows)} rows with the shape {answers.shape}; expected a class a row"
                + ("" if self.is_estimator else ", or scores of shape (rows, classes)")
            )
        return self._from_labels(answers)

    def _from_scores(self, scores: NDArray[Any]) -> Codes:
        if self.classes is None:
            self.classes = np.arange(scores.shape[1])
        if scores.shape[1] != len(self.classes) or scores.shape[1] < 2:
            raise InvalidInputError(
                f"f gives {scores.shape[1]} scores a row; expected one for each of {max(2, len(self.classes))} classes"
            )
        if np.isnan(scores).any():
            raise InvalidInputError("f gives scores that are NaN")
        return np.asarray(scores.argmax(axis=1))

    def _from_labels(self, labels: NDArray[Any]) -> Codes:
        if self.classes is None:
            raise InvalidInputError("f answers with classes but does not say how many there are: give n_classes")
        order = np.argsort(self.classes, kind="stable")
        try:
            place = np.searchsorted(self.classes, labels, sorter=order).clip(max=len(order) - 1)
        except TypeError as error:
            raise InvalidInputError(f"f answers with labels that are none of its classes {self.classes}") from error
        codes = order[place]
        foreign = self.classes[codes] != labels
        if foreign.any():
            answer = labels[foreign].tolist()[0]
            raise InvalidInputError(f"f answers {answer!r}, which is none of its classes {self.classes}")
        return np.asarray(codes)


def _ask_torch(f: Callable[[torch.Tensor], Any], rows: NDArray[np.float64]) -> NDArray[Any]:
    dtype, device = torch.get_default_dtype(), torch.device("cpu")
    if isinstance(f, torch.nn.Module):
        for parameter in f.parameters():
            dtype, device = parameter.dtype, parameter.device
            break
    with torch.no_grad(), evaluating(f):
        answers = f(torch.as_tensor(rows, dtype=dtype, device=device))
    return answers.cpu().numpy() if isinstance(answers, torch.Tensor) else np.asarray(answers)


@contextlib.contextmanager
def evaluating(f: Any) -> Iterator[None]:
    """A module, whole, in evaluation mode for a while."""
    # Dropout or batch statistics would make a vote depend on more than its own row.
    modules = [module for module in f.modules() if module.training] if isinstance(f, torch.nn.Module) else []
    try:
        for module in modules:
            module.training = False
        yield
    finally:
        for module in modules:
            module.training = True
