"""Reading and writing with care: a reader sees the whole new file or the old one, and nothing is believed of a file.

Writes are atomic: under a temporary name beside the target, which takes the target's place in one step. What a killed
process leaves behind is swept up by the next write to the same place. Reads are bounded: how much memory a file asks
for is told from its headers, and whatever goes wrong within a foreign file is one :class:`InvalidFileError`.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import hashlib
import json
import os
import re
import shutil
import stat
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import platformdirs

from condiff.errors import (
    CondiffError,
    InvalidFileError,
    InvalidInputError,
    MissingDependencyError,
    WriteError,
    shortened,
)

_locks: Any = None
with contextlib.suppress(ImportError):  # Windows has none of the kind
    import fcntl

    _locks = fcntl

# How temporary names end: long enough that nobody else's file is swept up with ours.
_PART = ".condiff-part"
# Values within values of a sealed file: a model has about ten.
_DEPTH = 64
#: What unpacks to so many bytes is always let through, and so many times its packed size.
FREE, RATIO = 256 << 20, 200
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NO_ACCESS = (errno.EACCES, errno.EPERM, errno.EROFS)
_ONE_AT_A_TIME = threading.Lock()
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def cache_folder() -> Path:
    """The folder of downloads and of what is costly to compute: ``CONDIFF_CACHE``, or the operating system's."""
    if configured := os.environ.get("CONDIFF_CACHE"):
        return Path(configured).expanduser()
    return Path(platformdirs.user_cache_dir("condiff"))


def sha256(path: Path) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


# ---- reading what may be hostile ----------------------------------------------------------------------------


def memory_budget() -> int:
    """How many bytes the content of one file may take: ``CONDIFF_MEMORY`` (such as 8G), or half of what is free."""
    if configured := os.environ.get("CONDIFF_MEMORY"):
        found = re.fullmatch(r"(\d{1,15})\s*([kmgt]?)b?", configured.strip().lower())
        if found is None:
            raise InvalidInputError(f"CONDIFF_MEMORY must be a number of bytes such as 8G, not {configured!r}")
        return int(found[1]) * _UNITS[found[2]]
    return min(_free_memory(), _free_addresses()) // 2


def _free_memory() -> int:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration, ValueError, IndexError):
        return 16 << 30  # not Linux: the system will say


def _free_addresses() -> int:
    """What a limit on the process leaves."""
    try:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit == resource.RLIM_INFINITY:
            return sys.maxsize
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        return max(0, limit - pages * resource.getpagesize())
    except (ImportError, OSError, ValueError):
        return sys.maxsize


def check_room(where: str | Path, size: int, mend: str, *, packed: int | None = None) -> None:
    """Refuse what would take too much memory, from what headers declare: before any of it is allocated.

    Parameters
    ----------
    where
        The file, or the part of it.
    size
        Bytes that its content will take.
    mend
        What to do, for the message.
    packed
        Bytes that the content takes in the file. No honest one is hundreds of times larger than those.
    """
    if packed is not None and size > max(FREE, RATIO * packed):
        raise InvalidFileError(
            f"{where} unpacks to {in_bytes(size)} from {in_bytes(packed)}, as no ordinary content does: {mend}"
        )
    if size > (room := memory_budget()):
        raise InvalidFileError(
            f"{where} would take {in_bytes(size)} of memory, and a file may take {in_bytes(room)} here: {mend}, or set "
            "CONDIFF_MEMORY"
        )


def in_bytes(size: int) -> str:
    """``1.5 MB``."""
    for unit, name in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if size >= unit:
            return f"{size / unit:,.1f} {name}" if size < 10**21 else "more than 10^12 GB"
    return f"{size} bytes"


