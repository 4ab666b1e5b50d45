from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Run


def test_json_has_the_agreed_fields(condiff: Run, data_root: Path, tmp_path: Path) -> None:
    out = tmp_path / "bench.json"
    result = condiff("bench", "covid", "--repeats", 1, "--threads", 1, "--out", out, "--json")
    assert result.code == 0, result.err
    [row] = json.loads(result.out)
    agreed = {
        "task", "reference_seconds", "engine_seconds", "ratio", "max_difference", "peak_memory_mb",
        "published_gpu_seconds",
    }  # fmt: skip
    assert agreed <= set(row) and row["task"] == "covid" and row["threads"] == 1
    assert row["ratio"] > 1 and row["max_difference"] < 1e-4
    assert json.loads(out.read_text()) == [row]


def test_a_table_for_people(condiff: Run, data_root: Path) -> None:
    result = condiff("bench", "covid", "--repeats", 1, "--threads", 1)
    assert "paper's way" in result.out and "covid" in result.out
    assert "covid: turn 1 of 1" in result.err


def test_an_unknown_task(condiff: Run) -> None:
    condiff("bench", "nodes").assert_failed("unknown task 'nodes'", "node", "prostate")
