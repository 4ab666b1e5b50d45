from __future__ import annotations

import io
import struct
import sys
import threading
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.reproduce.datasets.made_images import encoded, png

from condiff.errors import InvalidFileError, InvalidInputError, MissingDependencyError
from condiff.readers import images as module
from condiff.readers.images import Frame, ImageSet, check_part, decode, stored_images


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CONDIFF_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def stripes(width: int, height: int) -> Image.Image:
    """Red left third, green middle, blue right third."""
    pixels = np.zeros((height, width, 3), dtype=np.uint8)
    for third in range(3):
        pixels[:, third * width // 3 : (third + 1) * width // 3, third] = 255
    return Image.fromarray(pixels)


def test_the_central_square_is_kept() -> None:
    square = decode(encoded(stripes(90, 30)), Frame(30, 30), "here")
    assert square.shape == (30, 30, 3)
    # The middle third; resampling blurs the border columns at most.
    np.testing.assert_array_equal(square[:, 1:-1, 1], 255)
    np.testing.assert_array_equal(square[:, 1:-1, [0, 2]], 0)
    tall = decode(encoded(stripes(90, 30).rotate(90, expand=True)), Frame(10, 10), "here")
    np.testing.assert_array_equal(tall[1:-1, :, 1], 255)


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGBA", "CMYK", "I;16"])
@pytest.mark.parametrize("grey", [True, False])
def test_every_kind_of_image_becomes_bytes(mode: str, grey: bool) -> None:
    form = "TIFF" if mode in ("CMYK", "I;16") else "PNG"
    content = encoded(Image.new(mode, (7, 5)), form)
    assert decode(content, Frame(4, 4, grey=grey), "here").shape == (4, 4, 1 if grey else 3)


def test_ink_is_high_when_inverted() -> None:
    content = encoded(Image.new("1", (8, 8), 0))  # black
    assert (decode(content, Frame(4, 4, grey=True, invert=True), "here") == 255).all()


def test_a_turned_photograph_is_put_upright() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # to be shown turned by a quarter
    image = stripes(30, 30)
    plain = decode(encoded(image), Frame(30, 30), "here")
    stream = io.BytesIO()
    image.save(stream, "PNG", exif=exif)
    np.testing.assert_array_equal(decode(stream.getvalue(), Frame(30, 30), "here"), np.rot90(plain, -1))


@pytest.mark.parametrize("content", [b"", b"no image", png(seed=0)[:90]], ids=["empty", "text", "cut"])
def test_a_damaged_image_is_named(content: bytes) -> None:
    with pytest.raises(InvalidFileError, match=r"birds\.zip: wren\.png is not a readable image"):
        decode(content, Frame(4, 4), "birds.zip: wren.png")


def test_images_are_decoded_once_and_mapped_after(cache: Path) -> None:
    content = {f"{number}.png": png(seed=number) for number in range(5)}
    reads: list[str] = []
    steps: list[tuple[int, int]] = []

    def read(name: str) -> bytes:
        assert threading.current_thread() is threading.main_thread()
        reads.append(name)
        return content[name]

    def stored(**changes: object) -> tuple[np.ndarray, str]:  # type: ignore[type-arg]
        options = {"frame": Frame(8, 6), "content_key": "k", "files": list(content), "workers": 2} | changes
        return stored_images("set", read=read, where="there", on_batch=lambda *s: steps.append(s), **options)  # type: ignore[arg-type]

    first, key = stored()
    again, same = stored()
    assert reads == list(content)
    assert steps == [(5, 5)]
    assert isinstance(again, np.memmap)
    assert key == same
    assert not again.flags.writeable
    for number, name in enumerate(content):
        np.testing.assert_array_equal(first[number], decode(content[name], Frame(8, 6), name))
    for changes in ({"content_key": "l"}, {"frame": Frame(9, 6)}, {"files": list(content)[::-1]}):
        assert stored(**changes)[1] != key
    assert len(list((cache / "images").iterdir())) == 4


def test_a_failure_leaves_nothing_and_a_damaged_array_is_made_anew(cache: Path) -> None:
    with pytest.raises(InvalidFileError, match=r"there: b\.png"):
        stored_images("set", ["b.png"], lambda _: b"bad", Frame(4, 4), "k", where="there")
    assert list((cache / "images").iterdir()) == []
    whole = stored_images("set", ["b.png"], lambda _: png(), Frame(4, 4), "k", where="there")[0].copy()
    path = next((cache / "images").iterdir())
    path.write_bytes(path.read_bytes()[:140])
    np.testing.assert_array_equal(
        stored_images("set", ["b.png"], lambda _: png(), Frame(4, 4), "k", where="there")[0], whole
    )


def test_batches_continue_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BATCH", 2)
    names = [str(number) for number in range(5)]
    found = stored_images("set", names, lambda n: png((int(n) * 10, 0, 0)), Frame(4, 4), "k", where="there")[0]
    assert found[:, 0, 0, 0].tolist() == [0, 10, 20, 30, 40]


def test_no_images_is_an_error() -> None:
    with pytest.raises(InvalidFileError, match="there has no images"):
        stored_images("set", [], lambda _: b"", Frame(4, 4), "k", where="there")


def test_crops_are_central_copies() -> None:
    squares = np.arange(2 * 6 * 6, dtype=np.uint8).reshape(2, 6, 6, 1)
    squares.flags.writeable = False
    image_set = ImageSet("s", "base", squares, np.array([0, 1]), ("a", "b"), Frame(6, 4, grey=True), "f")
    crops = image_set.crops(slice(None))
    np.testing.assert_array_equal(crops, squares[:, 1:5, 1:5])
    assert crops.flags.writeable
    np.testing.assert_array_equal(image_set.crops(np.array([1])), crops[1:])
    assert len(image_set) == 2


def test_a_crop_larger_than_the_square_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="1 to 80 pixels"):
        Frame(80, 84)


