from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Run

from condiff.reproduce import demo, pool


class Here:
    """A pool of processes that works in this one and measures nothing."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __enter__(self) -> Here:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def map(self, _: Any, jobs: list[demo.Job]) -> list[list[demo.Run]]:
        return [
            [demo.Run("COIN", job.labels, job.draw, 0.5 + time / 100, time) for time in demo.TIMES]
            if job.times
            else [demo.Run(method, job.labels, job.draw, 0.9 - job.draw / 10) for method in demo.METHODS]
            for job in jobs
        ]


@pytest.fixture
def pretended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "process_pool", Here)


@pytest.mark.usefixtures("pretended")
def test_it_shows_the_table_and_says_where_the_files_are(condiff: Run, tmp_path: Path) -> None:
    result = condiff("demo", "--draws", 2, "--out", tmp_path / "out")
    assert result.code == 0
    for part in (*demo.METHODS, "1 per class", "10 per class", "85.0 ± 5.0", "over 2 draws"):
        assert part in result.out
    assert result.err.splitlines()[-1].startswith("digits: ")
    for name in ("accuracy.json", "accuracy-against-time.png"):
        assert (tmp_path / "out" / name).stat().st_size > 0
        assert str(tmp_path / "out" / name) in result.out


@pytest.mark.usefixtures("pretended")
def test_json_is_one_list_and_nothing_else(condiff: Run, tmp_path: Path) -> None:
    result = condiff("demo", "--draws", 2, "--out", tmp_path / "out", "--json")
    rows = json.loads(result.out)
    assert len(rows) == len(demo.METHODS) * len(demo.LABELS_PER_CLASS)
    assert rows == json.loads((tmp_path / "out" / "accuracy.json").read_text())
    assert rows[0]["mean"] == pytest.approx(85.0)


@pytest.mark.slow
def test_the_whole_demo_in_processes_of_its_own(script: Run, tmp_path: Path) -> None:
    result = script("demo", "--draws", 2, "--jobs", 1, "--out", tmp_path / "out", "--json")
    assert result.code == 0
    assert "Traceback" not in result.err
    means = {(row["method"], row["labels_per_class"]): row["mean"] for row in json.loads(result.out)}
    assert means["COIN", 1] > means["LabelSpreading", 1]
    assert means["COIN", 10] > means["network alone", 10]
