"""Any folder of images: with split files for base, validation and novel classes, or with a few labels.

Split files are ``split_train.csv``, ``split_val.csv`` and ``split_test.csv``; or ``train.csv`` and so on in a folder
``split``, as the paper's code has them for miniImageNet and tieredImageNet. Each line is ``file,label``; a first line
with those two words (or ``filename,label``) is a header. Files are relative to the folder, or to a folder ``images`` in
it.
"""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import numpy as np

from condiff.errors import InvalidFileError
from condiff.readers.images import Frame, ImageSet, Part, stored_images

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: As the paper's code prepares miniImageNet and tieredImageNet.
FRAME = Frame(resize=96, crop=84)
SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff")
_SPLIT: dict[Part, str] = {"base": "train", "validation": "val", "novel": "test"}
_FILE_COLUMNS = ("file", "filename", "image")


@dataclass(frozen=True)
class Labelled:
    """The lines of a ``file,label`` table: where each file stands in it, for errors, and its label."""

    path: Path
    files: tuple[str, ...]
    labels: tuple[str, ...]
    lines: tuple[int, ...]

    def codes(self) -> tuple[NDArray[np.int64], tuple[str, ...]]:
        """Labels as numbers, and the names they stand for: in numerical order if all are numbers, else alphabetical."""
        names = sorted(set(self.labels), key=_rank if all(map(str.isdecimal, self.labels)) else str)
        position = {name: code for code, name in enumerate(names)}
        return np.array([position[label] for label in self.labels], dtype=np.int64), tuple(names)


def read_labels(path: Path | str) -> Labelled:
    """Read a CSV file of ``file,label`` lines; a header is optional, and other columns need one.

    Raises
    ------
    InvalidFileError
        A missing column, a line with too few or too many cells, an empty cell, a file named twice or one that leaves
        the folder: each with its line number.
    """
    path = Path(path)
    rows = _rows(path)
    if not rows:
        raise InvalidFileError(f"{path} is empty: it must have lines of file,label")
    header = [cell.strip().lower() for cell in rows[0][1]]
    file_column, label_column, width = 0, 1, 2
    if "label" in header or header[0] in _FILE_COLUMNS:
        known = next((column for column in _FILE_COLUMNS if column in header), None)
        for column in ["file"] * (known is None) + ["label"] * ("label" not in header):
            raise InvalidFileError(f"{path}, line {rows[0][0]}: the column {column!r} is missing; add it to the header")
        file_column, label_column, width = header.index(known or "file"), header.index("label"), len(header)
        rows = rows[1:]
        if not rows:
            raise InvalidFileError(f"{path} has a header and no lines: it must have lines of file,label")
    files, labels, seen = [], [], dict[str, int]()
    for line, cells in rows:
        if len(cells) != width:
            what = "file,label" if width == 2 else f"{width} cells as the header has"
            raise InvalidFileError(f"{path}, line {line}: must be {what}, but has {len(cells)} cell(s)")
        file, label = cells[file_column].strip().replace("\\", "/"), cells[label_column].strip()
        if not file or not label:
            raise InvalidFileError(f"{path}, line {line}: the {'label' if file else 'file'} is empty")
        if PurePosixPath(file).is_absolute() or ":" in file.split("/")[0] or ".." in file.split("/"):
            raise InvalidFileError(
                f"{path}, line {line}: {file!r} leaves the folder of the images; name files below it"
            )
        file = PurePosixPath(file).as_posix()  # ./a.png is a.png
        if file in seen:
            raise InvalidFileError(f"{path}, line {line}: {file!r} is already on line {seen[file]}")
        seen[file] = line
        files.append(file)
        labels.append(label)
    return Labelled(path, tuple(files), tuple(labels), tuple(seen.values()))


