"""Kinds of values that the state of a saved model is made of.

A check takes a value, its name for messages, and the sizes known so far: a size has a name, and the first part that has
it sets it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from condiff.graph.valid import valid_csr

Sizes: TypeAlias = dict[str, int]
Check: TypeAlias = Callable[[Any, str, Sizes], None]
Bound: TypeAlias = int | float | str | None


class Mismatch(ValueError):
    """A part that is not as it must be: its name, and what is wrong with it."""


def whole(low: Bound = None, high: Bound = None) -> Check:
    """A whole number within bounds; a bound may be the name of a size."""

    def check(value: Any, name: str, sizes: Sizes) -> None:
        if isinstance(value, bool) or not isinstance(value, int):
            raise Mismatch(f"{name} is {shown(value)}, not a whole number")
        _within(value, name, low, high, sizes)

    return check


def number(low: Bound = None, high: Bound = None, *, finite: bool = True) -> Check:
    """A number within bounds."""

    def check(value: Any, name: str, sizes: Sizes) -> None:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise Mismatch(f"{name} is {shown(value)}, not a number")
        if finite and not math.isfinite(value):
            raise Mismatch(f"{name} is {value}, not finite")
        _within(value, name, low, high, sizes)

    return check


def flag(value: Any, name: str, sizes: Sizes) -> None:
    """True or false."""
    if not isinstance(value, bool):
        raise Mismatch(f"{name} is {shown(value)}, neither true nor false")


def text(value: Any, name: str, sizes: Sizes) -> None:
    """Text that can be written down: JSON can hold halves of characters."""
    if not isinstance(value, str):
        raise Mismatch(f"{name} is {shown(value)}, not text")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise Mismatch(f"{name} holds half a character") from error


def one_of(*values: str) -> Check:
    """One of some words."""

    def check(value: Any, name: str, sizes: Sizes) -> None:
        if not isinstance(value, str) or value not in values:
            raise Mismatch(f"{name} is {shown(value)}, not one of {', '.join(values)}")

    return check


def maybe(inner: Check) -> Check:
    """None, or what another check accepts."""

    def check(value: Any, name: str, sizes: Sizes) -> None:
        if value is not None:
            inner(value, name, sizes)

    return check


def anything(value: Any, name: str, sizes: Sizes) -> None:
    """What is checked elsewhere."""


def nothing(value: Any, name: str, sizes: Sizes) -> None:
    """None."""
    if value is not None:
        raise Mismatch(f"{name} is {shown(value)}, not null")


def each(inner: Check, most: int, least: int = 0) -> Check:
    """A list."""

    def check(value: Any, name: str, sizes: Sizes) -> None:
        if not isinstance(value, list) or not least <= len(value) <= most:
            raise Mismatch(f"{name} is {shown(value)}, not a list of {least} to {most}")
        for place, item in enumerate(value):
            inner(item, f"{name}.{place}", sizes)

    return check


def record(parts: Mapping[str, Check], optional: Mapping[str, Check] | None = None) -> Check:
    """Named parts, checked in the order given; no others."""

    def check(value: Any, name: str, sizes: Sizes) -> None:
        if not isinstance(value, dict):
            raise Mismatch(f"{name or 'the state'} is {shown(value)}, not named parts")
        known = {**parts, **(optional or {})}
        for part in parts:
            if part not in value:
                raise Mismatch(f"{below(name, part)} is missing")
        for part in value:
            if part not in known:
                raise Mismatch(f"{below(name, str(part))} is not known")
        for part, inner in known.items():
            if part in value:
                inner(value[part], below(name, part), sizes)

    return check


def array(kinds: str, *shape: str | int, low: Bound = None, high: Bound = None, finite: bool = True) -> Check:
    """An array of some types (``f8 i4 b1``, as NumPy has them), a shape of named sizes, and values within bounds."""

    def check(value: Any, name: str, sizes: Sizes) -> None:
        if not isinstance(value, np.ndarray) or value.dtype.str[1:] not in kinds.split():
            raise Mismatch(f"{name} is {shown(value)}, not an array of {kinds}")
        _shape(value.shape, name, shape, sizes)
        _values(value, name, low, high, sizes, finite)

    return check


def matrix(*shape: str | int, low: Bound = None) -> Check:
    """A CSR matrix whose indices are within it."""

    def check(value: Any, name: str, sizes: Sizes) -> None:
        if not sp.issparse(value) or value.format != "csr" or value.dtype.str[1:] not in ("f4", "f8"):
            raise Mismatch(f"{name} is {shown(value)}, not a sparse matrix of numbers")
        try:
            valid_csr(value)
        except ValueError as error:
            raise Mismatch(f"{name}: {error}") from error
        _shape(value.shape, name, shape, sizes)
        _values(value.data, name, low, None, sizes, True)

    return check


def names(length: str) -> Check:
    """An array of texts."""

    def check(value: Any, name: str, sizes: Sizes) -> None:
        if not isinstance(value, np.ndarray) or value.dtype.kind not in "OU":
            raise Mismatch(f"{name} is {shown(value)}, not an array of texts")
        _shape(value.shape, name, (length,), sizes)
        for item in value.tolist():
            text(item, name, sizes)

    return check


def _shape(found: tuple[int, ...], name: str, wanted: tuple[str | int, ...], sizes: Sizes) -> None:
    if len(found) != len(wanted):
        raise Mismatch(f"{name} has the shape {found}, not {len(wanted)} dimensions")
    for length, size in zip(found, wanted, strict=True):
        known = size if isinstance(size, int) else sizes.setdefault(size, length)
        if length != known:
            raise Mismatch(f"{name} has the shape {found}, but there are {known} {size}")


def _values(values: Any, name: str, low: Bound, high: Bound, sizes: Sizes, finite: bool) -> None:
    if finite and values.dtype.kind == "f" and not np.isfinite(values).all():
        raise Mismatch(f"{name} has values that are not finite")
    if values.size and values.dtype.kind != "b":
        _within(values.min().item(), name, low, high, sizes)
        _within(values.max().item(), name, low, high, sizes)


def _within(value: Any, name: str, low: Bound, high: Bound, sizes: Sizes) -> None:
    """Within bounds; one that is the name of a size is an index's, and so excluded."""
    at_most = sizes[high] - 1 if isinstance(high, str) else high
    at_least = sizes[low] if isinstance(low, str) else low
    if (at_least is not None and value < at_least) or (at_most is not None and value > at_most):
        raise Mismatch(f"{name} is {shown(value)}, outside of {at_least} to {at_most}")


def below(name: str, part: str) -> str:
    """The name of a part of something that has a name."""
    return f"{name}.{part}" if name else part


def shown(value: Any) -> str:
    """A value in a message, in a few words."""
    if isinstance(value, np.ndarray) or sp.issparse(value):
        return f"{value.dtype} of shape {value.shape}"
    words = repr(value) if isinstance(value, str | float | None) or value in (True, False) else ""
    if isinstance(value, int) and not words:
        words = str(value) if abs(value) < 10**20 else "a very large number"
    return words[:60] or f"a {type(value).__name__}"
