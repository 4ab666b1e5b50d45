"""Image sets for few-shot learning by their names: ``cub``, ``omniglot``, or a folder with split files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from condiff.errors import InvalidInputError, did_you_mean
from condiff.readers import image_folder
from condiff.readers.images import Frame, ImageSet, Part
from condiff.reproduce.datasets import cub, omniglot

#: The sets that have a name; anything else is a folder.
IMAGE_SETS = ("cub", "omniglot")


def load_image_set(
    name: str,
    part: Part,
    *,
    size: int | None = None,
    channels: int | None = None,
    workers: int = 1,
    on_batch: Callable[[int, int], None] | None = None,
) -> ImageSet:
    """One part of an image set, at the size and with the channels that a backbone reads.

    Parameters
    ----------
    name
        ``cub``, ``omniglot``, or the path of a folder with split files.
    part
        ``base``, ``validation`` or ``novel``.
    size
        Side of the crops in pixels: 84 by default, 28 for Omniglot. Photographs are then framed as in the paper's
        code, and smaller ones in proportion; a larger crop is the whole central square.
    channels
        1 or 3; by default 1 for Omniglot and 3 for the others.
    workers, on_batch
        As in :func:`~condiff.readers.images.stored_images`.
    """
    frame = frame_of(name, size, channels)
    if name == "cub":
        return cub.load_cub(part, frame=frame, workers=workers, on_batch=on_batch)
    if name == "omniglot":
        return omniglot.load_omniglot(part, frame=frame, workers=workers, on_batch=on_batch)
    return image_folder.load_image_folder(name, part, frame=frame, workers=workers, on_batch=on_batch)


def frame_of(name: str, size: int | None = None, channels: int | None = None) -> Frame:
    """How the images of a set are framed at a size; see :func:`load_image_set`."""
    if name not in IMAGE_SETS and not Path(name).is_dir():
        known = ", ".join(IMAGE_SETS)
        raise InvalidInputError(
            f"unknown image set {name!r}{did_you_mean(name, IMAGE_SETS)}: known are {known}, and folders of images"
        )
    if channels not in (None, 1, 3):
        raise InvalidInputError(f"channels must be 1 or 3, not {channels}")
    usual = {"cub": cub.FRAME, "omniglot": omniglot.FRAME}.get(name, image_folder.FRAME)
    grey = usual.grey if channels is None else channels == 1
    crop = usual.crop if size is None else size
    resize = crop if crop > usual.crop else round(crop * usual.resize / usual.crop)
    return Frame(resize, crop, grey, usual.invert)
