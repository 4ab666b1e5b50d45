"""Every click on disk before it is acknowledged: an append-only file of JSON lines, one for each decision.

The first line says which rows the others are about. A line is written and synchronised with the disk before anybody
hears of it; one that was cut off by a power failure was never acknowledged, and is taken away when the file is opened.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Literal, get_args

from condiff.errors import InvalidFileError, InvalidInputError

_locks: Any = None
with contextlib.suppress(ImportError):  # Windows has none of the kind
    import fcntl

    _locks = fcntl

#: What a person may say of a row: its class; later; I cannot tell; it has none of the classes; nothing, as before.
Kind = Literal["label", "skip", "unsure", "none", "open"]
_FORMAT = "condiff labels/1"


@dataclass(frozen=True)
class Decision:
    """What was said of a row.

    Attributes
    ----------
    number
        Its place in the journal, from 1.
    row
        The row of the table, from 0.
    kind, label
        What was said; the label is "" unless the kind is ``"label"``.
    before
        The number of the decision that it replaces, 0 for what the table itself says.
    who
        The browser that it came from.
    time
        When, in UTC.
    undoes
        The number of the decision that it takes back, 0 for none.
    drawn
        Whether the row was drawn at random, to measure how good the answers are.
    """

    number: int
    row: int
    kind: Kind
    label: str
    before: int
    who: str
    time: str
    undoes: int = 0
    drawn: bool = False


class Journal:
    """The decisions about the rows of one table.

    Parameters
    ----------
    path
        The file; it is made where there is none.
    about
        What the rows are: plain values. A journal about something else is refused.
    n_rows
        How many rows there are.
    """

    def __init__(self, path: Path, about: dict[str, Any], n_rows: int) -> None:
        self.path, self.n_rows = path, n_rows
        self.decisions: list[Decision] = []
        #: The last decision about each row.
        self.last: dict[int, Decision] = {}
        self._stream: IO[bytes] = path.open("a+b")
        try:
            self._claim()
            self._replay({"format": _FORMAT, **about})
        except BaseException:
            self._stream.close()
            raise

    def close(self) -> None:
        """Let others open the file."""
        self._stream.close()

    def write(self, row: int, kind: Kind, label: str, who: str, *, undoes: int = 0, drawn: bool = False) -> Decision:
        """Put a decision on disk; when this returns, nothing but the loss of the disk can undo it."""
        before = self.last[row].number if row in self.last else 0
        time = datetime.now(UTC).isoformat(timespec="seconds")
        found = Decision(len(self.decisions) + 1, row, kind, label, before, who, time, undoes, drawn)
        self._append(asdict(found))
        self._take(found)
        return found

    def is_fair(self, row: int) -> bool:
        """Whether a row was not asked for because it is hard: drawn at random, or as the table came."""
        last = self.last.get(row)
        return last is None or last.drawn or last.kind == "open"

    def undo(self, who: str) -> Decision | None:
        """Take back the last decision of a browser that still stands; None where there is none."""
        taken_back = {each.undoes for each in self.decisions}
        for last in reversed(self.decisions):
            stands = self.last[last.row] is last
            if last.who == who and not last.undoes and last.number not in taken_back and stands:
                before = self.decisions[last.before - 1] if last.before else None
                if before is None:
                    return self.write(last.row, "open", "", who, undoes=last.number)
                return self.write(last.row, before.kind, before.label, who, undoes=last.number, drawn=before.drawn)
        return None

    def _take(self, decision: Decision) -> None:
        self.decisions.append(decision)
        self.last[decision.row] = decision

    def _append(self, content: dict[str, Any]) -> None:
        line = json.dumps(content, ensure_ascii=False).encode() + b"\n"
        size = self._stream.seek(0, os.SEEK_END)
        try:
            self._stream.write(line)
            self._stream.flush()
            os.fsync(self._stream.fileno())
        except OSError as error:
            # A disk that ran full may hold half of a line: the next one must not continue it.
            with contextlib.suppress(OSError):
                os.ftruncate(self._stream.fileno(), size)
            self._stream = self._reopened()
            raise InvalidFileError(f"{self.path} cannot be written ({error.strerror}): free some room") from error

    def _reopened(self) -> IO[bytes]:
        """A stream without what the last one still wants to write; the lock goes along."""
        fresh = os.fdopen(os.dup(self._stream.fileno()), "a+b")
        with contextlib.suppress(OSError):
            self._stream.close()
        return fresh

    def _claim(self) -> None:
        if _locks is None:
            return
        try:
            _locks.flock(self._stream.fileno(), _locks.LOCK_EX | _locks.LOCK_NB)
        except BlockingIOError:
            raise InvalidInputError(
                f"{self.path} is in use: condiff label is running on this table already; go to its page"
            ) from None
        except OSError:
            pass  # a file system without locks

    def _replay(self, header: dict[str, Any]) -> None:
        self._stream.seek(0)
        content = self._stream.read()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            os.ftruncate(self._stream.fileno(), whole)
        lines = list(self._lines(content[:whole]))
        if not lines:
            self._append(header)
            if os.name == "posix":  # the file's name must be on disk too
                folder = os.open(self.path.resolve().parent, os.O_RDONLY)
                try:
                    os.fsync(folder)
                finally:
                    os.close(folder)
            return
        if lines[0] != header:
            raise InvalidFileError(
                f"{self.path} holds labels of other rows than these: the table has changed since; move the file away "
                "to begin anew, or bring the old table back"
            )
        for number, line in enumerate(lines[1:], start=1):
            self._take(self._decision(number, line))

    def _lines(self, content: bytes) -> Iterator[Any]:
        for number, line in enumerate(content.split(b"\n")[:-1], start=1):
            try:
                yield json.loads(line)
            except (ValueError, RecursionError) as error:
                raise self._damaged(number) from error

    def _decision(self, number: int, line: Any) -> Decision:
        try:
            found = Decision(**line)
        except TypeError as error:
            raise self._damaged(number + 1) from error
        whole = all(type(each) is int for each in (found.number, found.row, found.before, found.undoes))
        words = all(isinstance(each, str) for each in (found.label, found.who, found.time)) and isinstance(
            found.drawn, bool
        )
        if not (whole and words and found.number == number and 0 <= found.row < self.n_rows):
            raise self._damaged(number + 1)
        before = self.last[found.row].number if found.row in self.last else 0
        if found.before != before or found.kind not in get_args(Kind) or not 0 <= found.undoes < number:
            raise self._damaged(number + 1)
        return found

    def _damaged(self, line: int) -> InvalidFileError:
        return InvalidFileError(
            f"{self.path}, line {line}, is damaged: take that line and those below it away, or move the file"
        )
