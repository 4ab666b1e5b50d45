"""What the commands print: results on standard output, everything else on standard error."""

from __future__ import annotations

import contextlib
import csv
import json
import shlex
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO, TypeVar

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table as Grid

from condiff.errors import InvalidInputError, shortened
from condiff.files import resolved

Item = TypeVar("Item")

# Seconds between progress lines, where there is no terminal for a spinner.
_BEAT = 10.0


def printable(text: str) -> str:
    """The text without what a terminal would obey: names and cells of foreign files may hold its commands."""
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text)


class _Console(Console):
    """Rich's, which passes commands to the terminal on."""

    def print(self, *objects: Any, **options: Any) -> None:
        super().print(*(printable(each) if isinstance(each, str) else each for each in objects), **options)


console = _Console(soft_wrap=True, highlight=False)


def error_line(message: str) -> None:
    """Print an error as exactly one line on standard error."""
    print(f"condiff: error: {_one_line(message)}", file=sys.stderr)


def _one_line(message: str) -> str:
    return printable(shortened(" ".join(message.split()), 1000, 300))


def warning_line(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a warning as one line on standard error, without the source line, which means nothing to a user."""
    print(f"condiff: warning: {_one_line(str(message))}", file=sys.stderr)


def note(message: str) -> None:
    """Report progress on standard error."""
    print(printable(message), file=sys.stderr, flush=True)


def typed() -> str:
    """The command as it was typed, for the record; of an absolute path only its last part."""
    words = []
    for word in sys.argv[1:]:
        option, equals, value = word.rpartition("=")
        words.append(f"{option}{equals}{Path(value).name}" if Path(value).is_absolute() else word)
    return shlex.join(["condiff", *words])


def print_json(rows: Sequence[Any] | dict[str, Any]) -> None:
    """Print JSON and nothing else on standard output."""
    sys.stdout.write(json.dumps(rows, indent=2, allow_nan=False) + "\n")


@contextlib.contextmanager
def working(what: str) -> Iterator[None]:
    """Show that work of unknown length is under way: a spinner on a terminal, a line every ten seconds otherwise."""
    if sys.stderr.isatty():
        with Console(stderr=True).status(f"{what} ..."):
            yield
        return
    started, done = time.perf_counter(), threading.Event()

    def beat() -> None:
        while not done.wait(_BEAT):
            note(f"{what} ... {time.perf_counter() - started:.0f} s")

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def check_out(out: Path, *inputs: Path, suffixes: Sequence[str] = ()) -> None:
    """Refuse to overwrite an input, and to write an unknown kind of file."""
    if suffixes and out.suffix not in suffixes:
        raise InvalidInputError(f"--out must end in {' or '.join(suffixes)}, but is {out}")
    for path in inputs:
        if resolved(out) == resolved(path) or (out.exists() and path.exists() and out.samefile(path)):
            raise InvalidInputError(f"--out {out} is also an input, which would be lost: choose another name")


FORMULAS_HELP = "Write text that a spreadsheet would run as a formula (=...) as it is, without a ' before it."
# What begins a formula in Excel, LibreOffice and Google Sheets.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def write_csv(header: Iterable[Any], rows: Iterable[Iterable[Any]], stream: TextIO, *, formulas: bool = False) -> int:
    """Write a table that is safe to open in a spreadsheet; returns the number of cells that were changed for it.

    Names, labels and ids come from files of others, and a cell such as ``=HYPERLINK(...)`` is run by whoever opens the
    table. Such text gets a ``'`` before it, unless ``formulas`` are wanted; numbers and lone signs are left alone.
    """
    from condiff.readers.cells import as_number

    changed = 0

    def plain(cell: Any) -> Any:
        nonlocal changed
        if formulas or not isinstance(cell, str) or not cell.startswith(_FORMULA) or len(cell) < 2:
            return cell
        if cell[0] in "+-" and as_number(cell) is not None:
            return cell
        changed += 1
        return f"'{cell}"

    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([plain(cell) for cell in header])
    for row in rows:
        writer.writerow([plain(cell) for cell in row])
    return changed


def formula_notes(changed: int) -> list[str]:
    """What to say of cells that were changed, if any."""
    many = f"{counted(changed, 'cell')} that a spreadsheet would run as a formula"
    return [f"{many} now begin{'s' * (changed == 1)} with ': --formulas writes them as they are"] * (changed > 0)


class NamedLines:
    """Lines under names, which stand before the first of them."""

    def __init__(self) -> None:
        self._grid = Grid(box=None, show_header=False, pad_edge=False)
        self._grid.add_column(style="bold")
        self._grid.add_column(overflow="fold")

    def add(self, name: str, lines: Sequence[str]) -> None:
        for position, line in enumerate(lines):
            self._grid.add_row(name if position == 0 else "", escape(line))

    def show(self) -> None:
        console.print(self._grid)


def counted(number: int, what: str) -> str:
    """``1 row``, ``2 rows``."""
    return f"{number} {what}{'s' * (number != 1)}"


def progress(items: Iterable[Item], total: int, label: str) -> Iterator[Item]:
    """Iterate with a progress bar on a terminal, and with about ten plain lines otherwise."""
    if sys.stderr.isatty():
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            yield from bar.track(items, total=total, description=label)
        return
    step = max(1, total // 10)
    for done, item in enumerate(items, start=1):
        yield item
        if done % step == 0 or done == total:
            print(f"{label}: {done} of {total}", file=sys.stderr)


@contextlib.contextmanager
def batches_shown(label: str) -> Iterator[Callable[[int, int], None]]:
    """A function of how many are done, and of all: a bar on a terminal, about ten plain lines otherwise."""
    if not sys.stderr.isatty():
        shown = 0

        def line(done: int, total: int) -> None:
            nonlocal shown
            if done == total or done - shown >= max(256, total // 10):
                shown = done
                note(f"{label}: {done} of {total}")

        yield line
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, visible=False)
        yield lambda done, total: bar.update(task, completed=done, total=total, visible=done < total)
