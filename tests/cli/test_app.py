from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.conftest import Run

from condiff import __version__
from condiff.cli import fit
from condiff.errors import InvalidFileError


def test_version(condiff: Run) -> None:
    result = condiff("--version")
    assert (result.code, result.out, result.err) == (0, f"condiff {__version__}\n", "")


@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help_names_every_command(condiff: Run, option: str) -> None:
    result = condiff(option)
    assert result.code == 0
    for command in ("demo", "fit", "predict", "certify", "data"):
        assert command in result.out


@pytest.mark.parametrize("command", ["demo", "fit", "predict", "certify"])
def test_help_of_a_command_shows_an_example(condiff: Run, command: str) -> None:
    result = condiff(command, "--help")
    assert result.code == 0
    assert f"Example: condiff {command}" in result.out


@pytest.mark.parametrize(
    "arguments",
    [["fti"], ["fit", "--colour", "red"], ["--colour"], ["fit"], ["fit", "x.csv", "--target", "y"], ["certify"]],
    ids=" ".join,
)
def test_what_the_command_line_does_not_know_ends_with_2(condiff: Run, arguments: list[str]) -> None:
    result = condiff(*arguments)
    assert result.code == 2
    assert result.out == ""
    assert "Usage" in result.err
    assert "Traceback" not in result.err


def test_without_a_command_the_help_is_shown(condiff: Run) -> None:
    result = condiff()
    assert "certify" in result.out + result.err


def test_an_error_is_one_line_and_with_debug_a_traceback(condiff: Run) -> None:
    condiff("fit", "nowhere.csv", "--target", "y", "--out", "m").assert_failed("nowhere.csv does not exist")
    with pytest.raises(ValueError, match=r"nowhere\.csv does not exist"):
        condiff("fit", "nowhere.csv", "--target", "y", "--out", "m", "--debug")


@pytest.mark.parametrize("arguments", [["--debug", "certify", "no.npz"], ["certify", "--debug", "no.npz"]])
def test_debug_is_understood_before_and_after_the_command(condiff: Run, arguments: list[str]) -> None:
    with pytest.raises(InvalidFileError, match=r"no\.npz: no such file"):
        condiff(*arguments)


def test_the_script_shows_a_traceback_with_debug(script: Run) -> None:
    result = script("certify", "no.npz", "--debug")
    assert result.code != 0
    assert "Traceback" in result.err
    assert "no.npz: no such file" in result.err


def test_the_script_says_an_error_in_one_line(script: Run) -> None:
    script("certify", "no.npz").assert_failed("no.npz: no such file")


def test_what_the_system_refuses_is_one_line_too(condiff: Run, flowers: Path) -> None:
    in_a_file = flowers / "model"
    condiff("fit", flowers, "--target", "species", "--out", in_a_file).assert_failed("flowers.csv")


def test_an_interruption_is_no_traceback(condiff: Run, flowers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(fit, "read_table", interrupted)
    result = condiff("fit", flowers, "--target", "species", "--out", flowers.with_name("m"))
    assert result.code == 130
    assert "Traceback" not in result.err
    assert not flowers.with_name("m").exists()
