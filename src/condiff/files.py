"""Atomic writes and checksums: a reader sees the whole new file or the old one, never a part."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path


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


def _umask() -> int:
    # The only way to read the mask is to set it; this is called from one thread at a time.
    mask = os.umask(0)
    os.umask(mask)
    return mask
