"""The journal: nothing that was acknowledged is lost, and nothing else is believed."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from condiff.errors import InvalidFileError, InvalidInputError
from condiff.labelling.journal import Journal

ABOUT = {"target": "kind", "rows": 9, "content": "abc"}


def test_what_was_said_is_there_again(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j", ABOUT, 9)
    journal.write(3, "label", "ash", "me", drawn=True)
    journal.write(3, "label", "Ösch\n", "you")
    journal.write(4, "unsure", "", "me")
    journal.close()
    again = Journal(tmp_path / "j", ABOUT, 9)
    assert again.decisions == journal.decisions
    assert (again.last[3].label, again.last[3].before, again.decisions[0].drawn) == ("Ösch\n", 1, True)
    again.close()


def test_undo_takes_back_ones_own_step_by_step_and_no_other(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j", ABOUT, 9)
    journal.write(1, "label", "ash", "me")
    journal.write(2, "label", "elm", "you")
    journal.write(1, "label", "oak", "me")
    back = journal.undo("me")
    assert back is not None and (back.row, back.label, back.undoes) == (1, "ash", 3)
    assert journal.undo("me") is None  # the label before was replaced since, and what replaced it was taken back
    first = journal.undo("you")
    assert first is not None and (first.row, first.kind) == (2, "open")
    assert journal.undo("you") is None
    journal.close()


def test_half_a_line_was_never_acknowledged(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j", ABOUT, 9)
    journal.write(1, "label", "ash", "me")
    journal.close()
    whole = (tmp_path / "j").read_bytes()
    for cut in (1, 20, len(whole.splitlines()[-1])):
        (tmp_path / "j").write_bytes(whole + whole.splitlines()[-1][:cut])
        again = Journal(tmp_path / "j", ABOUT, 9)
        assert len(again.decisions) == 1
        again.write(2, "label", "elm", "me")
        again.close()
        assert len((tmp_path / "j").read_bytes().splitlines()) == 3


def test_other_rows_damage_and_a_second_process_are_refused(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j", ABOUT, 9)
    journal.write(1, "label", "ash", "me")
    with pytest.raises(InvalidInputError, match="in use"):
        Journal(tmp_path / "j", ABOUT, 9)
    journal.close()
    with pytest.raises(InvalidFileError, match="other rows"):
        Journal(tmp_path / "j", {**ABOUT, "content": "xyz"}, 9)
    lines = (tmp_path / "j").read_text().splitlines()
    for bad in ('{"row": 1}', "[", lines[1].replace('"row": 1', '"row": 9'), lines[1].replace("label", "lebal", 1)):
        (tmp_path / "j").write_text("\n".join([lines[0], bad, ""]))
        with pytest.raises(InvalidFileError, match="line 2, is damaged"):
            Journal(tmp_path / "j", ABOUT, 9)


def test_a_full_disk_is_one_line_and_leaves_no_half_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(tmp_path / "j", ABOUT, 9)
    journal.write(1, "label", "ash", "me")
    before = (tmp_path / "j").read_bytes()

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(InvalidFileError, match="free some room"):
            journal.write(2, "label", "elm", "me")
    assert (tmp_path / "j").read_bytes() == before
    assert 2 not in journal.last
    journal.write(2, "label", "oak", "me")
    journal.close()
    again = Journal(tmp_path / "j", ABOUT, 9)
    assert again.last[2].label == "oak"
    again.close()


@pytest.mark.skipif(os.name != "posix", reason="kills as POSIX does")
def test_a_killed_writer_loses_nothing_that_it_acknowledged(tmp_path: Path) -> None:
    script = f"""
        from pathlib import Path
        from condiff.labelling.journal import Journal
        journal = Journal(Path({str(tmp_path / "j")!r}), {ABOUT!r}, 9)
        for number in range(100000):
            print(journal.write(number % 9, "label", str(number), "me").number, flush=True)
    """
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    seen = [process.stdout.readline() for _ in range(50)]
    process.send_signal(signal.SIGKILL)
    seen += process.stdout.read().splitlines(keepends=True)
    process.wait()
    process.stdout.close()
    acknowledged = int([line for line in seen if line.endswith("\n")][-1])
    journal = Journal(tmp_path / "j", ABOUT, 9)
    assert len(journal.decisions) >= acknowledged >= 50
    assert [int(each.label) for each in journal.decisions] == list(range(len(journal.decisions)))
    journal.close()
