"""Processes that are killed while they write: at a named point between any two writes, or at any moment."""

from __future__ import annotations

import contextlib
import csv
import ctypes
import hashlib
import io
import json
import multiprocessing
import os
import resource
import signal
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from tests.robustness.campaigns import Campaign, Finding, quiet, runs

# What Python reports before it is done, that changes a disk.
_EVENTS = {
    *("os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.chmod", "os.truncate"),
    *("tempfile.mkstemp", "tempfile.mkdtemp"),
}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class Failpoint:
    """Ends this process, as kill -9 does, before its n-th change of the disk; the hook cannot be taken away again."""

    def __init__(self, at: int) -> None:
        self.at, self.seen = at, 0
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in _EVENTS or (event == "open" and arguments[2] & _WRITING):
            self.reach()

    def reach(self) -> None:
        """Count a change, and end where it is the one."""
        self.seen += 1
        if self.seen == self.at:
            os.kill(os.getpid(), signal.SIGKILL)


class _Counted:
    """An SQLite connection that is killed within: before a statement."""

    def __init__(self, connection: Any, point: Failpoint) -> None:
        self._connection, self._point = connection, point

    def execute(self, *arguments: Any) -> Any:
        self._point.reach()
        return self._connection.execute(*arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


def in_child(work: Callable[[], None], seconds: float | None = None, limit: float = 60.0) -> int | None:
    """Run something in a fork of this process; the signal that ended it, or None. ``seconds``: killed after them."""
    said = Path(tempfile.gettempdir()) / f"torture-{os.getpid()}-{threading.get_ident()}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a fork of a process with threads; the child starts none
        number = os.fork()
    if number == 0:
        code = 1
        try:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, 1)
            os.dup2(null, 2)
            work()
            code = 0
        except SystemExit as stop:
            code = int(stop.code or 0)
        except BaseException:
            with contextlib.suppress(OSError):
                said.write_text(traceback.format_exc())
        finally:
            os._exit(code)
    end = time.monotonic() + (limit if seconds is None else seconds)
    while time.monotonic() < end:
        done, status = os.waitpid(number, os.WNOHANG)
        if done:
            if os.WIFSIGNALED(status):
                return os.WTERMSIG(status)
            if os.WEXITSTATUS(status):
                lines = said.read_text().splitlines() if said.is_file() else []
                said.unlink(missing_ok=True)
                raise Finding(f"the command ended with {os.WEXITSTATUS(status)}: {' '.join(lines[-1:])}")
            return None
        time.sleep(0.001)
    os.kill(number, signal.SIGKILL)
    os.waitpid(number, 0)
    if seconds is None:
        raise Finding(f"the command did not end within {limit:.0f} s")
    return signal.SIGKILL


def visible(folder: Path) -> list[str]:
    """The names in a folder, without temporary ones of ours."""
    return sorted(path.name for path in folder.iterdir() if not path.name.endswith(".condiff-part"))


def leftovers(folder: Path) -> list[str]:
    """Temporary names that were not swept up."""
    return sorted(str(path) for path in folder.rglob("*.condiff-part"))