def test_an_unknown_part_is_refused() -> None:
    assert check_part("novel") == "novel"
    with pytest.raises(InvalidInputError, match=r"did you mean 'novel'"):
        check_part("novell")


def test_without_pillow_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(MissingDependencyError, match=r"condiff\[images\]"):
        decode(png(), Frame(4, 4), "here")


@pytest.mark.parametrize("form", ["PNG", "TIFF"])
@pytest.mark.parametrize("grey", [True, False])
def test_sixteen_bits_are_scaled_and_not_clipped(form: str, grey: bool) -> None:
    ramp = np.linspace(0, 65535, 64).astype(np.uint16).reshape(8, 8)
    square = decode(encoded(Image.fromarray(ramp), form), Frame(8, 8, grey=grey), "here")
    np.testing.assert_array_equal(square[:, :, 0], np.round(ramp / 257.0).astype(np.uint8))


def test_floats_are_shares_of_one_or_bytes_and_nothing_else() -> None:
    def read(values: list[float]) -> list[int]:
        image = Image.fromarray(np.array([values], np.float32).repeat(2, axis=0))
        return decode(encoded(image, "TIFF"), Frame(2, 2, grey=True), "here")[0, :, 0].tolist()

    assert read([0.0, 1.0]) == [0, 255]
    assert read([3.0, 250.0]) == [3, 250]
    for wild in ([-1.0, 3.0], [0.0, 1000.0], [0.0, float("nan")]):
        with pytest.raises(InvalidFileError, match="neither 8 nor 16 bits: convert it"):
            read(wild)


def test_inks_become_colours() -> None:
    square = decode(encoded(Image.new("CMYK", (4, 4), (0, 255, 255, 0)), "TIFF"), Frame(4, 4), "here")
    assert square[0, 0].tolist() == [255, 0, 0]


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P"])
def test_what_is_transparent_is_white(mode: str) -> None:
    image = Image.new("RGBA", (4, 4), (9, 9, 9, 0))
    content = encoded(image.convert("P") if mode == "P" else image.convert(mode))
    assert (decode(content, Frame(4, 4), "here") == 255).all()


def test_a_palette_gives_its_colours() -> None:
    image = Image.new("P", (4, 4), 1)
    image.putpalette([0, 0, 0, 10, 200, 30])
    assert decode(encoded(image), Frame(4, 4), "here")[0, 0].tolist() == [10, 200, 30]


def test_of_an_animation_the_first_frame_is_taken_and_said_once() -> None:
    frames = [Image.new("L", (4, 4), colour) for colour in (0, 255, 128)]
    stream = io.BytesIO()
    frames[0].save(stream, "GIF", save_all=True, append_images=frames[1:])
    content = {"a.gif": stream.getvalue(), "b.gif": stream.getvalue(), "c.png": png()}
    with pytest.warns(UserWarning, match=r"there: 2 of the files hold several frames, such as a\.gif") as caught:
        found, _ = stored_images("set", list(content), content.__getitem__, Frame(4, 4), "k", where="there")
    assert len(caught) == 1
    assert (found[:2] == 0).all()


@pytest.mark.parametrize("size", [(1, 200_000), (20_000, 20_000)], ids=["strip", "vast"])
def test_an_image_that_would_fill_the_memory_is_refused_by_its_header(size: tuple[int, int]) -> None:
    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    rows = zlib.compress(b"\0" * (1 + size[0] // 8), 9)
    content = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", *size, 1, 0, 0, 0, 0))
    content += chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    with pytest.raises(InvalidFileError, match=r"pixels, which is too large or too narrow|is not a readable image"):
        decode(content, Frame(96, 84), "here")
