"""Every compiled loop, and the vector type that they share."""

from __future__ import annotations

from functools import cache


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
