"""The workers of a Dask cluster as the executor of a sweep: the same jobs, the same results, on many machines."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

from condiff.errors import InvalidInputError, MissingDependencyError

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")

#: Jobs handed to a cluster before their turn: enough for a thousand workers.
AHEAD = 1024
_SECONDS_TO_ANSWER = 30
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
    try:
        from distributed import Client
    except ImportError as error:
        raise MissingDependencyError("sweeps on a cluster need Dask: pip install 'condiff[cluster]'") from error
    try:
        client = Client(address, timeout=_SECONDS_TO_ANSWER, set_as_default=False)
    except (OSError, ValueError) as error:
        raise InvalidInputError(
            f"no Dask scheduler answers at {address!r} ({error}): start one with 'dask scheduler'"
        ) from error
    with client:
        _check_workers(client, address)
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


def _check_workers(client: Any, address: str) -> None:
    try:
        client.wait_for_workers(1, timeout=_SECONDS_TO_ANSWER)
    except (OSError, TimeoutError) as error:
        raise InvalidInputError(
            f"the scheduler at {address!r} has no worker: start some with 'dask worker {address} --nthreads 1'"
        ) from error
    try:
        found = client.run(_versions)
    except ImportError as error:
        raise InvalidInputError(f"a worker of {address!r} lacks a package ({error}): install condiff there") from error
    here = _versions()
    for worker, versions in found.items():
        if versions != here:
            raise InvalidInputError(
                f"worker {worker} has {versions}, but this process has {here}: install the same there"
            )


def _versions() -> str:
    import torch

    from condiff import __version__

    return f"condiff {__version__} and torch {torch.__version__}"
