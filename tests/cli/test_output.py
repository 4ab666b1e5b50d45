from __future__ import annotations

import csv
import io
import json
import re
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
    seen, deadline = "", time.monotonic() + 60
    with output.working("fitting 5 rows"):
        while not seen and time.monotonic() < deadline:
            time.sleep(0.01)
            seen += capsys.readouterr().err
    assert re.match(r"fitting 5 rows \.\.\. \d+ s\n", seen)
    with pytest.raises(KeyboardInterrupt), output.working("fitting"):
        raise KeyboardInterrupt


def test_the_record_of_a_command_names_no_folder_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["condiff", "bench", "--out", "/home/me/runs", "--tables=a,b", "--before=/tmp/x.json", "data/t.csv"]
    monkeypatch.setattr(output.sys, "argv", words)
    assert output.typed() == "condiff bench --out runs --tables=a,b --before=x.json data/t.csv"


def test_what_a_terminal_would_obey_is_shown_and_not_sent(capsys: pytest.CaptureFixture[str]) -> None:
    error_line("bad \x1b[2J name \ud800")
    output.note("also \x07 here")
    output.console.print("and \x1b]0;title\x07", markup=False)
    seen = capsys.readouterr()
    assert seen.err == "condiff: error: bad \\x1b[2J name \\ud800\nalso \\x07 here\n"
    assert seen.out == "and \\x1b]0;title\\x07\n"


def test_an_error_is_never_longer_than_a_few_lines(capsys: pytest.CaptureFixture[str]) -> None:
    error_line("x" * 100_000 + ": write it again")
    seen = capsys.readouterr().err
    assert len(seen) < 1100
    assert seen.endswith("xxx: write it again\n")


def test_cells_that_a_spreadsheet_would_run_are_quoted_unless_they_are_wanted() -> None:
    rows = [["=cmd|'/C calc'!A0", "+1 (555)", "@SUM(A1)", "\t=1"], ["-5", "+3.5e2", "-", "a=b"], [-5, None, 2.5, True]]
    stream = io.StringIO()
    assert output.write_csv(["=x", "b", "c", "d"], rows, stream) == 5
    found = list(csv.reader(io.StringIO(stream.getvalue())))
    assert found[0] == ["'=x", "b", "c", "d"]
    assert found[1] == ["'=cmd|'/C calc'!A0", "'+1 (555)", "'@SUM(A1)", "'\t=1"]
    assert found[2:] == [["-5", "+3.5e2", "-", "a=b"], ["-5", "", "2.5", "True"]]
    stream = io.StringIO()
    assert output.write_csv(["=x"], [["=1"]], stream, formulas=True) == 0
    assert stream.getvalue() == "=x\n=1\n"
    assert output.formula_notes(0) == []
    assert output.formula_notes(1) == [
        "1 cell that a spreadsheet would run as a formula now begins with ': --formulas writes them as they are"
    ]
