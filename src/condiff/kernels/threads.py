"""Who has the cores: torch's own threads wait for work by spinning, which takes them from compiled loops."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_inside = 0
_before = 1


def thread_count() -> int:
    """How many threads work is to be shared by: torch's, where it is loaded, or as many as torch would take."""
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "get_num_threads"):  # it may be half imported
        return int(torch.get_num_threads())
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return max(1, int(asked)) if asked.isdigit() else os.cpu_count() or 1


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """Let torch work in the calling thread alone; the number is torch's again when the last of nested uses ends.

    The setting belongs to the process, so fits in several threads share it.
    """
    import torch

    global _inside, _before
    with _lock:
        if _inside == 0:
            _before = torch.get_num_threads()
            torch.set_num_threads(1)
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                torch.set_num_threads(_before)


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch and BLAS work in the calling thread alone: where matrices are small, further threads only wait.

    On busy cores they wait by spinning for whole slices of time, and a second becomes minutes.
    """
    from threadpoolctl import threadpool_limits

    with one_torch_thread(), threadpool_limits(1):
        yield
