"""The workers of a Dask cluster as the executor of a sweep: the same jobs, the same results, on many machines."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

from condiff.distributed.crew import connected

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")

#: Jobs handed to a cluster before their turn: enough for a thousand workers.
AHEAD = 1024
_alone = threading.Lock()


@contextmanager
def cluster_pool(address: str) -> Iterator[Executor]:
    """The workers of a Dask scheduler, now or later; their packages must be those of this process.

    A job whose worker dies is run again by another one; only a job that has lost several workers is given up.

    Parameters
    ----------
    address
        Of the scheduler, such as ``tcp://10.0.0.1:8786``.
    """
    with connected(address) as client:
        executor = _ClusterExecutor(client.get_executor(pure=False))
        try:
            yield executor
        except BaseException:
            executor.shutdown(wait=False, cancel_futures=True)
            raise
        executor.shutdown()


class _ClusterExecutor(Executor):
    """Submit work so that each worker does one piece of it at a time."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def submit(
        self, function: Callable[_Arguments, _Result], /, *args: _Arguments.args, **kwargs: _Arguments.kwargs
    ) -> Future[_Result]:
        future: Future[_Result] = self._inner.submit(_run_alone, function, *args, **kwargs)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._inner.shutdown(wait=wait)


def _run_alone(function: Callable[_Arguments, _Result], *args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
    """Call a function while nothing else runs in this process: jobs seed torch, whose generator all threads share."""
    import torch

    with _alone:
        torch.set_num_threads(1)
        return function(*args, **kwargs)
