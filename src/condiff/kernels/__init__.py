"""Every compiled loop, and the vector type that they share."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from functools import cache
from importlib import import_module
from typing import Literal

#: The modules that have loops which are called from Python.
LOOPS = (
    "bases",
    "blocks",
    "conjugate",
    "diff_resnet",
    "diffusion",
    "draw",
    "dropout",
    "gram",
    "plaplace",
    "product",
    "tim",
    "trees",
)


@cache
def available() -> bool:
    """Whether compiled loops can run: numba (the extra ``fast``) is installed and its import succeeds.

    An installation may be broken, as by a numpy newer than its numba allows; torch then does the work.
    """
    try:
        import numba  # noqa: F401
    except (ImportError, OSError):
        return False
    return True


def loaded() -> bool:
    """Whether numba has been imported already, which takes half a second: work that is short may do without it."""
    return "numba" in sys.modules


def warm_up(loops: Iterable[str] = LOOPS, precision: Literal["float32", "float64"] = "float32") -> None:
    """Compile loops, or load them from disk, before a clock starts; does nothing where they cannot run.

    Parameters
    ----------
    loops
        Names from :data:`LOOPS`.
    precision
        Of the numbers they will work on.
    """
    if available():
        for name in loops:
            _warm_up(name, precision)


@cache
def _warm_up(name: str, precision: str) -> None:
    from condiff.kernels.compilation import compile_entries

    compile_entries(import_module(f"{__name__}.{name}"), precision)
