"""The scripts in examples/ run as they are and leave their picture."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def run(name: str, picture: Path, **environment: str) -> str:
    pytest.importorskip("matplotlib")
    command = [sys.executable, EXAMPLES / name, picture]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})
    assert done.returncode == 0, done.stderr
    assert picture.read_bytes().startswith(b"\x89PNG")
    return done.stdout


def test_two_moons(tmp_path: Path) -> None:
    assert "written to" in run("two_moons.py", tmp_path / "moons.png")


def test_reliability(tmp_path: Path, data_root: Path) -> None:
    shown = run("reliability.py", tmp_path / "reliability.png", CONDIFF_DATA=str(data_root))
    errors = [float(line.split("calibration error ")[1].split(",")[0]) for line in shown.splitlines()[:2]]
    assert errors[1] < errors[0]
