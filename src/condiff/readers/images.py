"""Image sets: photographs or drawings brought to one size, as a memory-mapped array of bytes in the cache.

Decoding happens once for each set, size and part. An array's name in the cache carries a key of everything it depends
on, so a changed file, size or list gets an array of its own and a stale one is never read.
"""

from __future__ import annotations

import hashlib
import io
import json
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from condiff.errors import InvalidFileError, InvalidInputError, MissingDependencyError, did_you_mean
from condiff.files import atomic_path, cache_folder, new_array, refusing

if TYPE_CHECKING:
    from numpy.typing import NDArray

Part = Literal["base", "validation", "novel"]
PARTS: tuple[Part, ...] = ("base", "validation", "novel")
_BATCH = 256
# Pixels of a file beyond which Pillow warns, and of what it is resized to before the square is cut out.
_PIXELS, _RESIZED = 89_478_485, 1 << 24
# Raised when decoding changes, so that arrays of older versions are left alone.
_DECODER = 1


@dataclass(frozen=True)
class Frame:
    """How an image of any size becomes a square of bytes.

    The shorter side is resized to ``resize`` pixels (bilinear, low-pass filtered where it shrinks), the central
    ``resize`` x ``resize`` square is stored, and the central ``crop`` x ``crop`` of that is what a backbone sees.
    Training draws its random crops from the stored square.

    Attributes
    ----------
    resize, crop
        Pixels; ``crop`` is at most ``resize``.
    grey
        One channel instead of three.
    invert
        Ink as high values, paper as zero.
    """

    resize: int
    crop: int
    grey: bool = False
    invert: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.crop <= self.resize:
            raise InvalidInputError(f"the crop must be 1 to {self.resize} pixels, the resized side, not {self.crop}")

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width and channels of a stored image."""
        return (self.resize, self.resize, 1 if self.grey else 3)


@dataclass(frozen=True, eq=False)
class ImageSet:
    """The images of one part of a data set.

    Attributes
    ----------
    name
        Of the data set.
    part
        ``base``, ``validation`` or ``novel``; classes of different parts are different.
    images
        Stored squares, usually memory-mapped, shape (n, resize, resize, channels), uint8.
    labels
        The class of each image, from 0 on.
    classes
        The names of the classes.
    frame
        How they were brought to size.
    fingerprint
        16 hexadecimal digits of everything that the images depend on.
    """

    name: str
    part: Part
    images: NDArray[np.uint8]
    labels: NDArray[np.int64]
    classes: tuple[str, ...]
    frame: Frame
    fingerprint: str

    def __len__(self) -> int:
        return len(self.images)

    def crops(self, indices: slice | NDArray[np.int64]) -> NDArray[np.uint8]:
        """The central crops of some images, as a backbone sees them: a copy, in memory."""
        edge = (self.frame.resize - self.frame.crop) // 2
        inner = slice(edge, edge + self.frame.crop)
        return np.array(self.images[indices][:, inner, inner])


def check_part(part: str) -> Part:
    """The part by its name, or one line with the known ones."""
    for known in PARTS:
        if part == known:
            return known
    raise InvalidInputError(f"unknown part {part!r}{did_you_mean(part, PARTS)}: known are {', '.join(PARTS)}")


def import_pillow() -> ModuleType:
    """Pillow, or one line that says how to install it."""
    try:
        import PIL.Image
        import PIL.ImageOps
    except ImportError as error:
        raise MissingDependencyError("reading images needs Pillow: pip install 'condiff[images]'") from error
    module: ModuleType = PIL
    return module


def decode(content: bytes, frame: Frame, where: str) -> NDArray[np.uint8]:
    """One image file's bytes as a stored square; ``where`` names the file in errors."""
    return _decode(content, frame, where)[0]


def _decode(content: bytes, frame: Frame, where: str) -> tuple[NDArray[np.uint8], bool]:
    """The stored square, and whether it is the first of several frames."""
    pillow = import_pillow()
    with refusing(where, "a readable image", "replace it or take it out"):
        with pillow.Image.open(io.BytesIO(content)) as opened:
            # What the header says, before a pixel is unpacked.
            width, height = opened.size
            longest = frame.resize * max(width, height) / max(1, min(width, height))
            if width * height > _PIXELS or longest * frame.resize > _RESIZED:
                raise InvalidFileError(
                    f"{where} is {width} x {height} pixels, which is too large or too narrow to be resized: replace it "
                    "or take it out"
                )
            several = bool(getattr(opened, "is_animated", False))
            image = _in_bytes(opened, pillow, where).convert("L" if frame.grey else "RGB")
        width, height = image.size
        scale = frame.resize / min(width, height)
        size = (max(frame.resize, round(width * scale)), max(frame.resize, round(height * scale)))
        image = image.resize(size, pillow.Image.Resampling.BILINEAR)
        left, top = (size[0] - frame.resize) // 2, (size[1] - frame.resize) // 2
        square = image.crop((left, top, left + frame.resize, top + frame.resize))
        pixels = np.asarray(square, dtype=np.uint8).reshape(frame.shape)
    return (255 - pixels if frame.invert else pixels), several


