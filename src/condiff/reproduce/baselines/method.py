"""The base class of every method, whatever its task: a frozen dataclass of its settings."""

from __future__ import annotations

import dataclasses
import time
import warnings
from abc import ABC
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from condiff.errors import InvalidInputError
from condiff.reproduce.runs import NO_CONDITION, Condition

if TYPE_CHECKING:
    from typing import Self


@dataclass(frozen=True)
class Method(ABC):  # noqa: B024  # what a method solves depends on its task
    """A method: its fields are its settings, all plain values, and make the key under which a run is stored."""

    @classmethod
    def recommended(cls, dataset: str, condition: Condition = NO_CONDITION) -> Self:
        """The settings that its authors recommend for a data set under a condition; the defaults if they give none."""
        return cls()

    def settings(self) -> dict[str, Any]:
        """The settings as plain values."""
        return dataclasses.asdict(self)


@dataclass(frozen=True, eq=False)
class Answers:
    """What a method answers for every row or point, and the processor's time that it took."""

    answers: NDArray[Any]
    seconds: float
    epochs: int = 0


def timed(answer: Callable[[], NDArray[Any]]) -> Answers:
    """Let a method answer on one thread, where the processor's time is the time that passes on an idle machine.

    Warnings of methods that few labels make uneasy are left out: their answers are judged.
    """
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        started = time.process_time()
        found = np.asarray(answer())
        return Answers(found, time.process_time() - started)


@dataclass(frozen=True)
class HiddenLayer(Method):
    """Settings of a network with one hidden width and one probability of dropout.

    Parameters
    ----------
    hidden
        Width of the hidden layer, or of a state.
    dropout
        Probability with which the inputs of a layer are dropped in training.
    """

    hidden: int = 16
    dropout: float = 0.5

    def __post_init__(self) -> None:
        check_counts(hidden=self.hidden)
        check_probabilities(dropout=self.dropout)


def check_counts(**settings: int) -> None:
    """Refuse settings that are not whole numbers of at least 1."""
    for name, value in settings.items():
        if not isinstance(value, int) or value < 1:
            raise InvalidInputError(f"{name} must be a whole number of at least 1, not {value!r}")


def check_probabilities(**settings: float) -> None:
    """Refuse probabilities of dropping something that are not at least 0 and below 1."""
    for name, value in settings.items():
        if not 0 <= value < 1:
            raise InvalidInputError(f"{name} must be at least 0 and below 1, not {value!r}")
