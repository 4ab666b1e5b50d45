"""The peak memory of a piece of work."""

from __future__ import annotations

import ctypes
import gc
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_STATUS, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


@dataclass
class Peak:
    """What :func:`peak_memory` measures; set when the work is over."""

    megabytes: float = 0.0


@contextmanager
def peak_memory() -> Iterator[Peak]:
    """Measure how far the process's resident memory rises above where it stood before.

    Linux can reset the high-water mark, so each piece of work is measured by itself. Elsewhere the mark is the whole
    process's, and work that stays below an earlier peak shows as 0.
    """
    peak = Peak()
    _give_back()
    try:
        _RESET.write_text("5")
        before = _linux("VmRSS")
    except OSError:
        before = _highest()
        yield peak
        peak.megabytes = max(0.0, _highest() - before)
        return
    yield peak
    peak.megabytes = max(0.0, _linux("VmHWM") - before)


def _give_back() -> None:
    """Return freed memory to the system: work that reused it would seem to need none."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:  # glibc only
        trim(0)


def _linux(field: str) -> float:
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith(field))
    return float(line.split()[1]) / 1024


def _highest() -> float:
    highest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return highest / 2**20 if sys.platform == "darwin" else highest / 1024