def check_disjoint(splits: Iterable[Labelled]) -> None:
    """Refuse a class or a file that two split files share: novel classes must be new."""
    for of, word in (("labels", "class"), ("files", "file")):
        owner: dict[str, Path] = {}
        for split in splits:
            for value, line in zip(getattr(split, of), split.lines, strict=True):
                if owner.setdefault(value, split.path) != split.path:
                    other = owner[value].name
                    raise InvalidFileError(
                        f"{split.path}, line {line}: the {word} {value!r} is also in {other}; each belongs to one split"
                    )


def load_image_folder(
    folder: Path | str,
    part: Part,
    *,
    frame: Frame = FRAME,
    workers: int = 1,
    on_batch: Callable[[int, int], None] | None = None,
) -> ImageSet:
    """The images of one part of a folder with split files.

    The arrays in the cache are keyed by every file's name, size and time of change.
    """
    folder = Path(folder)
    splits = {part_: read_labels(_split_file(folder, word)) for part_, word in _SPLIT.items()}
    check_disjoint(splits.values())
    split = splits[part]
    images = folder / "images" if (folder / "images").is_dir() else folder
    _check_present(images, split)
    labels, classes = split.codes()
    name = folder.resolve().name
    squares, key = folder_images(
        name=f"{name}-{part}", folder=images, files=split.files, frame=frame, workers=workers, on_batch=on_batch
    )
    return ImageSet(name, part, squares, labels, classes, frame, key)


def folder_images(
    *,
    name: str,
    folder: Path,
    files: Sequence[str],
    frame: Frame,
    workers: int = 1,
    on_batch: Callable[[int, int], None] | None = None,
) -> tuple[NDArray[np.uint8], str]:
    """The squares of some files of a folder, and their key; see :func:`~condiff.readers.images.stored_images`."""
    digest = hashlib.sha256()
    for file in files:
        facts = (folder / file).stat()
        digest.update(f"{file}\n{facts.st_size}\n{facts.st_mtime_ns}\n".encode())
    return stored_images(
        name,
        files,
        lambda file: (folder / file).read_bytes(),
        frame,
        digest.hexdigest(),
        where=str(folder),
        workers=workers,
        on_batch=on_batch,
    )


def list_images(folder: Path | str) -> list[str]:
    """Every image below a folder by its ending, as sorted relative names; hidden files and folders are left out."""
    folder = Path(folder)
    if not folder.is_dir():
        raise InvalidFileError(f"{folder} is not a folder of images")
    names = [
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.suffix.lower() in SUFFIXES and path.is_file()
    ]
    found = sorted(name for name in names if not any(part.startswith(".") for part in name.split("/")))
    if not found:
        raise InvalidFileError(f"{folder} has no images: files ending in {', '.join(SUFFIXES)} are looked for")
    return found


def _rows(path: Path) -> list[tuple[int, list[str]]]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:
            reader = csv.reader(stream, strict=True)
            return [(reader.line_num, cells) for cells in reader if cells]
    except FileNotFoundError as error:
        raise InvalidFileError(f"{path}: no such file; it must have lines of file,label") from error
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InvalidFileError(f"{path} cannot be read as CSV in UTF-8 ({error})") from error


def _split_file(folder: Path, word: str) -> Path:
    candidates = [folder / f"split_{word}.csv", folder / "split" / f"{word}.csv"]
    found = next((path for path in candidates if path.is_file()), None)
    if found is None:
        raise InvalidFileError(
            f"{folder} has no split_{word}.csv (nor split/{word}.csv): a data set for few-shot learning is a folder of "
            "images with split_train.csv, split_val.csv and split_test.csv"
        )
    return found


def _check_present(folder: Path, split: Labelled) -> None:
    inside = folder.resolve()
    for file, line in zip(split.files, split.lines, strict=True):
        path = folder / file
        if not path.is_file():
            raise InvalidFileError(f"{split.path}, line {line}: {path} is not there")
        if not path.resolve().is_relative_to(inside):  # a link may leave the folder without saying so in its name
            raise InvalidFileError(f"{split.path}, line {line}: {file!r} is a link that leaves {folder}")


def _rank(label: str) -> tuple[int, str]:
    return int(label), label