def _in_bytes(opened: Any, pillow: ModuleType, where: str) -> Any:
    """An opened image, upright, on white where it is transparent, with a byte for each channel.

    Pillow itself clips numbers of 16 bits and more at 255, which makes most of them white.
    """
    image = pillow.ImageOps.exif_transpose(opened)
    if image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info:
        image = image.convert("RGBA")
        white = pillow.Image.new("RGBA", image.size, (255, 255, 255, 255))
        return pillow.Image.alpha_composite(white, image)
    if image.mode != "I" and image.mode != "F" and not image.mode.startswith("I;16"):
        return image
    values = np.asarray(image)
    low, high = float(values.min()), float(values.max())  # NaN fails both comparisons below
    if image.mode == "F":
        # Shares of one, or bytes that a program has stored as fractions.
        scale = 255.0 if high <= 1 else 1.0
        inside = low >= 0 and high <= 255
    else:
        scale, inside = 255 / 65535, low >= 0 and high <= 65535
    if not inside:
        raise InvalidFileError(
            f"{where} has values from {low:.6g} to {high:.6g}, which are neither 8 nor 16 bits: convert it to 8 bits"
        )
    return pillow.Image.fromarray((values * scale + 0.5).astype(np.uint8))


def stored_images(
    name: str,
    files: Sequence[str],
    read: Callable[[str], bytes],
    frame: Frame,
    content_key: str,
    *,
    where: str,
    workers: int = 1,
    on_batch: Callable[[int, int], None] | None = None,
) -> tuple[NDArray[np.uint8], str]:
    """The squares of some files, decoded into the cache at the first call and memory-mapped after that.

    Parameters
    ----------
    name
        Begins the array's name in the cache.
    files
        Names that ``read`` understands, in the order of the array.
    read
        Gives a file's bytes; called in this thread only.
    frame
        How images are brought to size.
    content_key
        Changes whenever any file's bytes do.
    where
        The folder or archive, for errors.
    workers
        Threads that decode; Pillow releases the interpreter lock meanwhile.
    on_batch
        Called with the images done and all of them.

    Returns
    -------
    tuple of ndarray and str
        The array, shape (n, resize, resize, channels), read-only, and its key.
    """
    if not files:
        raise InvalidFileError(f"{where} has no images")
    facts = [_DECODER, content_key, asdict(frame), list(files)]
    key = hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]
    path = cache_folder() / "images" / f"{name}-{key}.npy"
    shape = (len(files), *frame.shape)
    found = _open_array(path, shape)
    if found is None:
        import_pillow()
        with atomic_path(path) as temporary:
            array = new_array(temporary, np.uint8, shape)
            for start, squares in _decoded(files, read, frame, where, workers):
                array[start : start + len(squares)] = squares
                if on_batch is not None:
                    on_batch(start + len(squares), len(files))
            array.flush()
            del array
        found = _open_array(path, shape)
    if found is None:
        raise InvalidFileError(f"{path} was changed while it was written: remove it and try again")
    return found, key


def _decoded(
    files: Sequence[str], read: Callable[[str], bytes], frame: Frame, where: str, workers: int
) -> Iterator[tuple[int, NDArray[np.uint8]]]:
    """Batches of squares with the place of their first one; a batch's bytes are all that is in memory at a time."""
    animated: list[str] = []
    with ThreadPoolExecutor(workers) as pool:
        for start in range(0, len(files), _BATCH):
            names = files[start : start + _BATCH]
            contents = [read(file) for file in names]
            places = [f"{where}: {file}" for file in names]
            found = list(pool.map(_decode, contents, [frame] * len(names), places))
            animated += [file for file, (_, several) in zip(names, found, strict=True) if several]
            yield start, np.stack([square for square, _ in found])
    if animated:
        warnings.warn(
            f"{where}: {len(animated)} of the files hold several frames, such as {animated[0]}; the first is taken",
            UserWarning,
            stacklevel=2,
        )


def _open_array(path: Path, shape: tuple[int, ...]) -> NDArray[np.uint8] | None:
    """The array if it is there and whole; a damaged one is made again."""
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    return array if array.shape == shape and array.dtype == np.uint8 else None
