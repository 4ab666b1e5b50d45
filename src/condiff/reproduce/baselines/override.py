"""Change single settings of a method by name, as a user types them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, TypeVar

from condiff.errors import InvalidInputError, did_you_mean

Settings = TypeVar("Settings")


def override(settings: Settings, changes: Mapping[str, str]) -> Settings:
    """A copy of a settings dataclass with some fields changed, all at once: one may be allowed beside another only.

    Parameters
    ----------
    settings
        A method, or anything else that is a frozen dataclass of plain values.
    changes
        By field, or ``training.weight_decay`` for a field of a field: the value as JSON; anything that is not JSON is
        taken as text.
    """
    assert dataclasses.is_dataclass(settings) and not isinstance(settings, type)
    kind, fields = type(settings).__name__, [field.name for field in dataclasses.fields(settings)]
    values: dict[str, Any] = {}
    inner: dict[str, dict[str, str]] = {}
    for name, text in changes.items():
        first, _, rest = name.partition(".")
        if first not in fields:
            raise InvalidInputError(
                f"{kind} has no setting {first!r}{did_you_mean(first, fields)}; it has {', '.join(fields)}"
            )
        old = getattr(settings, first)
        is_plain = not dataclasses.is_dataclass(old)
        if rest and is_plain:
            raise InvalidInputError(f"{kind}.{first} is a plain value and has no {rest!r}")
        if rest:
            inner.setdefault(first, {})[rest] = text
        elif is_plain:
            values[first] = _like(old, _value(text), f"{kind}.{name}")
        else:
            names = ", ".join(f"{first}.{field.name}" for field in dataclasses.fields(old))
            raise InvalidInputError(f"{kind}.{first} has settings of its own: {names}")
    values.update({first: override(getattr(settings, first), own) for first, own in inner.items()})
    return dataclasses.replace(settings, **values)


def with_settings(method: Settings, settings: Mapping[str, Any]) -> Settings:
    """A copy of a settings dataclass with all of its fields as they are in these plain values."""
    assert dataclasses.is_dataclass(method) and not isinstance(method, type)
    fields = {field.name for field in dataclasses.fields(method)}
    if fields != set(settings):
        raise InvalidInputError(f"{type(method).__name__} has no longer the settings {', '.join(sorted(settings))}")

    def value(name: str, new: Any) -> Any:
        old = getattr(method, name)
        if dataclasses.is_dataclass(old) and not isinstance(old, type) and isinstance(new, dict):
            return with_settings(old, new)
        return tuple(new) if isinstance(new, list) else new

    return dataclasses.replace(method, **{name: value(name, new) for name, new in settings.items()})


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def _like(old: Any, new: Any, name: str) -> Any:
    """The new value, if it is of the old one's kind."""
    if isinstance(new, list):
        new = tuple(new)
    if old is None or new is None or type(old) is type(new):
        return new
    if isinstance(old, float) and isinstance(new, int) and not isinstance(new, bool):
        return float(new)
    raise InvalidInputError(f"{name} is {old!r}, so it cannot become {new!r}: give a value of the same kind")
