import os
import runpy
import signal
import subprocess
import sys
import textwrap
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass

import pytest
from tests.reproduce.squares import Square, times_run

from condiff.errors import CondiffError
from condiff.reproduce.pool import process_pool
from condiff.reproduce.runner import sweep
from condiff.reproduce.runs import Run
from condiff.reproduce.store import Store


@dataclass(frozen=True)
class Dies(Square):
    def run(self) -> Run:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError


def _values(store):
    return {run.split: run.metrics["accuracy"] for run in store.runs()}


def test_everything_runs_once_and_is_kept(tmp_path, marks):
    jobs = [Square(number, str(marks)) for number in range(10)]
    with Store(tmp_path / "runs.sqlite") as store, ThreadPoolExecutor(3) as pool:
        progress = list(sweep(jobs, store, pool, {}, ahead=4))
        assert sorted(each.run.split for each in progress) == list(range(10))
        assert [each.done for each in progress] == list(range(1, 11))
        assert {each.total for each in progress} == {10}
        assert _values(store) == {number: float(number**2) for number in range(10)}
    assert [times_run(marks, number) for number in range(10)] == [1] * 10


def test_a_second_sweep_does_no_work(tmp_path, marks):
    jobs = [Square(number, str(marks)) for number in range(5)]
    with Store(tmp_path / "runs.sqlite") as store, ThreadPoolExecutor(2) as pool:
        first = list(sweep(jobs[:3], store, pool, {}))
        again = list(sweep(jobs, store, pool, {}))
    assert [each.held for each in first] == [0] * 3
    assert [each.held for each in again] == [3] * 5
    assert sorted(each.run.split for each in again) == list(range(5))
    assert [times_run(marks, number) for number in range(5)] == [1] * 5


def test_renewed_runs_are_made_again_and_replaced(tmp_path, marks):
    jobs = [Square(number, str(marks)) for number in range(4)]
    with Store(tmp_path / "runs.sqlite") as store, ThreadPoolExecutor(2) as pool:
        list(sweep(jobs[:3], store, pool, {"commit": "a"}))
        again = list(sweep(jobs, store, pool, {"commit": "b"}, renewed={jobs[1].key.digest}))
        makers = store.made(job.key for job in jobs)
        assert len(store) == 4
    assert [each.held for each in again] == [2] * 4
    assert [times_run(marks, number) for number in range(4)] == [1, 2, 1, 1]
    assert [makers[job.key.digest]["commit"] for job in jobs] == ["a", "b", "a", "b"]


@dataclass(frozen=True)
class Together(Square):
    def run_batch(self, others):
        return [each.run() for each in (self, *others)]


def test_batches_are_run_together_and_every_run_is_kept(tmp_path, marks):
    jobs = [Together(number, str(marks)) for number in range(7)]
    asked = []

    def pairs(left):
        asked.append([job.number for job in left])
        return [left[first : first + 2] for first in range(0, len(left), 2)]

    with Store(tmp_path / "runs.sqlite") as store, ThreadPoolExecutor(2) as pool:
        list(sweep(jobs[:2], store, pool, {}))
        progress = list(sweep(jobs, store, pool, {}, batches=pairs))
        assert asked == [[2, 3, 4, 5, 6]] and [each.done for each in progress] == list(range(1, 8))
        assert _values(store) == {number: float(number**2) for number in range(7)}
    assert [times_run(marks, number) for number in range(7)] == [1] * 7


def test_any_executor_gives_the_same(tmp_path, marks):
    jobs = [Square(number, str(marks)) for number in range(6)]
    found = []
    for number, pool in enumerate((ThreadPoolExecutor(1), ThreadPoolExecutor(4), ProcessPoolExecutor(2))):
        with Store(tmp_path / f"{number}.sqlite") as store, pool:
            list(sweep(jobs, store, pool, {}))
            found.append(store.runs())
    assert found[0] == found[1] == found[2]


def test_a_failure_does_not_stop_the_others_and_is_reported(tmp_path, marks):
    jobs = [Square(number, str(marks), fails=number == 2) for number in range(6)]
    with (
        Store(tmp_path / "runs.sqlite") as store,
        ThreadPoolExecutor(2) as pool,
        pytest.raises(CondiffError, match=r"1 of 6 runs failed.*split 2.*ArithmeticError: 2 is bad"),
    ):
        list(sweep(jobs, store, pool, {}))
    with Store(tmp_path / "runs.sqlite") as store:
        assert sorted(_values(store)) == [0, 1, 3, 4, 5]


def test_a_worker_that_dies_ends_the_sweep_with_what_was_done_kept(tmp_path, marks):
    jobs = [Square(0, str(marks)), Dies(1, str(marks)), Square(2, str(marks))]
    with (
        Store(tmp_path / "runs.sqlite") as store,
        ProcessPoolExecutor(1) as pool,
        pytest.raises(CondiffError, match="worker process died"),
    ):
        list(sweep(jobs, store, pool, {}))
    with Store(tmp_path / "runs.sqlite") as store:
        assert _values(store) == {0: 0.0}


SLOW = textwrap.dedent(
    """
    import sys, time
    from dataclasses import dataclass
    from condiff.reproduce.pool import process_pool
    from condiff.reproduce.runner import sweep
    from condiff.reproduce.runs import Key, Run
    from condiff.reproduce.store import Store

    @dataclass(frozen=True)
    class Slow:
        number: int

        @property
        def key(self):
            return Key("test", "numbers", "slow", {}, self.number, 0)

        def run(self):
            time.sleep(0.2)
            return Run("test", "numbers", "slow", {}, self.number, 0, {"accuracy": 1.0}, 1, 0.2, 0.0)

    if __name__ == "__main__":
        with Store(sys.argv[1]) as store, process_pool(2) as pool:
            try:
                for progress in sweep([Slow(n) for n in range(int(sys.argv[2]))], store, pool, {}):
                    print(progress.done, flush=True)
            except KeyboardInterrupt:
                sys.exit(130)
    """
)


def _alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_sweep_goes_on_where_it_stopped_and_leaves_no_worker(tmp_path, how):
    script, path = tmp_path / "slow.py", tmp_path / "runs.sqlite"
    script.write_text(SLOW)
    killed = subprocess.Popen(
        [sys.executable, str(script), str(path), "1000"],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    for line in killed.stdout:
        if int(line) >= 3:
            break
    if how is signal.SIGKILL:
        os.kill(killed.pid, how)
    else:
        os.killpg(killed.pid, how)  # as a terminal does
    killed.wait(30)
    killed.stdout.close()
    assert killed.returncode == (130 if how is signal.SIGINT else -how)
    deadline = time.monotonic() + 30
    while _alive(killed.pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _alive(killed.pid)
    with Store(path) as store:
        before = len(store)
    assert 3 <= before < 1000
    # The same jobs on another executor: what is held does not depend on who did it, and threads start at once.
    slow = runpy.run_path(str(script))["Slow"]
    with Store(path) as store, ThreadPoolExecutor(2) as pool:
        *_, last = sweep([slow(number) for number in range(before + 2)], store, pool, {})
        assert last.done == before + 2
        assert len(store) >= before + 2
        # At most the two that were under way when it was killed were done again.
        assert len(store) <= before + 2 + 2


def test_the_pool_uses_one_thread_a_process():
    with process_pool(1) as pool:
        assert pool.submit(_threads).result() == 1


def _threads() -> int:
    import torch

    return torch.get_num_threads()
