from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Run

from condiff.reproduce.bench.scale import sweep


@pytest.fixture
def no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(job: dict[str, Any], limit: float) -> dict[str, Any]:
        known = {name: job[name] for name in ("method", "points", "threads")}
        measured = {"status": "ok", "seconds": float(job["points"]) / 1000, "memory_mb": 900.0}
        if job["method"] == "products":
            return known | measured | {"nodes": 10, "bytes_a_second": 2e10, "share_of_triad": 0.6, "seconds": 1.0}
        if job["method"] != "COIN":
            return known | {"status": "time", "reason": f"more than {limit:.0f} s"}
        parts = {f"seconds_{part}": 1.0 for part in ("neighbours", "graph", "fit", "predict")}
        return known | measured | parts | {"accuracy": 0.9, "best_accuracy": 0.95, "recall": 0.97}

    monkeypatch.setattr(sweep, "_run", run)


def test_json_and_a_picture(condiff: Run, no_work: None, tmp_path: Path) -> None:
    out = tmp_path / "bench.json"
    result = condiff("bench", "scale", "--points", 70_000, "--method", "COIN", "--products", "--out", out, "--json")
    assert result.code == 0, result.err
    rows = json.loads(result.out)
    assert [(row["method"], row["points"]) for row in rows] == [("COIN", 70_000), ("products", 0)]
    assert rows[0]["made"]["command"]
    assert out.with_suffix(".png").exists()


def test_a_table_for_people(condiff: Run, no_work: None, tmp_path: Path) -> None:
    sizes = ("--points", 70_000, "--points", 140_000)
    result = condiff("bench", "scale", *sizes, "--limit", 5, "--out", tmp_path / "bench.json")
    assert result.code == 0, result.err
    assert "recall 97.0 %" in result.out
    assert "gave up: more than 5 s" in result.out
    assert "COIN: time grows as points to the power of 1.00" in result.out
    assert "COIN, 140,000 points: 140.0 s, 900 MB, accuracy 90.00 of 95.00" in result.err


def test_products_alone(condiff: Run, no_work: None, tmp_path: Path) -> None:
    result = condiff("bench", "scale", "--products", "--out", tmp_path / "bench.json", "--json")
    assert [row["method"] for row in json.loads(result.out)] == ["products"]
    assert not (tmp_path / "bench.png").exists()


def test_bad_input(condiff: Run, tmp_path: Path) -> None:
    condiff("bench", "scale", "--points", 100).assert_failed("--points must be at least 2,000")
    condiff("bench", "scale", "--method", "COINN").assert_failed("unknown method 'COINN'", "COIN")
    condiff("bench", "scale", "node").assert_failed("scale is run by itself")
