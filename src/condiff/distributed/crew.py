"""The workers of a Dask cluster, and the folder in which they keep what they have finished.

Work is done in stages. A stage is one function of many items, parts of the data or blocks of the graph; each item
reads files, writes files, and leaves a mark when it is done. Between processes go names of files and small figures,
never rows: a worker that dies costs the items that it was at, and a job that was stopped, for whatever reason,
continues after the last item that is marked.
"""

from __future__ import annotations

import json
import logging
import os
import resource
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from condiff.errors import CondiffError, InvalidInputError, MissingDependencyError, WriteError
from condiff.files import atomic_path, in_bytes, reason, write_text

SECONDS_TO_ANSWER = 30
# Items that are handed to the scheduler for each worker before their turn.
_AHEAD = 4
# Seconds between lines of progress.
_BEAT = 5.0
# Seconds between looks at what is done; and those without any worker after which none will come back.
_GLANCE, _PATIENCE = 0.02, 60.0
_alone = threading.Lock()
_Report = Callable[[str], None]


class ClusterLostError(CondiffError, RuntimeError):
    """Workers or the scheduler went away for good; what was finished is kept."""


class Work:
    """A folder of arrays, written completely or not at all, with marks of what is finished.

    Every worker must see it under the same path. ``moved`` counts the bytes that this process has read and written.
    """

    moved = 0

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, name: str) -> Path:
        """Of a file."""
        return self.folder / name

    def save(self, name: str, array: Any) -> None:
        """Write an array."""
        with atomic_path(self.path(f"{name}.npy")) as temporary, temporary.open("wb") as stream:
            np.save(stream, array)
        Work.moved += array.nbytes

    def load(self, name: str) -> NDArray[Any]:
        """Read an array."""
        found = np.load(self.path(f"{name}.npy"))
        Work.moved += found.nbytes
        return np.asarray(found)

    def rows(self, name: str, start: int, stop: int) -> NDArray[Any]:
        """Some consecutive rows of an array, and nothing else of it."""
        found = np.array(np.load(self.path(f"{name}.npy"), mmap_mode="r")[start:stop])
        Work.moved += found.nbytes
        return found

    def pick(self, name: str, rows: NDArray[np.int64]) -> NDArray[Any]:
        """Some rows of an array."""
        found = np.asarray(np.load(self.path(f"{name}.npy"), mmap_mode="r")[rows])
        Work.moved += found.nbytes
        return found

    def remove(self, *names: str) -> None:
        """Free the room of what is no longer needed."""
        for name in names:
            shutil.rmtree(self.path(name), ignore_errors=True)

    def write_json(self, name: str, value: Any) -> None:
        """Write plain values."""
        write_text(self.path(f"{name}.json"), json.dumps(value))

    def read_json(self, name: str) -> Any:
        """Read them back."""
        return json.loads(self.path(f"{name}.json").read_text(encoding="utf-8"))

    def marks(self, stage: str) -> dict[int, dict[str, Any]]:
        """What the finished items of a stage have left."""
        folder = self.path(f"marks/{stage}")
        names = sorted(folder.glob("*.json")) if folder.is_dir() else []
        return {int(name.stem): json.loads(name.read_text(encoding="utf-8")) for name in names}


@dataclass(frozen=True)
class Used:
    """What a stage has cost.

    Attributes
    ----------
    stage, items
        Its name, and how many items it had.
    elapsed
        Seconds from the beginning of its first item to the end of its last.
    seconds, slowest
        Processor seconds of all items, and of the slowest.
    memory
        Most bytes of memory that a worker has had until its end.
    moved
        Bytes of arrays that were read and written.
    """

    stage: str
    items: int
    elapsed: float
    seconds: float
    slowest: float
    memory: int
    moved: int


