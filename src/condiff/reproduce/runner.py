"""Run what is not yet in the store, on any executor, and store each run as soon as it is finished."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future
from dataclasses import dataclass
from itertools import islice
from queue import SimpleQueue
from typing import Any, Protocol

from condiff.errors import CondiffError, FailedRunsError
from condiff.reproduce.runs import Key, Run
from condiff.reproduce.store import Store


class Job(Protocol):
    """One run to make: it can be pickled, and has the key of its run."""

    @property
    def key(self) -> Key: ...

    def run(self) -> Run:
        """Do the work; the result depends on the job alone."""
        ...


@dataclass(frozen=True)
class Progress:
    """A finished run, whether it was made just now or already stored."""

    run: Run
    done: int
    total: int
    #: How many of these were stored before this sweep began.
    held: int


def sweep(
    jobs: Sequence[Job],
    store: Store,
    executor: Executor,
    made: dict[str, str],
    *,
    renewed: Collection[str] = (),
    ahead: int = 64,
    batches: Callable[[list[Any]], list[list[Any]]] | None = None,
) -> Iterator[Progress]:
    """Yield every run of ``jobs`` as it finishes; stored ones come first and cost nothing.

    Parameters
    ----------
    jobs
        What to run, in the order in which to start.
    store
        Where runs are stored; each is written before it is yielded.
    executor
        Any ``concurrent.futures.Executor``: a process pool, Dask's ``client.get_executor()``, MPI's pool.
    made
        What made the runs (versions, date), kept beside each.
    renewed
        Digests of keys whose runs are made again and replaced where they are stored.
    ahead
        How many jobs, or batches of them, to submit ahead of time.
    batches
        Puts the jobs that are missing into batches, each of which is solved at once by its first job's
        ``run_batch``; every job by itself by default.

    Raises
    ------
    CondiffError
        If workers die.
    FailedRunsError
        If runs failed, after everything else is done.
    """
    held = store.find(job.key for job in jobs if job.key.digest not in renewed)
    done, first = 0, len(held)
    for job in jobs:
        if job.key.digest in held:
            done += 1
            yield Progress(held[job.key.digest], done, len(jobs), first)
    left = [job for job in jobs if job.key.digest not in held]
    missing = iter([[job] for job in left] if batches is None else batches(left))
    waiting: dict[Future[list[Run]], list[Job]] = {}
    # Not ``concurrent.futures.wait``: interrupted while it takes the futures' locks, it leaves them taken, and the pool
    # waits for these at its end.
    finished: SimpleQueue[Future[list[Run]]] = SimpleQueue()
    failures: list[tuple[Job, Exception]] = []
    while True:
        for batch in islice(missing, ahead - len(waiting)):
            future = executor.submit(_run, batch)
            waiting[future] = batch
            future.add_done_callback(finished.put)
        if not waiting:
            break
        future = finished.get()
        batch = waiting.pop(future)
        try:
            runs = future.result()
        except BrokenExecutor as error:
            raise CondiffError(
                "a worker process died, perhaps for lack of memory; finished runs are kept, and the same "
                "command resumes from there (try fewer --jobs)"
            ) from error
        except Exception as error:
            failures += [(job, error) for job in batch]
            continue
        for job, run in zip(batch, runs, strict=True):
            store.add(job.key, run, made, replace=job.key.digest in renewed)
            done += 1
            yield Progress(run, done, len(jobs), first)
    if failures:
        failed, cause = failures[0]
        raise FailedRunsError(
            f"{len(failures)} of {len(jobs)} runs failed, the others are kept; the first was {failed.key.method} on "
            f"{failed.key.dataset}, split {failed.key.split}, init {failed.key.init}: {type(cause).__name__}: {cause}"
        ) from cause


def _run(batch: list[Any]) -> list[Run]:
    first, *others = batch
    return list(first.run_batch(others)) if others else [first.run()]
