"""The store of runs: one row per run in one SQLite file, so that a sweep that was killed resumes where it stopped."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from condiff.errors import InvalidFileError, InvalidInputError
from condiff.files import reason
from condiff.reproduce.migration import migrate
from condiff.reproduce.runs import Condition, Key, Run, canonical

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

#: What made a run (command, versions, machine) is the same for thousands of them, and so in a table of its own.
_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS makers (id INTEGER PRIMARY KEY, made TEXT NOT NULL UNIQUE)",
    """
    CREATE TABLE IF NOT EXISTS runs (
        key TEXT PRIMARY KEY,
        task TEXT NOT NULL,
        dataset TEXT NOT NULL,
        condition TEXT NOT NULL,
        method TEXT NOT NULL,
        settings TEXT NOT NULL,
        split INTEGER NOT NULL,
        init INTEGER NOT NULL,
        metrics TEXT NOT NULL,
        epochs INTEGER NOT NULL,
        seconds REAL NOT NULL,
        memory_mb REAL NOT NULL,
        identity TEXT NOT NULL,
        maker INTEGER NOT NULL REFERENCES makers (id)
    ) WITHOUT ROWID
    """,
)
_COLUMNS = "task, dataset, condition, method, settings, split, init, metrics, epochs, seconds, memory_mb"
_VALUES = (
    f"INTO runs (key, {_COLUMNS}, identity, maker) "
    f"VALUES ({', '.join('?' * 13)}, (SELECT id FROM makers WHERE made = ?))"
)
_INSERT, _REPLACE = f"INSERT OR IGNORE {_VALUES}", f"INSERT OR REPLACE {_VALUES}"
# What reading a damaged store may raise: SQLite itself, and what is made of the texts in it.
_DAMAGE = (sqlite3.Error, ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError)
# Marks the file as one of ours, and its layout.
_APPLICATION, _LAYOUT = 0x434F4E44, 2


class Store:
    """A file of runs, safe against kills and against several writers at once.

    Every run is written in a transaction of its own, and a key is stored once. A file of an older layout is migrated in
    one transaction when it is opened.

    Parameters
    ----------
    path
        The file; created, with its folder, if it does not exist.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # Autocommit: one statement is one transaction. Another writer is waited for.
        self._open(lambda: sqlite3.connect(self.path, timeout=60.0, isolation_level=None))

    @classmethod
    def snapshot(cls, path: Path | str) -> Self:
        """A copy of a store in memory, of any layout; the file and its folder are not touched."""
        self = cls.__new__(cls)
        self.path = Path(path)
        self._open(self._copy)
        return self

    def _copy(self) -> sqlite3.Connection:
        log = self.path.with_name(f"{self.path.name}-wal")
        # Only while a sweep is going on is there a log to be read too; else the file is all, and nothing is put beside.
        how = "mode=ro" if log.is_file() and log.stat().st_size else "mode=ro&immutable=1"
        memory = sqlite3.connect(":memory:", isolation_level=None)
        try:
            with closing(sqlite3.connect(f"{self.path.resolve().as_uri()}?{how}", uri=True)) as source:
                source.backup(memory)
        except BaseException:
            memory.close()
            raise
        return memory

    def _open(self, connect: Callable[[], sqlite3.Connection]) -> None:
        try:
            self._connection = connect()
        except sqlite3.Error as error:
            raise self._unusable(error) from error
        try:
            self._prepare()
        except BaseException as error:
            self._connection.close()
            if isinstance(error, InvalidFileError) or not isinstance(error, _DAMAGE):
                raise
            raise self._unusable(error) from error

    def _unusable(self, error: Exception) -> InvalidFileError:
        return InvalidFileError(f"{self.path} cannot be used as a store of runs ({reason(error)}): {_mend(error)}")

    def _prepare(self) -> None:
        execute = self._connection.execute
        application, layout = self._pragma("application_id"), self._pragma("user_version")
        tables = execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if tables and (application != _APPLICATION or layout not in (1, _LAYOUT)):
            raise InvalidFileError(f"{self.path} is a database, but not a store of runs of this version: move it away")
        # A write-ahead log: readers do not wait for writers, and a kill leaves the last whole transaction.
        # A run of more than a quarter of a page gets pages of its own: those of a new file hold runs with curves.
        execute("PRAGMA page_size = 8192")
        execute("PRAGMA journal_mode = WAL")
        execute("PRAGMA synchronous = NORMAL")
        if tables and layout == _LAYOUT:
            return
        execute("BEGIN IMMEDIATE")
        try:
            # Another process may have been first.
            old = bool(tables) and self._pragma("user_version") == 1
            if old:
                migrate(self._connection, self._create)
            self._create()
            execute(f"PRAGMA application_id = {_APPLICATION}")
            execute(f"PRAGMA user_version = {_LAYOUT}")
            execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):  # the disk may be the cause
                execute("ROLLBACK")
            raise
        if old:
            execute("VACUUM")

    def _create(self) -> None:
        for statement in _SCHEMA:
            self._connection.execute(statement)

    def _pragma(self, name: str) -> int:
        return int(self._connection.execute(f"PRAGMA {name}").fetchone()[0])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Fold the log into the file and close it."""
        try:
            with self._errors():
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            self._connection.close()

    def add(self, key: Key, run: Run, made: dict[str, str], *, replace: bool = False) -> bool:
        """Store a run, with what made it (versions, date).

        False where its key is already there, which stays as it is unless it is to be replaced.
        """
        maker = canonical(made)
        row = (
            key.digest,
            run.task,
            run.dataset,
            canonical(dict(run.condition)),
            run.method,
            canonical(run.settings),
            run.split,
            run.init,
            canonical(run.metrics),
            run.epochs,
            run.seconds,
            run.memory_mb,
            key.identity,
            maker,
        )
        with self._errors():
            # A maker without runs, left by a kill between the two, is harmless.
            self._connection.execute("INSERT OR IGNORE INTO makers (made) VALUES (?)", (maker,))
            cursor = self._connection.execute(_REPLACE if replace else _INSERT, row)
        return cursor.rowcount == 1

    def join(self, other: Path | str) -> int:
        """Add the runs of another store, made on another machine or at another time; how many were new."""
        before = len(self)
        with Store.snapshot(other) as found, self._errors():
            makers = dict(found._connection.execute("SELECT id, made FROM makers"))
            rows = found._connection.execute(f"SELECT key, {_COLUMNS}, identity, maker FROM runs").fetchall()
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                for made in makers.values():
                    self._connection.execute("INSERT OR IGNORE INTO makers (made) VALUES (?)", (made,))
                self._connection.executemany(_INSERT, [(*row, makers[maker]) for *row, maker in rows])
                self._connection.execute("COMMIT")
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
        return len(self) - before

    def find(self, keys: Iterable[Key]) -> dict[str, Run]:
        """The stored runs of these keys, by digest."""
        found = {}
        with self._errors():
            for digest in (key.digest for key in keys):
                query = f"SELECT {_COLUMNS} FROM runs WHERE key = ?"
                row = self._connection.execute(query, (digest,)).fetchone()
                if row is not None:
                    found[digest] = _run(row)
        return found

    def held(self, keys: Sequence[Key]) -> list[Run]:
        """The stored runs of these keys, in their order."""
        found = self.find(keys)
        return [found[key.digest] for key in keys if key.digest in found]

    def made(self, keys: Iterable[Key]) -> dict[str, dict[str, Any]]:
        """What made the stored runs of these keys, by digest."""
        query, found = "SELECT made FROM runs JOIN makers ON maker = id WHERE key = ?", {}
        with self._errors():
            for digest in (key.digest for key in keys):
                if (row := self._connection.execute(query, (digest,)).fetchone()) is not None:
                    found[digest] = dict(json.loads(row[0]))
        return found

    def check_same_data(self, keys: Iterable[Key]) -> None:
        """Raise an error where runs with the same names are stored that used other data.

        Tables distinguish runs by their names alone, and would show the mean of both.
        """
        query = "SELECT DISTINCT task, dataset, condition, method, settings, identity FROM runs"
        with self._errors():
            held = {tuple(names): identity.partition("/")[0] for *names, identity in self._connection.execute(query)}
        for key in keys:
            names = key.task, key.dataset, canonical(dict(key.condition)), key.method, canonical(key.settings)
            if held.get(names, key.data) != key.data:
                raise InvalidInputError(
                    f"{self.path} holds runs of {key.method} on other data called {key.dataset}, "
                    "and a table would show the mean of both: name another folder, or move that file away"
                )

    def runs(self, task: str | None = None) -> list[Run]:
        """Every run, or every run of a task, in an order that does not depend on when it was made."""
        query = f"SELECT {_COLUMNS} FROM runs WHERE ? IS NULL OR task = ? ORDER BY {_COLUMNS}"
        with self._errors():
            return [_run(row) for row in self._connection.execute(query, (task, task))]

    def makers(self, task: str | None = None) -> list[dict[str, Any]]:
        """What made the runs, each with the number of its ``runs``, most first."""
        query = (
            "SELECT made, count(*) FROM runs JOIN makers ON maker = id WHERE ? IS NULL OR task = ? "
            "GROUP BY id ORDER BY count(*) DESC, made"
        )
        with self._errors():
            found = self._connection.execute(query, (task, task)).fetchall()
        return [{**json.loads(made), "runs": count} for made, count in found]

    def __len__(self) -> int:
        with self._errors():
            return int(self._connection.execute("SELECT count(*) FROM runs").fetchone()[0])

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except _DAMAGE as error:
            if isinstance(error, InvalidFileError):
                raise
            raise self._unusable(error) from error


def _mend(error: Exception) -> str:
    """What to do about an error of SQLite's, which says only what is wrong."""
    said = str(error)
    if "full" in said:
        return "free some room and run the command again; finished runs are kept"
    if "locked" in said or "busy" in said:
        return "wait until the other sweep has ended"
    if "readonly" in said or "read-only" in said or "unable to open" in said:
        return "name a folder that you may write to"
    return "move it away and run the command again, or restore a copy (sqlite3 FILE .recover saves what it can)"


def _run(row: tuple[Any, ...]) -> Run:
    task, dataset, condition, method, settings, split, init, metrics, epochs, seconds, memory = row
    words, wholes = (task, dataset, method), (split, init, epochs)
    if not all(isinstance(each, str) for each in words) or not all(isinstance(each, int) for each in wholes):
        raise TypeError("a run has a value of the wrong kind")
    if not all(isinstance(each, int | float) for each in (seconds, memory)):
        raise TypeError("a run has a time that is no number")
    measured, chosen, under = json.loads(metrics), json.loads(settings), json.loads(condition)
    if not all(isinstance(each, dict) for each in (measured, chosen, under)):
        raise TypeError("a run has no settings or metrics")
    if not all(isinstance(value, int | float) for value in measured.values()):
        raise TypeError("a run has a metric that is no number")
    return Run(task, dataset, method, chosen, split, init, measured, epochs, seconds, memory, Condition(under))
