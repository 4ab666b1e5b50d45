"""A Dask scheduler and workers as real processes on loopback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]


class Cluster:
    """A scheduler and its workers; every worker is a process without a guard that would restart it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: list[subprocess.Popen[bytes]] = []
        self._file = folder / "scheduler.json"
        self._start("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard")
        deadline = time.monotonic() + 120
        while not self._file.exists() or not self._file.read_text().strip():
            assert self.processes[0].poll() is None and time.monotonic() < deadline, self.log("scheduler")
            time.sleep(0.05)
        self.address: str = json.loads(self._file.read_text())["address"]

    def add_worker(self, threads: int = 1) -> subprocess.Popen[bytes]:
        return self._start("worker", "--nthreads", str(threads), "--no-nanny", "--no-dashboard", "--memory-limit", "0")

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()

    def _start(self, kind: str, *options: str) -> subprocess.Popen[bytes]:
        # Workers unpickle the tests' own jobs, and run the code of this tree.
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": ""}
        environment["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
        command = [sys.executable, "-m", "dask", kind, "--scheduler-file", str(self._file), *options]
        with (self.folder / f"{kind}.log").open("ab") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, cwd=self.folder)
        self.processes.append(process)
        return process


@contextmanager
def running(folder: Path) -> Iterator[Cluster]:
    """A cluster without workers; all of its processes end with the block."""
    cluster = Cluster(folder)
    try:
        yield cluster
    finally:
        for process in reversed(cluster.processes):
            process.kill()
        for process in cluster.processes:
            process.wait(30)
