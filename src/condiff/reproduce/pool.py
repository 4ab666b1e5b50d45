"""The processes of a sweep: one torch thread each, and none outlives its parent."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager

from condiff.errors import InvalidInputError


@contextmanager
def process_pool(jobs: int | None) -> Iterator[Executor]:
    """A pool of ``jobs`` processes, :func:`usual_jobs` by default; on an interruption they end at once.

    Each is a fresh process, because forking one that has used torch's threads can hang.
    """
    pool = ProcessPoolExecutor(
        jobs or usual_jobs(), mp_context=multiprocessing.get_context("spawn"), initializer=_start
    )
    try:
        yield pool
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for child in multiprocessing.active_children():
            child.kill()
        raise
    pool.shutdown()


def usual_jobs() -> int:
    """``$CONDIFF_JOBS``, or one for each core that this process may use."""
    if given := os.environ.get("CONDIFF_JOBS"):
        if not given.isdecimal() or int(given) < 1:
            raise InvalidInputError(f"CONDIFF_JOBS must be a number of processes, 1 or more, not {given!r}")
        return int(given)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _start() -> None:
    import torch

    # Several threads slow each other down under load.
    torch.set_num_threads(1)
    # Ctrl-C reaches every process of a terminal; the parent is the one that answers it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _end_with(sentinel: int) -> None:
    """A worker whose parent was killed would wait for work forever."""
    multiprocessing.connection.wait([sentinel])
    os._exit(1)
