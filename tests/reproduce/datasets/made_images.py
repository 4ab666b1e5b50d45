"""Tiny images for tests, made by Pillow."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
from PIL import Image

Colour = tuple[int, int, int]


def png(colour: Colour = (255, 0, 0), size: tuple[int, int] = (12, 10), seed: int | None = None) -> bytes:
    """A PNG of one colour or, with a seed, of that colour with noise."""
    pixels = np.full((size[1], size[0], 3), colour, dtype=np.float64)
    if seed is not None:
        pixels += np.random.default_rng(seed).normal(0, 25, pixels.shape)
    return encoded(Image.fromarray(pixels.clip(0, 255).astype(np.uint8)))


def encoded(image: Image.Image, form: str = "PNG") -> bytes:
    stream = io.BytesIO()
    image.save(stream, form)
    return stream.getvalue()


def write(path: Path, content: bytes | str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def zipped(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


#: Far-apart colours, so that any network tells them.
COLOURS: dict[str, Colour] = {
    "red": (220, 30, 30),
    "green": (30, 200, 40),
    "blue": (30, 40, 220),
    "white": (240, 240, 240),
    "yellow": (230, 220, 20),
    "black": (15, 15, 15),
}


def split_folder(folder: Path, images: int = 4, size: tuple[int, int] = (24, 20)) -> Path:
    """A folder with split files: two classes of colours in each of its three parts."""
    names = list(COLOURS)
    for part, word in enumerate(("train", "val", "test")):
        lines = ["filename,label"]
        for colour in names[2 * part : 2 * part + 2]:
            for number in range(images):
                write(folder / "images" / colour / f"{number}.png", png(COLOURS[colour], size, seed=number))
                lines.append(f"{colour}/{number}.png,{colour}")
        write(folder / f"split_{word}.csv", "\n".join(lines) + "\n")
    return folder
