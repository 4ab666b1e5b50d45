"""One measured run, as every protocol hands it over and the store keeps it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from condiff.errors import InvalidInputError


@dataclass(frozen=True)
class Run:
    """What one method reached on one split from one initialisation, and what that took.

    Parameters
    ----------
    task, dataset, method
        The names under which runs are put together; those of the paper where it has them.
    settings
        The method's settings as plain values. Runs with other settings are never averaged with these.
    split, init
        The seeds. Runs of one split share their data, so they are not independent.
    metrics
        What was measured, by name; an accuracy is in percent.
    epochs
        Epochs that were run; 0 where a method has none.
    seconds
        The time that training took.
    memory_mb
        The peak of memory above what was in use before the run.
    """

    task: str
    dataset: str
    method: str
    settings: dict[str, Any]
    split: int
    init: int
    metrics: dict[str, float]
    epochs: int
    seconds: float
    memory_mb: float

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Run:
        """The run that :meth:`to_dict` wrote."""
        names = {field.name for field in dataclasses.fields(cls)}
        if wrong := sorted(names ^ set(values)):
            raise InvalidInputError(f"a run has the fields {', '.join(sorted(names))}; missing or unknown: {wrong}")
        return cls(**values)
