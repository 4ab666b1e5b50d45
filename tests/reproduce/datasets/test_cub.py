from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.reproduce.datasets.made_images import png, write, zipped

from condiff.errors import InvalidFileError
from condiff.readers.image_folder import read_labels
from condiff.readers.images import Frame, Part
from condiff.reproduce.datasets.cub import ARCHIVE, FRAME, SPLITS, read_cub


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONDIFF_CACHE", str(tmp_path / "cache"))


def birds(folder: Path) -> tuple[Path, dict[Part, Path]]:
    members = {
        f"images/00{kind}.Bird/{number}.png": png((60 * kind, 0, 0)) for kind in range(1, 5) for number in (0, 1)
    }
    parts: dict[Part, str] = {"base": "2,1", "validation": "3", "novel": "4"}
    splits = {
        part: write(
            folder / f"{part}.csv",
            "".join(f"00{kind}.Bird/{number}.png,{int(kind) - 1}\n" for kind in kinds.split(",") for number in (0, 1)),
        )
        for part, kinds in parts.items()
    }
    return zipped(folder / "birds.zip", members), splits


def test_birds_are_read_in_the_order_of_the_split(tmp_path: Path) -> None:
    archive, splits = birds(tmp_path)
    found = read_cub(archive, "sum", splits, "base", frame=Frame(8, 6))
    assert (found.name, found.classes) == ("cub", ("001.Bird", "002.Bird"))
    assert found.labels.tolist() == [1, 1, 0, 0]
    assert found.images[:, 0, 0, 0].tolist() == [120, 120, 60, 60]


def test_the_key_has_the_checksum(tmp_path: Path) -> None:
    archive, splits = birds(tmp_path)
    keys = {read_cub(archive, checksum, splits, "novel", frame=Frame(8, 6)).fingerprint for checksum in ("a", "b")}
    assert len(keys) == 2


def test_what_the_archive_lacks_or_garbles_is_named(tmp_path: Path) -> None:
    archive, splits = birds(tmp_path)
    write(splits["novel"], "004.Bird/7.png,3\n")
    with pytest.raises(InvalidFileError, match=r"birds.zip has no images/004.Bird/7.png"):
        read_cub(archive, "sum", splits, "novel")
    write(splits["novel"], "004.Bird/0.png,3\n")
    content = bytearray(archive.read_bytes())
    member = content.rindex(b"\x89PNG")
    content[member + 20] ^= 255
    archive.write_bytes(content)
    with pytest.raises(InvalidFileError, match=r"images/004.Bird/[01].png cannot be unpacked"):
        write(splits["novel"], "004.Bird/0.png,3\n004.Bird/1.png,3\n")
        read_cub(archive, "sum", splits, "novel")
    archive.write_bytes(b"none")
    with pytest.raises(InvalidFileError, match="cannot be read as a zip archive"):
        read_cub(archive, "other", splits, "novel")


def test_the_real_split_has_the_published_sizes(data_root: Path) -> None:
    sizes = {}
    for part, file in SPLITS.items():
        codes, classes = read_labels(data_root / file).codes()
        sizes[part] = (len(codes), len(classes))
    assert sizes == {"base": (5885, 100), "validation": (2950, 50), "novel": (2953, 50)}


def test_real_birds_are_framed_as_in_the_paper(data_root: Path, tmp_path: Path) -> None:
    lines = (data_root / SPLITS["novel"]).read_text().splitlines()[:3]
    splits: dict[Part, Path] = {
        "base": write(tmp_path / "b.csv", "x/1.jpg,7\n"),
        "novel": write(tmp_path / "n.csv", "\n".join(lines)),
    }
    found = read_cub(data_root / ARCHIVE, "sum", splits, "novel")
    assert found.frame == FRAME == Frame(120, 84)
    assert found.images.shape == (3, 120, 120, 3)
    assert found.crops(slice(None)).shape == (3, 84, 84, 3)
    assert 40 < float(np.mean(found.images)) < 215
