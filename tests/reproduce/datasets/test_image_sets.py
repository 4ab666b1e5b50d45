from __future__ import annotations

from pathlib import Path

import pytest
from tests.reproduce.datasets.made_images import split_folder

from condiff.errors import InvalidInputError
from condiff.readers.images import Frame
from condiff.reproduce.datasets.image_sets import frame_of, load_image_set


@pytest.mark.parametrize(
    ("name", "size", "channels", "frame"),
    [
        ("cub", None, None, Frame(120, 84)),
        ("cub", 84, 1, Frame(120, 84, grey=True)),
        ("cub", 42, None, Frame(60, 42)),
        ("cub", 160, None, Frame(160, 160)),
        ("omniglot", None, None, Frame(28, 28, grey=True, invert=True)),
        ("omniglot", 160, 3, Frame(160, 160, invert=True)),
        (".", None, None, Frame(96, 84)),
    ],
)
def test_images_are_framed_for_the_backbone(name: str, size: int | None, channels: int | None, frame: Frame) -> None:
    assert frame_of(name, size, channels) == frame


def test_a_folder_is_loaded_by_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONDIFF_CACHE", str(tmp_path / "cache"))
    found = load_image_set(str(split_folder(tmp_path / "colours")), "novel", size=12)
    assert found.crops(slice(None)).shape == (8, 12, 12, 3)


def test_unknown_sets_and_channels_are_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"unknown image set 'omniglt' \(did you mean 'omniglot'\?\)"):
        load_image_set("omniglt", "base")
    with pytest.raises(InvalidInputError, match="1 or 3, not 4"):
        frame_of("cub", channels=4)