@contextlib.contextmanager
def refusing(where: str | Path, what: str, mend: str) -> Iterator[None]:
    """Turn whatever a decoder raises over damaged bytes into one :class:`InvalidFileError`.

    Decoders of others raise nearly anything: SyntaxError, struct.error and families of their own included.

    Parameters
    ----------
    where, what, mend
        The file, what it should have been (``a readable NPZ file``), and what to do.
    """
    try:
        yield
    except (InvalidFileError, MissingDependencyError):
        raise
    except MemoryError as error:
        raise InvalidFileError(f"{where} needs more memory than there is: {mend}") from error
    except Exception as error:
        raise InvalidFileError(f"{where} is not {what} ({reason(error)}): {mend}") from error


def reason(error: BaseException) -> str:
    """What an exception of somebody else says: its first line, not too long and without addresses, or its kind."""
    lines = re.sub(r" ?<[^<>]* at 0x[0-9a-fA-F]+>", "", str(error)).strip().splitlines()
    return shortened(lines[0].rstrip(". :"), 200) if lines else type(error).__name__


def parse_json(text: str | bytes, where: str | Path, mend: str) -> Any:
    """The JSON value of a text; one that is damaged, endlessly nested or has endless numbers is refused."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:  # a number of thousands of digits is a plain ValueError
        raise InvalidFileError(f"{where} is damaged or not JSON ({reason(error)}); {mend}") from error


def read_json(path: Path, mend: str) -> Any:
    """The content of a JSON file, nested a few dozen levels at most."""
    content = parse_json(path.read_bytes(), path, mend)
    level = [content]
    for _ in range(_DEPTH):
        if not level:
            return content
        level = [
            part
            for value in level
            if isinstance(value, dict | list)
            for part in (value.values() if isinstance(value, dict) else value)
        ]
    raise InvalidFileError(f"{path} is nested more than {_DEPTH} levels deep, as none of ours is; {mend}")


def resolved(path: Path) -> Path:
    """The path behind all links; itself where they lead in a circle."""
    try:
        return path.resolve()
    except (OSError, RuntimeError):
        return path.absolute()


# ---- writing --------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def atomic_path(target: Path) -> Iterator[Path]:
    """A temporary path beside ``target`` that becomes ``target`` only if the block succeeds."""
    with _naming(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary, lock = _temporary(target, folder=False)
        try:
            yield temporary
            temporary.chmod(0o666 & ~_umask())
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)
            _unlock(lock)


@contextlib.contextmanager
def atomic_folder(target: Path) -> Iterator[Path]:
    """A temporary folder beside ``target`` that takes its place only if the block succeeds.

    Where the system can exchange two names in one step, a reader finds the old folder or the new one at any moment.
    """
    target = resolved(target)  # behind a link, the folder itself is replaced
    with _naming(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary, lock = _temporary(target, folder=True)
        retired = _retired(temporary)
        try:
            yield temporary
            temporary.chmod(0o777 & ~_umask())
            for path in temporary.rglob("*"):  # some writers make files for the owner alone
                path.chmod((0o777 if path.is_dir() else 0o666) & ~_umask())
            if not target.is_dir():  # a plain file is not ours to replace: the renaming fails
                temporary.replace(target)
            elif not _exchange(temporary, target):
                target.replace(retired)
                try:
                    temporary.replace(target)
                except BaseException:
                    retired.replace(target)
                    raise
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
            shutil.rmtree(retired, ignore_errors=True)
            _unlock(lock)


def write_text(target: Path, text: str) -> None:
    """Write UTF-8 text atomically."""
    with atomic_path(target) as temporary:
        temporary.write_text(text, encoding="utf-8")


def new_array(path: Path, dtype: Any, shape: tuple[int, ...]) -> Any:
    """A new NPY file, mapped to be filled; its room on the disk is taken at once.

    Without that, a disk that runs full while a mapped file is filled ends the process, without an error to catch.
    """
    import numpy as np

    array = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=shape)
    if hasattr(os, "posix_fallocate") and (size := path.stat().st_size):
        with path.open("rb+") as stream:
            try:
                os.posix_fallocate(stream.fileno(), 0, size)
            except OSError as error:
                if error.errno in _NO_ROOM:  # a file system that cannot reserve room says something else
                    raise
    return array


def _temporary(target: Path, *, folder: bool) -> tuple[Path, int | None]:
    """A new temporary name, and a lock on it that ends with this process; those without a lock are swept up."""
    _sweep(target)
    while True:
        if folder:
            temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}.", suffix=_PART, dir=target.parent))
            if _locks is None:
                return temporary, None
            try:
                lock = os.open(temporary, os.O_RDONLY)
            except FileNotFoundError:  # swept up already
                continue
        else:
            lock, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=_PART, dir=target.parent)
            temporary = Path(name)
            if _locks is None:
                os.close(lock)
                return temporary, None
        with contextlib.suppress(OSError):  # a file system without locks: nothing is swept up there either
            _locks.flock(lock, _locks.LOCK_EX)
        if temporary.exists():  # nobody has swept it up between the two lines above
            return temporary, lock
        os.close(lock)


def _unlock(lock: int | None) -> None:
    if lock is not None:
        os.close(lock)


def _retired(temporary: Path) -> Path:
    return temporary.with_name(f"{temporary.name.removesuffix(_PART)}-old{_PART}")


def _sweep(target: Path) -> None:
    """Remove what killed processes have left of earlier writes to this place; one at work holds a lock."""
    if _locks is None:
        return
    with os.scandir(target.parent) as entries:
        names = [e.name for e in entries if e.name.startswith(f".{target.name}.") and e.name.endswith(_PART)]
    for name in names:
        path = target.parent / name
        try:
            lock = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        except OSError:
            continue
        try:
            _locks.flock(lock, _locks.LOCK_EX | _locks.LOCK_NB)
            if name.endswith(f"-old{_PART}") and not target.exists():
                path.replace(target)  # stopped between two renamings, where names cannot be exchanged
            elif stat.S_ISDIR(os.fstat(lock).st_mode):
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
        except OSError:
            pass  # in use, or not ours to remove
        finally:
            os.close(lock)


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two names in one step, where the system can; False where it cannot."""
    here, flag = -100, 2  # AT_FDCWD; RENAME_EXCHANGE of Linux, RENAME_SWAP of macOS
    names, system = (os.fsencode(one), os.fsencode(other)), str(sys.platform)
    try:
        library = ctypes.CDLL(None, use_errno=True)
        if system == "linux":
            return bool(library.renameat2(here, names[0], here, names[1], flag) == 0)
        return bool(system == "darwin" and library.renamex_np(*names, flag) == 0)
    except (AttributeError, OSError, TypeError):  # an older C library, or Windows
        return False


@contextlib.contextmanager
def _naming(target: Path) -> Iterator[None]:
    """Name the target, and what to do, where writing it fails; the temporary name says nothing to a user."""
    try:
        yield
    except CondiffError:
        raise
    except Exception as error:
        code = _code(error)
        ours = isinstance(error, OSError) and str(error.filename or "").endswith(_PART)
        if code not in _NO_ROOM and not ours:
            raise
        said = os.strerror(code) if code is not None else reason(error)
        mend = "free some room" if code in _NO_ROOM else "choose a place that you may write to"
        mend = mend if code in (*_NO_ROOM, *_NO_ACCESS) else "choose another place"
        raise WriteError(f"{target} cannot be written ({said}): {mend}; what was there before is unchanged") from error


def _code(error: Exception) -> int | None:
    """The system's number of an error, also of one that a library written in Rust has put into words."""
    if isinstance(error, OSError):
        return error.errno
    found = re.search(r"\(os error (\d{1,4})\)", str(error))
    return int(found[1]) if found else None


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
    content = read_json(path, mend)
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
    with _ONE_AT_A_TIME:  # the only way to read the mask is to set it
        mask = os.umask(0)
        os.umask(mask)
    return mask
