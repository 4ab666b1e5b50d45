"""The time of one step inside a longer piece of work, measured without a change to either."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def watched(owner: Any, name: str, seconds: dict[str, float], step: str) -> Iterator[None]:
    """While the block runs, add the time of every call of ``owner.name`` to ``seconds[step]``."""
    work: Callable[..., Any] = getattr(owner, name)
    seconds.setdefault(step, 0.0)

    def timed(*arguments: Any, **options: Any) -> Any:
        started = time.perf_counter()
        try:
            return work(*arguments, **options)
        finally:
            seconds[step] += time.perf_counter() - started

    setattr(owner, name, timed)
    try:
        yield
    finally:
        setattr(owner, name, work)
