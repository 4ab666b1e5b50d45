"""Sweeps on a Dask cluster whose scheduler and workers are processes on loopback."""

import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

pytest.importorskip("distributed")

from tests.reproduce.dask_cluster import running
from tests.reproduce.squares import Square

from condiff.distributed import crew as module
from condiff.errors import CondiffError, InvalidInputError
from condiff.reproduce.cluster import cluster_pool
from condiff.reproduce.runner import sweep
from condiff.reproduce.runs import Key, Run
from condiff.reproduce.store import Store


@dataclass(frozen=True)
class Stuck(Square):
    """It comes to no end where it runs first."""

    def run(self) -> Run:
        first = not list(Path(self.marks).glob(f"{self.number}-*"))
        done = super().run()
        if first:
            time.sleep(600)
        return done


@dataclass(frozen=True)
class Apart:
    """A job that tells whether it was alone in its process."""

    number: int
    folder: str

    @property
    def key(self) -> Key:
        return Key("test", "numbers", "apart", {}, self.number, 0)

    def run(self) -> Run:
        inside = Path(self.folder, f"inside-{os.getpid()}")
        alone = not inside.exists()
        inside.touch()
        time.sleep(0.02)
        inside.unlink(missing_ok=True)
        return Run("test", "numbers", "apart", {}, self.number, 0, {"accuracy": float(alone)}, 1, 0.0, 0.0)


def _kill_who_is_stuck(job, marks, workers):
    while not (found := list(marks.glob(f"{job.number}-*"))):
        time.sleep(0.01)
    pid = int(found[0].name.split("-")[1])
    next(worker for worker in workers if worker.pid == pid).kill()


def test_a_sweep_survives_the_death_of_a_worker(tmp_path, marks):
    jobs = [(Stuck if number == 5 else Square)(number, str(marks)) for number in range(20)]
    with running(tmp_path) as cluster, Store(tmp_path / "runs.sqlite") as store:
        workers = [cluster.add_worker() for _ in range(2)]
        with cluster_pool(cluster.address) as pool:
            killer = threading.Thread(target=_kill_who_is_stuck, args=(jobs[5], marks, workers), daemon=True)
            killer.start()
            assert len(list(sweep(jobs, store, pool, {}))) == 20
        assert {run.split: run.metrics["accuracy"] for run in store.runs()} == {n: float(n**2) for n in range(20)}
        assert [worker.poll() is None for worker in workers].count(False) == 1
    assert len(list(marks.glob("5-*"))) == 2  # begun again by the other worker


def test_threads_of_one_worker_take_turns_and_failures_are_reported(tmp_path, marks):
    with running(tmp_path) as cluster, Store(tmp_path / "runs.sqlite") as store:
        cluster.add_worker(threads=3)
        with cluster_pool(cluster.address) as pool:
            runs = [progress.run for progress in sweep([Apart(n, str(marks)) for n in range(12)], store, pool, {})]
            assert len(runs) == 12
            assert all(run.metrics["accuracy"] == 1.0 for run in runs)
            jobs = [Square(number, str(marks), fails=number == 1) for number in range(3)]
            with pytest.raises(CondiffError, match=r"1 of 3 runs failed.*split 1.*ArithmeticError: 1 is bad"):
                list(sweep(jobs, store, pool, {}))
        assert {run.split for run in store.runs() if run.method == "square"} == {0, 2}


def test_no_scheduler_no_worker_and_other_versions_are_said(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "SECONDS_TO_ANSWER", 1)
    with pytest.raises(InvalidInputError, match="no Dask scheduler answers at 'tcp:"):
        cluster_pool("tcp://127.0.0.1:9").__enter__()
    with running(tmp_path) as cluster:
        with pytest.raises(InvalidInputError, match="has no worker"):
            cluster_pool(cluster.address).__enter__()
        monkeypatch.setattr(module, "SECONDS_TO_ANSWER", 60)
        cluster.add_worker()
        monkeypatch.setattr("condiff.__version__", "0.0.0")
        with pytest.raises(InvalidInputError, match=r"but this process has condiff 0\.0\.0"):
            cluster_pool(cluster.address).__enter__()
