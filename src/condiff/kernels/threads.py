"""Who has the cores: torch's own threads wait for work by spinning, which takes them from compiled loops."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


def thread_count() -> int:
    """How many threads work is to be shared by: torch's, where it is loaded, or as many as torch would take."""
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "get_num_threads"):  # it may be half imported
        return int(torch.get_num_threads())
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return max(1, int(asked)) if asked.isdigit() else os.cpu_count() or 1


class _Shared:
    """A setting of the process, which fits in several threads share: the first makes it, the last takes it back."""

    def __init__(self, make: Callable[[], Callable[[], object]]) -> None:
        self._make, self._inside, self._lock = make, 0, threading.Lock()

    @contextmanager
    def __call__(self) -> Iterator[None]:
        with self._lock:
            if self._inside == 0:
                self._undo = self._make()
            self._inside += 1
        try:
            yield
        finally:
            with self._lock:
                self._inside -= 1
                if self._inside == 0:
                    self._undo()


def _torch_alone() -> Callable[[], object]:
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    return lambda: torch.set_num_threads(before)


def _blas_alone() -> Callable[[], object]:
    from threadpoolctl import threadpool_limits

    limits = threadpool_limits(1)
    return lambda: limits.restore_original_limits()


_TORCH, _BLAS = _Shared(_torch_alone), _Shared(_blas_alone)


@contextmanager
def one_torch_thread() -> Iterator[None]:
    """Let torch work in the calling thread alone; the number is torch's again when the last of nested uses ends."""
    with _TORCH():
        yield


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch and BLAS work in the calling thread alone: where matrices are small, further threads only wait.

    On busy cores they wait by spinning for whole slices of time, and a second becomes minutes.
    """
    with _TORCH(), _BLAS():
        yield
