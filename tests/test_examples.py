"""The scripts in examples/ run as they are and leave their picture."""

import os
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[1] / "examples"


def run(name: str, picture: Path, **environment: str) -> str:
    command = [sys.executable, EXAMPLES / name, picture]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})
    assert done.returncode == 0, done.stderr
    assert picture.read_bytes().startswith(b"\x89PNG")
    return done.stdout


def test_two_moons(tmp_path: Path) -> None:
    assert "written to" in run("two_moons.py", tmp_path / "moons.png")


def test_karate_club(tmp_path: Path) -> None:
    assert int(run("karate_club.py", tmp_path / "club.png").split(" of ")[0]) >= 30


def test_series_with_holes(tmp_path: Path) -> None:
    shown = run("series_with_holes.py", tmp_path / "series.png")
    error, last = (float(part.split()[-1]) for part in shown.split(";")[0].split(","))
    assert error < last


def test_certified_radius(tmp_path: Path) -> None:
    assert "of 60 abstained" in run("certified_radius.py", tmp_path / "radius.png")


def test_reliability(tmp_path: Path, data_root: Path) -> None:
    shown = run("reliability.py", tmp_path / "reliability.png", CONDIFF_DATA=str(data_root))
    errors = [float(line.split("calibration error ")[1].split(",")[0]) for line in shown.splitlines()[:2]]
    assert errors[1] < errors[0]
