"""Atomic writes and checksums: a reader sees the whole new file or the old one, never a part or a changed one."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import platformdirs

from condiff.errors import InvalidFileError


def cache_folder() -> Path:
    """The folder of downloads and of what is costly to compute: ``CONDIFF_CACHE``, or the operating system's."""
    if configured := os.environ.get("CONDIFF_CACHE"):
        return Path(configured).expanduser()
    return Path(platformdirs.user_cache_dir("condiff"))


def sha256(path: Path) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@contextlib.contextmanager
def atomic_path(target: Path) -> Iterator[Path]:
    """A temporary path beside ``target`` that becomes ``target`` only if the block succeeds."""
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def atomic_folder(target: Path) -> Iterator[Path]:
    """A temporary folder beside ``target`` that takes its place only if the block succeeds."""
    target = target.resolve()  # behind a link, the folder itself is replaced
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    retired = temporary.with_name(temporary.name + ".old")
    try:
        yield temporary
        temporary.chmod(0o777 & ~_umask())
        for path in temporary.rglob("*"):  # some writers make files for the owner alone
            path.chmod((0o777 if path.is_dir() else 0o666) & ~_umask())
        if target.is_dir():  # a plain file is not ours to replace: the renaming below fails
            target.replace(retired)
        try:
            temporary.replace(target)
        except BaseException:
            if retired.exists():
                retired.replace(target)
            raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        shutil.rmtree(retired, ignore_errors=True)


def write_text(target: Path, text: str) -> None:
    """Write UTF-8 text atomically."""
    with atomic_path(target) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_sealed(target: Path, content: dict[str, Any]) -> None:
    """Write JSON atomically, with a checksum over all of it."""
    sealed = {**content, "checksum": _checksum(content)}
    write_text(target, json.dumps(sealed, indent=2, allow_nan=False) + "\n")


def read_sealed(path: Path, form: str, schema: int, *, what: str, mend: str) -> dict[str, Any]:
    """What :func:`write_sealed` wrote, without the checksum; a damaged, foreign or changed file is refused.

    Parameters
    ----------
    path
        The file, which says what its folder holds.
    form, schema
        What its entries ``format`` and ``schema`` must be.
    what, mend
        For the messages: what the folder holds, and how to come by a good one.
    """
    if not path.is_file():
        raise InvalidFileError(f"{path.parent} is not a condiff {what}: it has no {path.name}")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise InvalidFileError(f"{path} is damaged or not JSON ({error}); {mend}") from error
    if not isinstance(content, dict) or content.get("format") != form:
        raise InvalidFileError(f"{path} does not describe a condiff {what}")
    if content.get("schema") != schema:
        raise InvalidFileError(
            f"{path} has the schema {content.get('schema')!r}, but this version of condiff reads {schema}; "
            "load it with the version that wrote it"
        )
    if content.pop("checksum", None) != _checksum(content):
        raise InvalidFileError(f"{path} was changed after it was written; {mend}")
    return content


def _checksum(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _umask() -> int:
    # The only way to read the mask is to set it; this is called from one thread at a time.
    mask = os.umask(0)
    os.umask(mask)
    return mask
