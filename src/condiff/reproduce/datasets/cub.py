"""CUB-200-2011: photographs of 200 kinds of birds, of which 100 are base, 50 validation and 50 novel classes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from condiff.readers.image_folder import check_disjoint, read_labels
from condiff.readers.images import Frame, ImageSet, Part
from condiff.reproduce.datasets.image_archive import archive_images
from condiff.reproduce.datasets.registry import FILES
from condiff.reproduce.datasets.sources import locate

#: As the paper's code prepares CUB: shorter side to 120 pixels, then the central 84 x 84.
FRAME = Frame(resize=120, crop=84)
ARCHIVE = "cub/cub_200_2011_128px.zip"
SPLITS: dict[Part, str] = {
    "base": "cub/split_train.csv",
    "validation": "cub/split_val.csv",
    "novel": "cub/split_test.csv",
}


def load_cub(
    part: Part,
    *,
    frame: Frame = FRAME,
    workers: int = 1,
    on_batch: Callable[[int, int], None] | None = None,
) -> ImageSet:
    """The images of one part of CUB, with the paper's split of the classes."""
    splits = {known: locate(file) for known, file in SPLITS.items()}
    checksum = FILES[ARCHIVE].sha256
    return read_cub(locate(ARCHIVE), checksum, splits, part, frame=frame, workers=workers, on_batch=on_batch)


def read_cub(
    archive: Path,
    checksum: str,
    splits: dict[Part, Path],
    part: Part,
    *,
    frame: Frame = FRAME,
    workers: int = 1,
    on_batch: Callable[[int, int], None] | None = None,
) -> ImageSet:
    """One part from an archive with ``images/<class>/<file>`` and split files that name ``<class>/<file>``."""
    tables = {known: read_labels(path) for known, path in splits.items()}
    check_disjoint(tables.values())
    files = tables[part].files
    # The split files number the kinds of birds; the folders name them.
    kinds = [file.split("/")[0] for file in files]
    classes = sorted(set(kinds))
    position = {kind: code for code, kind in enumerate(classes)}
    members = [f"images/{file}" for file in files]
    images, key = archive_images(f"cub-{part}", archive, checksum, members, frame, workers=workers, on_batch=on_batch)
    labels = np.array([position[kind] for kind in kinds], dtype=np.int64)
    return ImageSet("cub", part, images, labels, tuple(classes), frame, key)
