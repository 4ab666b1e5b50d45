"""Omniglot: handwritten characters of 50 alphabets, 20 drawings each.

The official background set (30 alphabets) gives base and validation classes, the evaluation set (20 alphabets) the
novel ones. Validation takes five whole background alphabets, drawn with the seed 0, because novel characters are of
unseen alphabets too. (Many papers instead mix all 1,623 characters and draw 1,200 of them for training: an easier
task, since novel characters then have sisters among the base classes.)
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from condiff.errors import InvalidFileError
from condiff.readers.images import Frame, ImageSet, Part
from condiff.reproduce.datasets.image_archive import archive_images, archive_members
from condiff.reproduce.datasets.registry import FILES
from condiff.reproduce.datasets.sources import locate

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: 105 x 105 drawings at 28 x 28, ink as 255.
FRAME = Frame(resize=28, crop=28, grey=True, invert=True)
BACKGROUND, EVALUATION = "omniglot/images_background.zip", "omniglot/images_evaluation.zip"
VALIDATION_ALPHABETS = 5
ROTATIONS = (0, 90, 180, 270)


def load_omniglot(
    part: Part,
    *,
    frame: Frame = FRAME,
    rotations: bool = True,
    workers: int = 1,
    on_batch: Callable[[int, int], None] | None = None,
) -> ImageSet:
    """The drawings of one part of Omniglot.

    Parameters
    ----------
    part
        ``base``, ``validation`` or ``novel``.
    frame
        How drawings are brought to size.
    rotations
        Each character turned by 90, 180 and 270 degrees makes a class of its own: four times the classes.
    workers, on_batch
        As in :func:`~condiff.readers.images.stored_images`.
    """
    file = EVALUATION if part == "novel" else BACKGROUND
    checksum = FILES[file].sha256
    return read_omniglot(
        locate(file), checksum, part, frame=frame, rotations=rotations, workers=workers, on_batch=on_batch
    )


def read_omniglot(
    archive: Path,
    checksum: str,
    part: Part,
    *,
    frame: Frame = FRAME,
    rotations: bool = True,
    workers: int = 1,
    on_batch: Callable[[int, int], None] | None = None,
) -> ImageSet:
    """One part from an archive with ``<set>/<alphabet>/<character>/<drawing>.png``."""
    members = archive_members(archive, ".png")
    odd = next((member for member in members if len(member.split("/")) != 4), None)
    if odd is not None:
        raise InvalidFileError(f"{archive}: {odd} is not at set/alphabet/character/drawing.png")
    if part != "novel":
        held_out = validation_alphabets({member.split("/")[1] for member in members})
        members = [member for member in members if (member.split("/")[1] in held_out) == (part == "validation")]
    characters = ["/".join(member.split("/")[1:3]) for member in members]
    images, key = archive_images(
        f"omniglot-{part}", archive, checksum, members, frame, workers=workers, on_batch=on_batch
    )
    classes, labels = np.unique(characters, return_inverse=True)
    drawn = ImageSet("omniglot", part, images, labels.astype(np.int64), tuple(classes.tolist()), frame, key)
    return rotated(drawn) if rotations else drawn


def validation_alphabets(alphabets: set[str]) -> frozenset[str]:
    """The background alphabets that validate: the first of a permutation with the seed 0."""
    order = np.random.default_rng(0).permutation(len(alphabets))
    names = sorted(alphabets)
    return frozenset(names[position] for position in order[:VALIDATION_ALPHABETS])


def rotated(drawn: ImageSet) -> ImageSet:
    """The same drawings with those turned by quarters, anticlockwise, as further classes, in memory."""
    images: list[NDArray[np.uint8]] = [np.rot90(drawn.images, turn, axes=(1, 2)) for turn in range(len(ROTATIONS))]
    labels = [drawn.labels + turn * len(drawn.classes) for turn in range(len(ROTATIONS))]
    classes = tuple(f"{name} {degrees}" for degrees in ROTATIONS for name in drawn.classes)
    key = hashlib.sha256(f"{drawn.fingerprint} rotated".encode()).hexdigest()[:16]
    return ImageSet(drawn.name, drawn.part, np.concatenate(images), np.concatenate(labels), classes, drawn.frame, key)