@dataclass
class Crew:
    """Workers that go through stages together.

    Attributes
    ----------
    client
        Dask's.
    memory
        The smallest memory limit of a worker in bytes; that of this machine where there is none.
    report
        Takes a line of progress.
    """

    client: Any
    memory: int
    report: _Report = field(default=lambda line: None)

    def run(
        self, work: Work, stage: str, function: Callable[..., Any], items: Mapping[int, tuple[Any, ...]]
    ) -> dict[int, Any]:
        """Call ``function(work, item, *arguments)`` for every item that is not marked yet; returns what all returned.

        What a function returns is a small plain value. Workers do one item at a time, with all of their threads.
        """
        found = work.marks(stage)
        waiting = [item for item in items if item not in found]
        if waiting:
            (work.path(f"marks/{stage}")).mkdir(parents=True, exist_ok=True)
        started = told = time.monotonic()
        with self._explaining(work, stage):
            ahead = _AHEAD * max(1, len(self.client.ncores()))
            queue = iter(waiting)

            def submit(number: int) -> list[Any]:
                chosen = [item for _, item in zip(range(number), queue, strict=False)]
                return [
                    self.client.submit(_do, str(work.folder), stage, function, item, items[item], pure=False)
                    for item in chosen
                ]

            running, heard, looked = submit(ahead), time.monotonic(), time.monotonic()
            while running:
                done = [future for future in running if future.done()]
                for future in done:
                    item, mark = future.result()
                    found[item] = mark
                if not done:
                    time.sleep(_GLANCE)
                if time.monotonic() - looked > _BEAT:
                    looked = time.monotonic()
                    if self.client.ncores():
                        heard = looked
                    elif looked - heard > _PATIENCE:
                        raise ClusterLostError(f"stage {stage!r}: no worker is left, nor has come back: {_kept(work)}")
                running = [future for future in running if future not in done] + submit(len(done))
                if time.monotonic() - told > _BEAT:
                    told = time.monotonic()
                    self.report(f"{stage}: {len(found)} of {len(items)}")
        if time.monotonic() - started > 1:
            self.report(f"{stage}: done in {time.monotonic() - started:.1f} s")
        return {item: found[item]["value"] for item in items}

    @contextmanager
    def _explaining(self, work: Work, stage: str) -> Iterator[None]:
        """Turn what Dask raises when processes go away into one line."""
        from concurrent.futures import CancelledError as Cancelled

        from distributed.comm.core import CommClosedError

        from distributed import CancelledError, KilledWorker

        try:
            yield
        except CondiffError:
            raise
        except KilledWorker as error:
            raise ClusterLostError(
                f"stage {stage!r}: several workers died over the same part, most likely for want of memory "
                f"({in_bytes(self.memory)} each): give them more, or choose smaller blocks; {_kept(work)}"
            ) from error
        except MemoryError as error:
            raise ClusterLostError(
                f"stage {stage!r} needs more memory than a worker has ({in_bytes(self.memory)}): give workers more, or "
                f"choose smaller blocks; {_kept(work)}"
            ) from error
        except (Cancelled, CancelledError, CommClosedError, TimeoutError) as error:
            raise ClusterLostError(
                f"stage {stage!r}: the scheduler is gone ({reason(error)}): {_kept(work)}"
            ) from error
        except OSError as error:
            raise WriteError(
                f"stage {stage!r}: a worker cannot read or write ({reason(error)}); {_kept(work)}"
            ) from error


def _kept(work: Work) -> str:
    return f"what is finished is kept in {work.folder}, and the same command continues there"


def used(work: Work) -> list[Used]:
    """What every stage has cost so far, in the order in which they were finished; all layers are one stage."""
    stages: dict[str, list[dict[str, Any]]] = {}
    for folder in sorted(work.path("marks").iterdir(), key=lambda each: each.stat().st_mtime):
        stages.setdefault(folder.name.partition("-")[0], []).extend(work.marks(folder.name).values())
    return [
        Used(
            stage,
            len(marks),
            max(mark["ended"] for mark in marks) - min(mark["began"] for mark in marks),
            sum(mark["seconds"] for mark in marks),
            max(mark["seconds"] for mark in marks),
            max(mark["memory"] for mark in marks),
            sum(mark["moved"] for mark in marks),
        )
        for stage, marks in stages.items()
        if marks
    ]


