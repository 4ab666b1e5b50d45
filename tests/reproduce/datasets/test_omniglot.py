from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.reproduce.datasets.made_images import encoded, zipped

from condiff.errors import InvalidFileError
from condiff.readers.images import PARTS, Frame, Part
from condiff.reproduce.datasets.image_archive import archive_members
from condiff.reproduce.datasets.omniglot import (
    BACKGROUND,
    EVALUATION,
    FRAME,
    read_omniglot,
    rotated,
    validation_alphabets,
)

VALIDATION = ["Arcadian", "Cyrillic", "Early_Aramaic", "Latin", "Sanskrit"]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONDIFF_CACHE", str(tmp_path / "cache"))


def drawings(path: Path, alphabets: int = 7) -> Path:
    """Two characters of two drawings an alphabet: ink in the top left quarter."""
    pixels = np.full((16, 16), 255, dtype=np.uint8)
    pixels[:8, :8] = 0
    content = encoded(Image.fromarray(pixels).convert("1"))
    return zipped(
        path,
        {
            f"images/Alphabet_{alphabet}/character0{character}/{number}.png": content
            for alphabet in range(alphabets)
            for character in (1, 2)
            for number in (1, 2)
        },
    )


@pytest.mark.parametrize(("part", "alphabets"), [("base", 2), ("validation", 5), ("novel", 7)])
def test_background_alphabets_are_shared_out(tmp_path: Path, part: Part, alphabets: int) -> None:
    found = read_omniglot(drawings(tmp_path / "o.zip"), "sum", part, frame=Frame(8, 8, grey=True), rotations=False)
    assert len({name.split("/")[0] for name in found.classes}) == alphabets
    assert len(found.classes) == 2 * alphabets
    assert np.bincount(found.labels).tolist() == [2] * (2 * alphabets)


def test_base_and_validation_share_no_alphabet(tmp_path: Path) -> None:
    path = drawings(tmp_path / "o.zip")
    base, validation = ({name.split("/")[0] for name in read_omniglot(path, "sum", part).classes} for part in PARTS[:2])
    assert base.isdisjoint(validation)
    assert len(base | validation) == 7


def test_quarter_turns_are_classes_of_their_own(tmp_path: Path) -> None:
    path = drawings(tmp_path / "o.zip", alphabets=1)
    plain = read_omniglot(path, "sum", "novel", frame=Frame(8, 8, grey=True, invert=True), rotations=False)
    turned = rotated(plain)
    assert turned.classes == tuple(
        f"Alphabet_0/character0{character} {degrees}" for degrees in (0, 90, 180, 270) for character in (1, 2)
    )
    assert turned.labels.tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7]
    assert turned.fingerprint != plain.fingerprint
    # Ink goes from the top left anticlockwise.
    corners = [(1, 1), (6, 1), (6, 6), (1, 6)]
    for image, label in zip(turned.images, turned.labels, strict=True):
        inked = [corner for corner in corners if image[corner][0] > 128]
        assert inked == [corners[label // 2]]


def test_a_member_out_of_place_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidFileError, match=r"images/stray.png is not at set/alphabet"):
        read_omniglot(zipped(tmp_path / "o.zip", {"images/stray.png": b""}), "sum", "novel")


def test_the_real_sets_have_the_published_sizes(data_root: Path) -> None:
    background = archive_members(data_root / BACKGROUND, ".png")
    evaluation = archive_members(data_root / EVALUATION, ".png")
    assert (len(background), len(evaluation)) == (964 * 20, 659 * 20)
    alphabets = {member.split("/")[1] for member in background}
    assert len(alphabets) == 30
    # Part of what a trained backbone depends on: it must not move.
    assert sorted(validation_alphabets(alphabets)) == VALIDATION
    assert sum(member.split("/")[1] in VALIDATION for member in background) == 149 * 20


def test_real_drawings_have_ink_on_an_empty_ground(data_root: Path, tmp_path: Path) -> None:
    name = "images_evaluation/Angelic/character01/0965_01.png"
    with zipfile.ZipFile(data_root / EVALUATION) as archive:
        path = zipped(tmp_path / "o.zip", {name: archive.read(name)})
    found = read_omniglot(path, "sum", "novel", rotations=False)
    assert found.frame == FRAME
    assert found.images.shape == (1, 28, 28, 1)
    assert np.median(found.images) == 0
    assert found.images.max() > 128
