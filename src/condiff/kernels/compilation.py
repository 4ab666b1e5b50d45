"""The one decorator of compiled functions, what it keeps on disk, and how they are compiled ahead of time."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib import resources
from types import ModuleType
from typing import Any

from numba import njit
from numba.core.caching import FunctionCache

_ARRAY = re.compile(r"\[(\d)\]")


def compiled(types: str = "") -> Callable[[Callable[..., Any]], Any]:
    """Compile a function, without the interpreter's lock, so that threads run it on all cores.

    What was compiled is kept on disk, where a folder for it can be written, and never used after any file of this
    package has changed: numba inlines what a function calls but looks at the function's own file alone.

    Parameters
    ----------
    types
        For functions that are called from Python, the types of their arguments, for which
        :func:`condiff.kernels.warm_up` compiles: numba's names, ``number`` for the precision, and ``int64[2]`` for a
        contiguous array of two axes.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        dispatcher = njit(nogil=True, boundscheck=False, error_model="numpy")(function)
        with suppress(RuntimeError):  # no folder that can be written: every process compiles for itself
            dispatcher._cache = _Cache(function)
        dispatcher.argument_types = types
        return dispatcher

    return decorate


def entries(module: ModuleType) -> list[Any]:
    """The compiled functions of a module that are called from Python."""
    return [value for value in vars(module).values() if getattr(value, "argument_types", "")]


def compile_entries(module: ModuleType, precision: str) -> None:
    """Compile these functions, or load them from disk."""
    for dispatcher in entries(module):
        types = dispatcher.argument_types.replace("number", precision)
        signature = _ARRAY.sub(lambda axes: f"[{':,' * (int(axes[1]) - 1)}::1]", types)
        dispatcher.compile(f"({signature},)")


class _Cache(FunctionCache):
    """numba's files, which are ignored when they are stale, damaged, missing or not writable."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._cache_file._source_stamp = self._cache_file._source_stamp, _hash_of_sources()

    def load_overload(self, *arguments: Any) -> Any:
        try:
            return super().load_overload(*arguments)
        except Exception:  # unpickling damaged files may raise anything
            with suppress(OSError):
                self.flush()
            return None

    def save_overload(self, *arguments: Any) -> None:
        with suppress(Exception):  # no room, or nothing that can be pickled: it is compiled again next time
            super().save_overload(*arguments)


@cache
def _hash_of_sources() -> str:
    digest = hashlib.sha256()
    for file in sorted(resources.files(__package__).iterdir(), key=lambda file: file.name):
        if file.name.endswith(".py"):
            digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()
