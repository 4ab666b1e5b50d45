"""The scripts in benchmarks/ find what they import and teach how they are called; what they measure is not run."""

import runpy
import sys
from pathlib import Path

import pytest

SCRIPTS = sorted((Path(__file__).parents[1] / "benchmarks").glob("*.py"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_a_benchmark_says_how_it_is_called(script: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(sys, "argv", [str(script), "--help"])
    with pytest.raises(SystemExit) as end:
        runpy.run_path(str(script), run_name="__main__")
    assert end.value.code == 0
    assert script.name in capsys.readouterr().out


def test_there_are_benchmarks() -> None:
    assert SCRIPTS