def _do(folder: str, stage: str, function: Callable[..., Any], item: int, arguments: tuple[Any, ...]) -> Any:
    """One item, on a worker, while nothing else runs in its process."""
    work = Work(Path(folder))
    with _alone:
        _use_threads()
        began, started, moved = time.time(), time.process_time(), Work.moved
        value = function(work, item, *arguments)
        mark = {
            "value": value,
            "began": began,
            "ended": time.time(),
            "seconds": time.process_time() - started,
            "memory": _peak(),
            "moved": Work.moved - moved,
        }
    work.write_json(f"marks/{stage}/{item:06d}", mark)
    return item, json.loads(json.dumps(mark))  # as one who comes later will read it


def _peak() -> int:
    """The most bytes of memory that this process has had."""
    status = Path("/proc/self/status")
    if status.is_file():  # the resource module also counts what the process was that started this one
        kilobytes = next(line.split()[1] for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return 1024 * int(kilobytes)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def _use_threads() -> None:
    """Let libraries use as many threads as the worker has."""
    import torch

    from distributed import get_worker

    threads = get_worker().state.nthreads
    torch.set_num_threads(threads)
    try:
        import faiss
    except ImportError:
        return
    faiss.omp_set_num_threads(threads)


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """A client of a Dask scheduler, whose workers must have the packages of this process."""
    _dask()
    from distributed import Client

    try:
        client = Client(address, timeout=SECONDS_TO_ANSWER, set_as_default=False)
    except (OSError, ValueError) as error:
        raise InvalidInputError(
            f"no Dask scheduler answers at {address!r} ({error}): start one with 'dask scheduler'"
        ) from error
    with client:
        check_workers(client, address)
        yield client


@contextmanager
def crew(
    cluster: Any = None, *, workers: int | None = None, memory: str | int = "auto", report: _Report | None = None
) -> Iterator[Crew]:
    """The workers of a scheduler, or without one processes of this machine for as long as the block lasts.

    Parameters
    ----------
    cluster
        The scheduler's address, such as ``tcp://10.0.0.1:8786``, or a client of it.
    workers, memory
        Without a scheduler: how many processes, one for each core by default, and the memory limit of each.
    report
        Takes lines of progress.
    """
    _dask()
    tell = report or (lambda line: None)
    if isinstance(cluster, str):
        with connected(cluster) as client:
            yield Crew(client, _least_memory(client), tell)
        return
    if cluster is not None:
        yield Crew(cluster, _least_memory(cluster), tell)
        return
    from distributed import Client, LocalCluster

    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    number = workers or os.cpu_count() or 1
    with (
        LocalCluster(
            n_workers=number,
            threads_per_worker=1,
            memory_limit=memory,
            dashboard_address=":0",
            silence_logs=logging.CRITICAL,
        ) as own,
        Client(own, set_as_default=False) as client,
    ):
        yield Crew(client, _least_memory(client), tell)


def _dask() -> None:
    try:
        import distributed  # noqa: F401
    except ImportError as error:
        raise MissingDependencyError("work on a cluster needs Dask: pip install 'condiff[cluster]'") from error


def _least_memory(client: Any) -> int:
    limits = [each["memory_limit"] for each in client.scheduler_info(n_workers=-1)["workers"].values()]
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return int(min((limit for limit in limits if limit), default=total))


def check_workers(client: Any, address: str) -> None:
    """Raise where there is no worker, or one that has other packages."""
    try:
        client.wait_for_workers(1, timeout=SECONDS_TO_ANSWER)
    except (OSError, TimeoutError) as error:
        raise InvalidInputError(
            f"the scheduler at {address!r} has no worker: start some with 'dask worker {address} --nthreads 1'"
        ) from error
    try:
        found = client.run(versions)
    except ImportError as error:
        raise InvalidInputError(f"a worker of {address!r} lacks a package ({error}): install condiff there") from error
    here = versions()
    for worker, theirs in found.items():
        if theirs != here:
            raise InvalidInputError(
                f"worker {worker} has {theirs}, but this process has {here}: install the same there"
            )


def versions() -> str:
    """What all processes of a cluster must have in common."""
    import torch

    from condiff import __version__

    return f"condiff {__version__} and torch {torch.__version__}"
