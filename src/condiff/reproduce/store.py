"""The store of runs: one row a run in one SQLite file, so that a sweep that was killed goes on where it stopped."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from condiff.errors import InvalidFileError, InvalidInputError
from condiff.reproduce.runs import Run

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

_SCHEMA = """
CREATE TABLE IF NOT EXISTS runs (
    key TEXT PRIMARY KEY,
    task TEXT NOT NULL,
    dataset TEXT NOT NULL,
    method TEXT NOT NULL,
    settings TEXT NOT NULL,
    split INTEGER NOT NULL,
    init INTEGER NOT NULL,
    metrics TEXT NOT NULL,
    epochs INTEGER NOT NULL,
    seconds REAL NOT NULL,
    memory_mb REAL NOT NULL,
    identity TEXT NOT NULL,
    made TEXT NOT NULL
) WITHOUT ROWID
"""
_COLUMNS = "task, dataset, method, settings, split, init, metrics, epochs, seconds, memory_mb"
# Marks the file as one of ours, and its layout.
_APPLICATION, _LAYOUT = 0x434F4E44, 1


@dataclass(frozen=True)
class Key:
    """What a run is known by: any difference in it is another run.

    Parameters
    ----------
    task, dataset, method, settings, split, init
        As in :class:`Run`.
    identity
        Fingerprints of what the names stand for: the data's content and, after a slash, the split's. A graph that was
        edited under its old name, or another kind of split with the same seed, is another run.
    """

    task: str
    dataset: str
    method: str
    settings: dict[str, Any]
    split: int
    init: int
    identity: str = ""

    @property
    def digest(self) -> str:
        """A SHA-256 over all parts in one canonical form."""
        parts = [self.task, self.dataset, self.method, self.settings, self.split, self.init, self.identity]
        return hashlib.sha256(_canonical(parts).encode()).hexdigest()

    def run(self, metrics: dict[str, float], *, epochs: int, seconds: float, memory_mb: float) -> Run:
        """What was measured under this key."""
        known = self.task, self.dataset, self.method, self.settings, self.split, self.init
        return Run(*known, metrics, epochs, seconds, memory_mb)


class Store:
    """A file of runs, safe against kills and against several writers at once.

    Every run is written in a transaction of its own, and a key is held once: adding it again changes nothing.

    Parameters
    ----------
    path
        The file; it is made, with its folder, unless it exists.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            # Autocommit: one statement is one transaction. Another writer is waited for.
            self._connection = sqlite3.connect(self.path, timeout=60.0, isolation_level=None)
            self._open()
        except sqlite3.Error as error:
            raise InvalidFileError(
                f"{self.path} cannot be used as a store of runs ({error}): move it away or name another folder"
            ) from error

    def _open(self) -> None:
        application = self._connection.execute("PRAGMA application_id").fetchone()[0]
        layout = self._connection.execute("PRAGMA user_version").fetchone()[0]
        tables = self._connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if tables and (application, layout) != (_APPLICATION, _LAYOUT):
            self._connection.close()
            raise InvalidFileError(f"{self.path} is a database, but not a store of runs of this version: move it away")
        # A write-ahead log: readers do not wait for writers, and a kill leaves the last whole transaction.
        # A run of more than a quarter of a page gets pages of its own: those of a new file hold runs with curves.
        self._connection.execute("PRAGMA page_size = 8192")
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = NORMAL")
        self._connection.execute(_SCHEMA)
        self._connection.execute(f"PRAGMA application_id = {_APPLICATION}")
        self._connection.execute(f"PRAGMA user_version = {_LAYOUT}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Fold the log into the file and let go of it."""
        with self._told():
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._connection.close()

    def add(self, key: Key, run: Run, made: dict[str, str]) -> bool:
        """Keep a run, with what made it (versions, date); False where its key is held already."""
        row = (
            key.digest,
            run.task,
            run.dataset,
            run.method,
            _canonical(run.settings),
            run.split,
            run.init,
            _canonical(run.metrics),
            run.epochs,
            run.seconds,
            run.memory_mb,
            key.identity,
            _canonical(made),
        )
        with self._told():
            marks = ", ".join("?" * len(row))
            cursor = self._connection.execute(
                f"INSERT OR IGNORE INTO runs (key, {_COLUMNS}, identity, made) VALUES ({marks})", row
            )
        return cursor.rowcount == 1

    def find(self, keys: Iterable[Key]) -> dict[str, Run]:
        """The runs that are held of these keys, by digest."""
        found = {}
        with self._told():
            for key in keys:
                query = f"SELECT {_COLUMNS} FROM runs WHERE key = ?"
                row = self._connection.execute(query, (key.digest,)).fetchone()
                if row is not None:
                    found[key.digest] = _run(row)
        return found

    def held(self, keys: Sequence[Key]) -> list[Run]:
        """The runs of these keys, in their order, without those that are not held."""
        found = self.find(keys)
        return [found[key.digest] for key in keys if key.digest in found]

    def refuse_mixture(self, keys: Iterable[Key]) -> None:
        """Raise an error where runs of the same names are held that were made of other data.

        Tables tell runs apart by their names alone, and would show the mean of both.
        """
        query = "SELECT DISTINCT task, dataset, method, settings, identity FROM runs"
        with self._told():
            held = {tuple(names): _data_of(identity) for *names, identity in self._connection.execute(query)}
        for key in keys:
            names = key.task, key.dataset, key.method, _canonical(key.settings)
            if held.get(names, _data_of(key.identity)) != _data_of(key.identity):
                raise InvalidInputError(
                    f"{self.path} holds runs of {key.method} on other data of the name {key.dataset}, "
                    "and a table would show the mean of both: name another folder, or move that file away"
                )

    def runs(self, task: str | None = None) -> list[Run]:
        """Every run, or every run of a task, in an order that does not depend on when it was made."""
        query = f"SELECT {_COLUMNS} FROM runs WHERE ? IS NULL OR task = ? ORDER BY {_COLUMNS}"
        with self._told():
            return [_run(row) for row in self._connection.execute(query, (task, task))]

    def makers(self, task: str | None = None) -> list[dict[str, Any]]:
        """What made the runs, each with the number of its ``runs``, most first."""
        query = "SELECT made, count(*) FROM runs WHERE ? IS NULL OR task = ? GROUP BY made ORDER BY count(*) DESC, made"
        with self._told():
            found = self._connection.execute(query, (task, task)).fetchall()
        return [{**json.loads(made), "runs": count} for made, count in found]

    def __len__(self) -> int:
        with self._told():
            return int(self._connection.execute("SELECT count(*) FROM runs").fetchone()[0])

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise InvalidFileError(f"{self.path}: {error}") from error


def _run(row: tuple[Any, ...]) -> Run:
    task, dataset, method, settings, split, init, metrics, epochs, seconds, memory = row
    return Run(task, dataset, method, json.loads(settings), split, init, json.loads(metrics), epochs, seconds, memory)


def _data_of(identity: str) -> str:
    return identity.partition("/")[0]


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
