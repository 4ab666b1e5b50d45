"""The scripts in examples/ run as they are and leave their picture."""

import runpy
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
Run = Callable[[str], str]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a script in this process, which saves a start, and gives what it printed."""

    def started(name: str) -> str:
        picture = tmp_path / "picture.png"
        monkeypatch.setattr(sys, "argv", [name, str(picture)])
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        assert picture.read_bytes().startswith(b"\x89PNG")
        return capsys.readouterr().out

    return started


def test_two_moons(run: Run) -> None:
    assert "written to" in run("two_moons.py")


def test_karate_club(run: Run) -> None:
    assert int(run("karate_club.py").split(" of ")[0]) >= 30


def test_series_with_holes(run: Run) -> None:
    shown = run("series_with_holes.py")
    error, last = (float(part.split()[-1]) for part in shown.split(";")[0].split(","))
    assert error < last


def test_certified_radius(run: Run) -> None:
    assert "of 60 abstained" in run("certified_radius.py")


@pytest.mark.usefixtures("data_root")
def test_reliability(run: Run) -> None:
    shown = run("reliability.py")
    errors = [float(line.split("calibration error ")[1].split(",")[0]) for line in shown.splitlines()[:2]]
    assert errors[1] < errors[0]
