from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from condiff.errors import InvalidFileError
from condiff.files import atomic_folder, atomic_path, read_sealed, sha256, write_sealed, write_text


def contents(folder: Path) -> dict[str, str]:
    """Every file below a folder, hidden ones too, by its relative path."""
    return {str(p.relative_to(folder)): p.read_text() for p in sorted(folder.rglob("*")) if p.is_file()}


class Interruption(BaseException):
    """Like KeyboardInterrupt: no Exception."""


@pytest.mark.parametrize("size", [0, 1, 3_000_000])
def test_sha256_is_that_of_the_bytes(tmp_path: Path, size: int) -> None:
    data = os.urandom(size)
    (tmp_path / "file").write_bytes(data)
    assert sha256(tmp_path / "file") == hashlib.sha256(data).hexdigest()


def test_atomic_path_replaces_the_file_and_leaves_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "new" / "folder" / "file.txt"
    for text in ("first", "second"):
        with atomic_path(target) as temporary:
            temporary.write_text(text)
            assert temporary.parent == target.parent  # or the renaming could cross file systems
        assert contents(tmp_path) == {"new/folder/file.txt": text}


@pytest.mark.parametrize("error", [ValueError, Interruption])
@pytest.mark.parametrize("existed", [True, False])
def test_a_failure_while_writing_a_file_leaves_the_old_one(
    tmp_path: Path, error: type[BaseException], existed: bool
) -> None:
    target = tmp_path / "file.txt"
    if existed:
        target.write_text("old")
    before = contents(tmp_path)

    def write() -> None:
        with atomic_path(target) as temporary:
            temporary.write_text("half")
            raise error

    with pytest.raises(error):
        write()
    assert contents(tmp_path) == before


def test_a_reader_sees_the_old_file_until_the_block_ends(tmp_path: Path) -> None:
    target = tmp_path / "file.txt"
    write_text(target, "old")
    with atomic_path(target) as temporary:
        temporary.write_text("new")
        assert target.read_text() == "old"
    assert target.read_text() == "new"


def test_files_and_folders_get_the_usual_permissions(tmp_path: Path) -> None:
    mask = os.umask(0o027)
    try:
        write_text(tmp_path / "file", "x")
        with atomic_folder(tmp_path / "folder"):
            pass
    finally:
        os.umask(mask)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o640
    assert stat.S_IMODE((tmp_path / "folder").stat().st_mode) == 0o750


def test_write_text_is_utf8(tmp_path: Path) -> None:
    write_text(tmp_path / "file", "σ² = 0.35")
    assert (tmp_path / "file").read_bytes() == "σ² = 0.35".encode()


def test_atomic_path_does_not_replace_a_folder(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "inside").write_text("old")
    with pytest.raises(OSError):  # noqa: SIM117
        with atomic_path(tmp_path / "target") as temporary:
            temporary.write_text("new")
    assert contents(tmp_path) == {"target/inside": "old"}


def test_atomic_folder_replaces_the_folder_whole(tmp_path: Path) -> None:
    target = tmp_path / "above" / "model"
    with atomic_folder(target) as temporary:
        (temporary / "a").write_text("1")
        (temporary / "sub").mkdir()
        (temporary / "sub" / "b").write_text("2")
    assert contents(tmp_path) == {"above/model/a": "1", "above/model/sub/b": "2"}
    with atomic_folder(target) as temporary:
        (temporary / "c").write_text("3")
        assert contents(target) == {"a": "1", "sub/b": "2"}
    assert contents(tmp_path) == {"above/model/c": "3"}
    assert [p.name for p in target.parent.iterdir()] == ["model"]


@pytest.mark.parametrize("error", [ValueError, Interruption])
def test_a_failure_while_filling_a_folder_leaves_the_old_one(tmp_path: Path, error: type[BaseException]) -> None:
    target = tmp_path / "model"
    with atomic_folder(target) as temporary:
        (temporary / "a").write_text("old")

    def fill() -> None:
        with atomic_folder(target) as temporary:
            (temporary / "a").write_text("half")
            raise error

    with pytest.raises(error):
        fill()
    assert contents(tmp_path) == {"model/a": "old"}
    assert [p.name for p in tmp_path.iterdir()] == ["model"]


@pytest.mark.parametrize("error", [OSError, Interruption])
def test_a_failure_between_the_two_renamings_brings_the_old_folder_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    target = tmp_path / "model"
    with atomic_folder(target) as temporary:
        (temporary / "a").write_text("old")
    rename = Path.replace

    def failing(self: Path, to: Path) -> Path:
        if to == target and not self.name.endswith(".old"):
            raise error
        return rename(self, to)

    monkeypatch.setattr(Path, "replace", failing)
    with pytest.raises(error):  # noqa: SIM117
        with atomic_folder(target) as temporary:
            (temporary / "a").write_text("new")
    assert contents(tmp_path) == {"model/a": "old"}
    assert [p.name for p in tmp_path.iterdir()] == ["model"]


def test_atomic_folder_does_not_replace_a_file(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("old")
    with pytest.raises(NotADirectoryError):  # noqa: SIM117
        with atomic_folder(tmp_path / "target") as temporary:
            (temporary / "a").write_text("new")
    assert contents(tmp_path) == {"target": "old"}
    assert [p.name for p in tmp_path.iterdir()] == ["target"]


def test_atomic_folder_behind_a_link_replaces_what_the_link_points_to(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a").write_text("old")
    (tmp_path / "link").symlink_to("real")
    with atomic_folder(tmp_path / "link") as temporary:
        (temporary / "a").write_text("new")
    assert (tmp_path / "link").is_symlink()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link", "real"]
    assert (tmp_path / "real" / "a").read_text() == "new"


def read(path: Path) -> dict[str, Any]:
    return read_sealed(path, "tale", 2, what="tale", mend="tell it again")


def test_what_was_sealed_is_read_back_and_has_the_same_bytes(tmp_path: Path) -> None:
    content = {"format": "tale", "schema": 2, "heroes": ["a", "ö"], "length": 0.1, "end": None}
    for name in ("one.json", "two.json"):
        write_sealed(tmp_path / name, content)
        assert read(tmp_path / name) == content
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace("hero", "villain"), "tale.json was changed after it was written; tell it again"),
        (lambda text: text.replace('"checksum"', '"other"'), "was changed after it was written"),
        (lambda text: text.replace('"schema": 2', '"schema": 3'), "schema 3, but this version of condiff reads 2"),
        (lambda text: text.replace('"tale"', '"song"'), "does not describe a condiff tale"),
        (lambda text: text[:-5], r"damaged or not JSON \(.*\); tell it again"),
        (lambda text: "[]", "does not describe a condiff tale"),
    ],
)
def test_a_changed_damaged_or_foreign_seal_is_refused(
    tmp_path: Path, change: Callable[[str], str], message: str
) -> None:
    path = tmp_path / "tale.json"
    write_sealed(path, {"format": "tale", "schema": 2, "who": "hero"})
    path.write_text(change(path.read_text()))
    with pytest.raises(InvalidFileError, match=message):
        read(path)


def test_a_folder_without_the_sealed_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidFileError, match=f"{tmp_path} is not a condiff tale: it has no tale.json"):
        read(tmp_path / "tale.json")
