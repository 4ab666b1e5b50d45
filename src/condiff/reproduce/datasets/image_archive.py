"""Images straight from a zip archive, which is read and never unpacked."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from condiff.errors import InvalidFileError
from condiff.readers.images import Frame, stored_images

if TYPE_CHECKING:
    from numpy.typing import NDArray


def archive_images(
    name: str,
    path: Path,
    checksum: str,
    members: Sequence[str],
    frame: Frame,
    *,
    workers: int = 1,
    on_batch: Callable[[int, int], None] | None = None,
) -> tuple[NDArray[np.uint8], str]:
    """The squares of some members of an archive, and their key; see :func:`~condiff.readers.images.stored_images`.

    Parameters
    ----------
    name
        Begins the array's name in the cache.
    path, checksum
        The archive and its SHA-256, which the key carries.
    members
        Names in the archive, in the order of the array.
    frame, workers, on_batch
        As there.
    """
    with _open(path) as archive:

        def read(member: str) -> bytes:
            try:
                return archive.read(member)
            except KeyError as error:
                raise InvalidFileError(f"{path} has no {member}: download the archive again") from error
            except (zipfile.BadZipFile, zlib.error, EOFError, OSError) as error:
                raise InvalidFileError(
                    f"{path}: {member} cannot be unpacked ({error}): download the archive again"
                ) from error

        return stored_images(name, members, read, frame, checksum, where=str(path), workers=workers, on_batch=on_batch)


def archive_members(path: Path, suffix: str) -> list[str]:
    """The sorted names of an archive's members with an ending."""
    with _open(path) as archive:
        return sorted(member for member in archive.namelist() if member.endswith(suffix))


def _open(path: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except (zipfile.BadZipFile, OSError) as error:
        raise InvalidFileError(f"{path} cannot be read as a zip archive ({error}): download it again") from error