class Kills(Campaign):
    """Save, predict, fit, reproduce, fetch and the checkpoints of sharded fits, killed; then done to the end."""

    name, group = "kill", "kills"

    def prepare(self, folder: Path) -> None:
        from condiff import COINClassifier
        from condiff.cli import app

        self.folder, self.main = folder, app.main
        X = np.random.default_rng(0).normal(size=(30, 3)).round(3)
        with (folder / "table.csv").open("w", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(["id", "a", "b", "c", "kind"])
            writer.writerows([f"r{i}", *X[i], "xy"[i % 2] if i < 12 else ""] for i in range(30))
        with quiet():
            self.models = [
                COINClassifier(epochs=2, n_inits=1, base="residual", random_state=seed).fit(X, np.arange(30) % 2)
                for seed in range(2)
            ]
        self._command("fit", folder / "table.csv", "--target", "kind", "--out", folder / "model", "--force")
        self._command("predict", folder / "model", folder / "table.csv", "--out", folder / "answers.csv")
        self.answers = (folder / "answers.csv").read_bytes()
        self.kinds = [
            *(self._save, self._store, self._predict, self._fetch, self._checkpoint, self._text),
            *(self._save, self._store, self._two_writers, self._full, self._save, self._fit),
            *(self._disk, self._spawned, self._threads, self._clock),
        ]
        try:
            in_child(lambda: _own_disk(folder))
            self.disks = True
        except Finding:  # not Linux, or not allowed to mount
            self.disks = False

    def run(self, number: int, folder: Path) -> str:
        random = self.random(number)
        return self.kinds[number % len(self.kinds)](random, folder)

    def _command(self, *words: object) -> None:
        sys.argv = ["condiff", *map(str, words)]
        with quiet(), contextlib.suppress(SystemExit):
            self.main()

    def _save(self, random: Random, folder: Path) -> str:
        from condiff import files, load

        target = folder / "model"
        self.models[0].save(target, "old")
        simple = random.random() < 0.2

        def save() -> None:
            point = Failpoint(random.randrange(1, 20))
            plain = files._exchange

            def exchange(*paths: Path) -> bool:
                point.reach()
                done = False if simple else plain(*paths)
                point.reach()
                return done

            files._exchange = exchange  # type: ignore[assignment]
            self.models[1].save(target, "new")

        ended = in_child(save)
        if not simple:  # names that cannot be exchanged may leave the place empty, until the next save
            found = load(target)
            if found.metadata_ not in ("old", "new") or visible(folder) != ["model"]:
                raise Finding(f"a save that was killed left {visible(folder)} and {found.metadata_!r}")
        self.models[1].save(target, "next")
        if load(target).metadata_ != "next" or leftovers(folder):
            raise Finding(f"the next save left {leftovers(folder)}")
        return "killed" if ended else "read"

    def _text(self, random: Random, folder: Path) -> str:
        from condiff.files import read_sealed, write_sealed

        path = folder / "x.json"
        content = {"format": "x", "schema": 1, "text": "y" * 1000}
        write_sealed(path, content | {"old": True})

        def write() -> None:
            Failpoint(random.randrange(1, 8))
            write_sealed(path, content | {"old": False})

        ended = in_child(write)
        read_sealed(path, "x", 1, what="thing", mend="write it")
        write_sealed(path, content)
        if leftovers(folder):
            raise Finding(f"left {leftovers(folder)}")
        return "killed" if ended else "read"

    def _predict(self, random: Random, folder: Path) -> str:
        out = folder / "answers.csv"
        out.write_text("old")

        def predict() -> None:
            Failpoint(random.randrange(1, 8))
            self._command("predict", self.folder / "model", self.folder / "table.csv", "--out", out)

        ended = in_child(predict)
        if out.read_bytes() not in (b"old", self.answers) or visible(folder) != ["answers.csv"]:
            raise Finding("answers are half written")
        return "killed" if ended else "read"

    def _fit(self, random: Random, folder: Path) -> str:
        from condiff import load

        target = folder / "model"
        self.models[0].save(target, "old")
        words = ("fit", self.folder / "table.csv", "--target", "kind", "--out", target, "--force")
        at, moment = (random.randrange(1, 24), None) if random.random() < 0.6 else (10**9, random.random() * 0.7)

        def fit() -> None:
            Failpoint(at)
            self._command(*words)

        ended = in_child(fit, moment)
        found = load(target)
        if visible(folder) != ["model"]:
            raise Finding(f"a fit that was killed left {visible(folder)}")
        if ended is None and found.metadata_ == "old":
            raise Finding("a fit that ended has written nothing")
        return "killed" if ended else "read"

    def _full(self, random: Random, folder: Path) -> str:
        """No file may grow past some bytes, as on a disk that runs full: one line, and what was there stays."""
        from condiff import load
        from condiff.errors import CondiffError
        from condiff.reproduce.store import Store

        self.models[0].save(folder / "model", "old")
        (folder / "answers.csv").write_text("old")
        what, room = random.randrange(3), random.choice((0, 10, 1000, 5000, 20_000))

        def write() -> None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
            with contextlib.suppress(CondiffError):
                if what == 0:
                    self.models[1].save(folder / "model", "new")
                elif what == 1:
                    with Store(folder / "runs.sqlite") as store:
                        for key, run in runs(60):
                            store.add(key, run, {"torch": "2"})
                else:
                    self._command(
                        "predict", self.folder / "model", self.folder / "table.csv", "--out", folder / "answers.csv"
                    )

        in_child(write)
        if load(folder / "model").metadata_ not in ("old", "new") or leftovers(folder):
            raise Finding(f"a full disk left {leftovers(folder)}")
        if (folder / "answers.csv").read_bytes() not in (b"old", self.answers):
            raise Finding("answers are half written")
        with Store(folder / "again.sqlite" if what != 1 else folder / "runs.sqlite") as store:
            for key, run in runs(60):
                store.add(key, run, {"torch": "2"})
            if len(store) != 60:
                raise Finding("runs were lost or counted twice")
        return "refused"

    def _disk(self, random: Random, folder: Path) -> str:
        """A real disk that is full or read-only, where this process may have one of its own."""
        if not self.disks:
            return self._full(random, folder)
        from condiff import load
        from condiff.errors import CondiffError

        disk, room = folder / "disk", random.choice((None, 0, 4096, 8192, 16_384, 32_768))
        disk.mkdir()

        def write() -> None:
            _own_disk(disk)
            self.models[0].save(disk / "model", "old")
            (disk / "answers.csv").write_text("old")
            usage = os.statvfs(disk)
            used = (usage.f_blocks - usage.f_bfree) * usage.f_frsize
            _mount(disk, _REMOUNT | _READ_ONLY if room is None else _REMOUNT, b"" if room is None else used + room)
            refusals = 0
            try:
                self.models[1].save(disk / "model", "new")
            except CondiffError:
                refusals += 1
            self._command("predict", self.folder / "model", self.folder / "table.csv", "--out", disk / "answers.csv")
            if load(disk / "model").metadata_ != ("old" if refusals else "new") or leftovers(disk):
                raise Finding(f"a full disk left {leftovers(disk)}")
            if (disk / "answers.csv").read_bytes() not in ((b"old",) if room is None else (b"old", self.answers)):
                raise Finding("answers are half written")
            if not refusals and room in (None, 0):
                raise Finding("a model was written where there was no room")

        in_child(write)
        return "refused"

    def _spawned(self, random: Random, folder: Path) -> str:
        """Two new processes, not forks of this one, add to one store; one is killed."""
        from condiff.reproduce.store import Store

        path, spawn = folder / "runs.sqlite", multiprocessing.get_context("spawn")
        writers = [spawn.Process(target=add_runs, args=(path, 12)) for _ in range(2)]
        for writer in writers:
            writer.start()
        writers[0].join(random.random() * 3)
        writers[0].kill()
        for writer in writers:
            writer.join()
        with Store(path) as store:
            if writers[1].exitcode or sorted(run.split for run in store.runs()) != list(range(12)):
                raise Finding(f"runs were lost or counted twice; the writer ended with {writers[1].exitcode}")
        return "killed"

    def _threads(self, random: Random, folder: Path) -> str:
        """Threads of one process save to one place and read from it at once."""
        from condiff import load

        target, points = folder / "model", np.random.default_rng(0).normal(size=(5, 3))
        answers = {name: model.predict_proba(points) for name, model in zip(("old", "new"), self.models, strict=True)}
        self.models[0].save(target, "old")

        def one(number: int) -> bool:
            if number % 3 == 0:
                name = random.choice(("old", "new"))
                self.models[name == "new"].save(target, name)
                return True
            found = load(target)
            return np.array_equal(found.predict_proba(points), answers[str(found.metadata_)])

        with ThreadPoolExecutor(4) as pool:
            if not all(pool.map(one, range(12))):
                raise Finding("a thread read a mixture")
        if leftovers(folder) or visible(folder) != ["model"]:
            raise Finding(f"threads left {leftovers(folder)} and {visible(folder)}")
        return "read"

    def _clock(self, random: Random, folder: Path) -> str:
        """The clock jumps by years, forwards and back, and so do the times of what a killed save left behind."""
        from condiff import load

        target = folder / "model"
        self.models[0].save(target, "old")

        def jump() -> None:
            moments = iter(lambda: random.uniform(-2e9, 4e9), None)
            time.time = lambda: next(moments)  # type: ignore[assignment,return-value]
            time.time_ns = lambda: int(next(moments) * 1e9)  # type: ignore[operator]

        def save() -> None:
            jump()
            Failpoint(random.randrange(1, 20))
            self.models[1].save(target, "new")

        ended = in_child(save)
        for left in leftovers(folder):
            os.utime(left, (moment := random.uniform(0, 4e9), moment))

        def go_on() -> None:
            jump()
            self.models[1].save(target, "next")
            self._command("predict", target, self.folder / "table.csv", "--out", folder / "answers.csv")

        in_child(go_on)
        if load(target).metadata_ != "next" or leftovers(folder):
            raise Finding(f"a clock that jumps left {leftovers(folder)}")
        return "killed" if ended else "read"

    def _two_writers(self, random: Random, folder: Path) -> str:
        """Two processes save to one place, and a third reads from it; one of the writers is killed."""
        from condiff import load

        target = folder / "model"
        self.models[0].save(target, "old")

        def save_often() -> None:
            for _ in range(6):
                self.models[1].save(target, "new")

        def read_often() -> None:
            for _ in range(6):
                if load(target).metadata_ not in ("old", "new"):
                    raise Finding("a reader saw a mixture")

        with ThreadPoolExecutor(2) as pool:
            writers = [pool.submit(in_child, save_often), pool.submit(in_child, save_often, random.random() * 0.1)]
            in_child(read_often)
            for writer in writers:
                writer.result()
        self.models[1].save(target, "next")
        if load(target).metadata_ != "next" or leftovers(folder) or visible(folder) != ["model"]:
            raise Finding(f"two writers left {leftovers(folder)} and {visible(folder)}")
        return "killed"

    def _store(self, random: Random, folder: Path) -> str:
        from condiff.reproduce import store as module

        path, every = folder / "runs.sqlite", runs(12)
        at, moment = (random.randrange(1, 38), None) if random.random() < 0.7 else (10**9, random.random() * 0.05)

        def sweep() -> None:
            point = Failpoint(at)
            with module.Store(path) as store:
                store._connection = _Counted(store._connection, point)  # type: ignore[assignment]
                for key, run in every:
                    if key.digest not in store.find([key]):
                        store.add(key, run, {"torch": "2"})

        ended = [in_child(sweep, moment), in_child(sweep, moment)][0]
        with module.Store(path) as store:
            for key, run in every:
                store.add(key, run, {"torch": "2"})
            if sorted(run.split for run in store.runs()) != list(range(12)):
                raise Finding("runs were lost or counted twice")
        return "killed" if ended else "read"

    def _checkpoint(self, random: Random, folder: Path) -> str:
        import torch

        from condiff.distributed import checkpoint

        def save(epoch: int) -> None:
            record = checkpoint.Record({"x": 1}, [0.5] * epoch, 0.5, 0.5, 0)
            checkpoint.save(folder, record, {"base.w": torch.full((3,), float(epoch))})

        save(1)

        def go_on() -> None:
            Failpoint(random.randrange(1, 16))
            save(2)

        ended = in_child(go_on)
        content, tensors = checkpoint._read(folder)
        if content is None or tensors is None or len(json.loads(content)["losses"]) not in (1, 2):
            raise Finding("a checkpoint was lost")
        save(3)
        if len(list(folder.glob("epoch-*"))) != 1:
            raise Finding(f"checkpoints pile up: {visible(folder)}")
        return "killed" if ended else "read"

    def _fetch(self, random: Random, folder: Path) -> str:
        from condiff.reproduce.datasets import download
        from condiff.reproduce.datasets.registry import DataFile

        content = bytes(range(256)) * 400
        file = DataFile("set/x.bin", len(content), hashlib.sha256(content).hexdigest())
        at, moment = (random.randrange(1, 8), None) if random.random() < 0.7 else (10**9, random.random() * 0.05)
        with _served(content) as address:

            def fetch() -> None:
                Failpoint(at)
                download.from_address(file, address, folder)

            ended = in_child(fetch, moment)
            path = folder / "set" / "x.bin"
            if path.exists() and path.read_bytes() != content:
                raise Finding("a download is half there")
            with contextlib.redirect_stderr(io.StringIO()):
                download.from_address(file, address, folder)
        if path.read_bytes() != content or leftovers(folder):
            raise Finding(f"left {leftovers(folder)}")
        return "killed" if ended else "read"


def add_runs(path: Path, number: int) -> None:
    """Add some runs to a store, slowly."""
    from condiff.reproduce.store import Store

    with Store(path) as store:
        for key, run in runs(number):
            time.sleep(0.02)
            if key.digest not in store.find([key]):
                store.add(key, run, {"torch": "2"})


# Of Linux: a view of the mounts that belongs to one process, and how to mount.
_OWN_MOUNTS, _READ_ONLY, _REMOUNT, _RECURSIVE_PRIVATE = 0x20000, 1, 32, 0x44000


def _mount(folder: Path, flags: int, size: int | bytes) -> None:
    options = b"size=%d" % size if isinstance(size, int) else size
    if ctypes.CDLL(None, use_errno=True).mount(b"tmpfs", bytes(folder), b"tmpfs", flags, options):
        raise OSError(ctypes.get_errno(), "mount")


def _own_disk(folder: Path) -> None:
    """Give this process, which must be a child, a disk of its own at a folder: nobody else sees it."""
    system = ctypes.CDLL(None, use_errno=True)
    if system.unshare(_OWN_MOUNTS) or system.mount(None, b"/", None, _RECURSIVE_PRIVATE, None):
        raise OSError(ctypes.get_errno(), "unshare")
    _mount(folder, 0, 1 << 24)


@contextlib.contextmanager
def _served(content: bytes) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            with contextlib.suppress(OSError):
                self.wfile.write(content)

        def log_message(self, *arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.005}, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/x"
        server.shutdown()
        thread.join()
