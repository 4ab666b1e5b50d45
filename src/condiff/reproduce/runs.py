"""One measured run, the condition it was made under, and the key that identifies it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Value: TypeAlias = str | int | float | bool | None


class Condition(Mapping[str, Value]):
    """What distinguishes runs of one data set: a frozen mapping of names to plain values, in the order of the names.

    Examples
    --------
    >>> Condition(missing=0.9, causal=False)
    Condition(causal=False, missing=0.9)
    """

    __slots__ = ("_items",)

    def __init__(self, values: Mapping[str, Value] | None = None, /, **more: Value) -> None:
        self._items = tuple(sorted({**(values or {}), **more}.items()))

    def __getitem__(self, name: str) -> Value:
        return dict(self._items)[name]

    def number(self, name: str) -> float:
        """A value that is a number."""
        value = self[name]
        if not isinstance(value, int | float):
            raise TypeError(f"{name} is {value!r}, not a number")
        return value

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        return hash(self._items)

    def __repr__(self) -> str:
        return f"Condition({', '.join(f'{name}={value!r}' for name, value in self._items)})"


#: For runs that only their names distinguish.
NO_CONDITION = Condition()


@dataclass(frozen=True)
class Run:
    """What one method achieved on one split from one initialisation, and what it cost.

    Parameters
    ----------
    task, dataset, method
        The names by which runs are grouped; those of the paper where it has them.
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
    condition
        What else distinguishes it: runs under other conditions are never averaged with this one.
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
    condition: Condition = field(default=NO_CONDITION)


@dataclass(frozen=True)
class Key:
    """What identifies a run: any difference makes it another run.

    Parameters
    ----------
    task, dataset, method, settings, split, init, condition
        As in :class:`Run`.
    identity
        Fingerprints of what the names stand for: the data's content and, after a slash, the split's. A graph that was
        edited under its old name, or another kind of split with the same seed, is another run.
    """

    task: str
    dataset: str
    method: str
    settings: dict[str, Any]
    split: int
    init: int
    identity: str = ""
    condition: Condition = field(default=NO_CONDITION)

    @property
    def digest(self) -> str:
        """A SHA-256 over all parts in one canonical form."""
        names = [self.task, self.dataset, dict(self.condition), self.method, self.settings]
        return hashlib.sha256(canonical([*names, self.split, self.init, self.identity]).encode()).hexdigest()

    @property
    def data(self) -> str:
        """The fingerprint of the data alone."""
        return self.identity.partition("/")[0]

    def run(self, metrics: dict[str, float], *, epochs: int, seconds: float, memory_mb: float) -> Run:
        """A run with this key and these measurements."""
        known = self.task, self.dataset, self.method, self.settings, self.split, self.init
        return Run(*known, metrics, epochs, seconds, memory_mb, self.condition)


def canonical(value: Any) -> str:
    """Plain values as JSON text; equal values give equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
