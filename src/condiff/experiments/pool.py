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


@contextmanager
def process_pool(jobs: int | None) -> Iterator[Executor]:
    """A pool of ``jobs`` processes, one a core by default; on an interruption they end at once.

    Each is a fresh process, because forking one that has used torch's threads can hang.
    """
    pool = ProcessPoolExecutor(
        jobs or os.cpu_count() or 1, mp_context=multiprocessing.get_context("spawn"), initializer=_start
    )
    try:
        yield pool
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for child in multiprocessing.active_children():
            child.kill()
        raise
    pool.shutdown()


def _start() -> None:
    import torch

    # Several threads under load get in each other's way.
    torch.set_num_threads(1)
    # Ctrl-C reaches every process of a terminal; the parent is the one that answers it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _end_with(sentinel: int) -> None:
    """A worker whose parent was killed would wait for work for ever."""
    multiprocessing.connection.wait([sentinel])
    os._exit(1)
