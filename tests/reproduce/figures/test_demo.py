from __future__ import annotations

from pathlib import Path

import pytest

from condiff.reproduce.demo import Run
from condiff.reproduce.figures import accuracy_against_time

RUNS = [
    Run("COIN", labels, draw, 0.6 + 0.05 * draw + 0.02 * time, time)
    for labels in (1, 5)
    for draw in range(3)
    for time in (0.0, 0.1, 1.0, 10.0)
]


def test_a_picture_is_a_png_of_some_size(tmp_path: Path) -> None:
    matplotlib = pytest.importorskip("matplotlib.image")
    accuracy_against_time(RUNS, tmp_path / "folder" / "picture.png")
    content = (tmp_path / "folder" / "picture.png").read_bytes()
    assert content.startswith(b"\x89PNG\r\n")
    pixels = matplotlib.imread(tmp_path / "folder" / "picture.png")
    assert pixels.shape[0] > 300
    assert pixels.shape[1] > 600
    assert pixels.std() > 0.01  # something is drawn
    assert [path.name for path in (tmp_path / "folder").iterdir()] == ["picture.png"]


def test_the_same_runs_give_the_same_bytes_and_others_give_others(tmp_path: Path) -> None:
    accuracy_against_time(RUNS, tmp_path / "a.png")
    accuracy_against_time(list(RUNS), tmp_path / "b.png")
    accuracy_against_time(RUNS[:-1], tmp_path / "c.png")
    a, b, c = ((tmp_path / f"{name}.png").read_bytes() for name in "abc")
    assert a == b != c


def test_runs_of_the_table_are_not_drawn(tmp_path: Path) -> None:
    accuracy_against_time(RUNS, tmp_path / "a.png")
    accuracy_against_time([*RUNS, Run("COIN", 2, 0, 0.1)], tmp_path / "b.png")
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
