from __future__ import annotations

import json
import time
import warnings

import pytest

from condiff.cli import output
from condiff.cli.output import error_line, print_json, progress, warning_line


def test_an_error_is_one_line_however_it_was_written(capsys: pytest.CaptureFixture[str]) -> None:
    error_line("the file\n  is  empty")
    seen = capsys.readouterr()
    assert (seen.out, seen.err) == ("", "condiff: error: the file is empty\n")


def test_a_warning_is_one_line_without_its_source(capsys: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = warning_line
        warnings.warn("two\nlines", UserWarning, stacklevel=1)
    seen = capsys.readouterr()
    assert (seen.out, seen.err) == ("", "condiff: warning: two lines\n")


def test_json_is_printed_alone(capsys: pytest.CaptureFixture[str]) -> None:
    print_json([{"a": 1, "b": None}])
    seen = capsys.readouterr()
    assert json.loads(seen.out) == [{"a": 1, "b": None}]
    assert seen.err == ""


def test_what_is_not_json_is_not_printed_half(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        print_json([{"a": float("nan")}])
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(("total", "lines"), [(3, 3), (100, 10), (25, 13)])
def test_progress_is_plain_lines_on_standard_error(capsys: pytest.CaptureFixture[str], total: int, lines: int) -> None:
    assert list(progress(iter(range(total)), total, "digits")) == list(range(total))
    seen = capsys.readouterr()
    assert seen.out == ""
    assert len(seen.err.splitlines()) == lines
    assert seen.err.splitlines()[-1] == f"digits: {total} of {total}"


def test_long_work_says_that_it_goes_on(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "_BEAT", 0.01)
    with output.working("fitting 5 rows"):
        time.sleep(0.2)
    assert capsys.readouterr().err.startswith("fitting 5 rows ... 0 s\n")
    with pytest.raises(KeyboardInterrupt), output.working("fitting"):
        raise KeyboardInterrupt


def test_the_record_of_a_command_names_no_folder_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["condiff", "bench", "--out", "/home/me/runs", "--tables=a,b", "--before=/tmp/x.json", "data/t.csv"]
    monkeypatch.setattr(output.sys, "argv", words)
    assert output.typed() == "condiff bench --out runs --tables=a,b --before=x.json data/t.csv"
