from __future__ import annotations

import errno
import hashlib
import os
import signal
import stat
import tempfile
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from condiff import files
from condiff.errors import CondiffError, InvalidFileError, InvalidInputError, WriteError
from condiff.files import (
    atomic_folder,
    atomic_path,
    check_room,
    memory_budget,
    new_array,
    read_json,
    read_sealed,
    refusing,
    sha256,
    write_sealed,
    write_text,
)


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
        if to == target and "-old" not in self.name:
            raise error
        return rename(self, to)

    monkeypatch.setattr(files, "_exchange", lambda *_: False)  # as on a file system that cannot
    monkeypatch.setattr(Path, "replace", failing)
    with pytest.raises(error):  # noqa: SIM117
        with atomic_folder(target) as temporary:
            (temporary / "a").write_text("new")
    assert contents(tmp_path) == {"model/a": "old"}
    assert [p.name for p in tmp_path.iterdir()] == ["model"]


def test_atomic_folder_does_not_replace_a_file(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("old")
    with pytest.raises(WriteError, match=r"target cannot be written \(Not a directory\)"):  # noqa: SIM117
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


def child(work: Callable[[], None]) -> int:
    """Run something in a process of its own; returns how it ended."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # from Python 3.12 on, a fork of a process with threads
        number = os.fork()
    if number == 0:
        try:
            work()
        finally:
            os._exit(1)
    return os.waitpid(number, 0)[1]


def killed_while_saving(target: Path) -> None:
    with atomic_folder(target) as temporary:
        (temporary / "a").write_text("half")
        os.kill(os.getpid(), signal.SIGKILL)


def test_what_a_killed_process_left_is_swept_up_by_the_next_write(tmp_path: Path) -> None:
    def half_a_file() -> None:
        with atomic_path(tmp_path / "file") as temporary:
            temporary.write_text("half")
            os.kill(os.getpid(), signal.SIGKILL)

    (tmp_path / ".file.settings").write_text("somebody else's")
    assert child(half_a_file) == child(lambda: killed_while_saving(tmp_path / "model")) == signal.SIGKILL
    assert len(list(tmp_path.iterdir())) == 3
    write_text(tmp_path / "file", "new")
    with atomic_folder(tmp_path / "model") as temporary:
        (temporary / "a").write_text("new")
    assert contents(tmp_path) == {".file.settings": "somebody else's", "file": "new", "model/a": "new"}


def test_what_another_writer_is_at_work_on_is_not_swept_up(tmp_path: Path) -> None:
    with atomic_folder(tmp_path / "model") as one:
        (one / "a").write_text("first")
        with atomic_folder(tmp_path / "model") as other:
            (other / "a").write_text("second")
        assert contents(tmp_path / "model") == {"a": "second"}
    assert contents(tmp_path) == {"model/a": "first"}


@pytest.mark.parametrize("name", ["mkdtemp", "mkstemp"])
def test_what_another_writer_sweeps_up_before_it_is_locked_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    make, swept = getattr(tempfile, name), []

    def made(**options: Any) -> Any:
        found = make(**options)
        if not swept:
            swept.append(1)
            Path(found).rmdir() if name == "mkdtemp" else Path(found[1]).unlink()
        return found

    monkeypatch.setattr(tempfile, name, made)
    if name == "mkdtemp":
        with atomic_folder(tmp_path / "model") as temporary:
            (temporary / "a").write_text("new")
        assert contents(tmp_path) == {"model/a": "new"}
    else:
        write_text(tmp_path / "file", "new")
        assert contents(tmp_path) == {"file": "new"}
    assert swept == [1]


def test_a_folder_is_there_at_every_moment_while_it_is_replaced(tmp_path: Path) -> None:
    target = tmp_path / "model"

    def write(text: str) -> None:
        with atomic_folder(target) as temporary:
            (temporary / "a").write_text(text)

    write("0")
    done, missing = threading.Event(), []

    def look() -> None:
        while not done.is_set():
            if not target.is_dir():
                missing.append(1)

    thread = threading.Thread(target=look)
    thread.start()
    for number in range(200):
        write(str(number))
    done.set()
    thread.join()
    assert missing == []


def test_a_kill_between_two_renamings_is_mended_by_the_next_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "model"
    with atomic_folder(target) as temporary:
        (temporary / "a").write_text("old")
    monkeypatch.setattr(files, "_exchange", lambda *_: False)
    rename = Path.replace

    def killing(self: Path, to: Path) -> Path:
        if to == target:
            os.kill(os.getpid(), signal.SIGKILL)
        return rename(self, to)

    def save() -> None:
        monkeypatch.setattr(Path, "replace", killing)
        with atomic_folder(target) as temporary:
            (temporary / "a").write_text("new")

    assert child(save) == signal.SIGKILL
    assert not target.exists()
    with pytest.raises(ValueError), atomic_folder(target):
        raise ValueError
    assert contents(tmp_path) == {"model/a": "old"}


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "model cannot be written (No space left on device): free"),
        (RuntimeError("I/O error: No space left on device (os error 28)"), "(No space left on device): free some room"),
        (PermissionError(errno.EACCES, "no", "/x/.model.1.condiff-part"), "choose a place that you may write to"),
    ],
)
@pytest.mark.parametrize("atomic", [atomic_path, atomic_folder])
def test_a_full_or_forbidden_place_is_named(tmp_path: Path, atomic: Any, error: Exception, message: str) -> None:
    with pytest.raises(WriteError) as caught, atomic(tmp_path / "model"):
        raise error
    assert message in str(caught.value)
    assert "what was there before is unchanged" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_other_errors_within_a_write_stay_what_they_are(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="source"), atomic_path(tmp_path / "model"):
        (tmp_path / "source").read_text()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux")
def test_a_full_disk_is_noticed_before_a_mapped_file_is_filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    assert new_array(tmp_path / "x.npy", "f8", (3, 2)).shape == (3, 2)
    monkeypatch.setattr(os, "posix_fallocate", no_room)
    with pytest.raises(WriteError, match="array cannot be written"), atomic_path(tmp_path / "array") as temporary:
        new_array(temporary, "f8", (3, 2))


def test_writers_in_threads_leave_the_permissions_alone(tmp_path: Path) -> None:
    before = os.umask(0o022)
    os.umask(before)
    threads = [
        threading.Thread(target=lambda n=n: [write_text(tmp_path / f"{n}", str(i)) for i in range(50)])
        for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    after = os.umask(before)
    assert after == before


@pytest.mark.parametrize(("text", "size"), [("100", 100), ("8G", 8 << 30), ("2 kb", 2048)])
def test_the_memory_that_a_file_may_take_can_be_set(monkeypatch: pytest.MonkeyPatch, text: str, size: int) -> None:
    monkeypatch.setenv("CONDIFF_MEMORY", text)
    assert memory_budget() == size
    monkeypatch.setenv("CONDIFF_MEMORY", "much")
    with pytest.raises(InvalidInputError, match="CONDIFF_MEMORY must be"):
        memory_budget()


def test_what_headers_declare_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CONDIFF_MEMORY", raising=False)
    assert memory_budget() > 0
    check_room("x", 200 << 20, "mend it", packed=10)
    with pytest.raises(InvalidFileError, match=r"x unpacks to 2\.1 GB from 2\.1 MB, .*: mend it"):
        check_room("x", 2 << 30, "mend it", packed=2 << 20)
    with pytest.raises(InvalidFileError, match=r"would take 1,000,000\.0 GB of memory.*CONDIFF_MEMORY"):
        check_room("x", 10**15, "mend it")


@pytest.mark.parametrize(
    "text",
    ["[" * 990 + "]" * 990, "[" * 100_000, "[" * 70 + "]" * 70, '{"a": ' + "9" * 5000 + "}", "nul", b"\xff\xfe"],
    ids=["deep", "open", "quite deep", "digits", "word", "bytes"],
)
def test_json_that_nobody_wrote_is_one_error(tmp_path: Path, text: Any) -> None:
    (tmp_path / "x.json").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(InvalidFileError, match=r"x\.json is .*; again") as caught:
        read_json(tmp_path / "x.json", "again")
    assert len(str(caught.value)) < 500 + len(str(tmp_path))


def test_what_decoders_raise_is_one_error() -> None:
    for error in (SyntaxError("bad\nworse"), KeyError("name"), MemoryError()):
        with pytest.raises(InvalidFileError) as caught, refusing("x.png", "an image", "replace it"):
            raise error
        assert str(caught.value).startswith("x.png ")
        assert "\n" not in str(caught.value)
        assert str(caught.value).endswith(": replace it")


def test_messages_are_never_longer_than_a_few_lines() -> None:
    text = str(InvalidFileError(f"{'x' * 100_000}: write it again"))
    assert len(text) == 1000
    assert text.endswith("xxx: write it again")
    assert isinstance(WriteError("x"), CondiffError)


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
