"""condiff bench: engines beside the paper's way, and how methods scale."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Run

from condiff.reproduce.bench import speed
from condiff.reproduce.bench.scale import sweep


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


def test_scale_as_json_and_a_picture(condiff: Run, no_work: None, tmp_path: Path) -> None:
    out = tmp_path / "bench.json"
    result = condiff("bench", "scale", "--points", 70_000, "--method", "COIN", "--products", "--out", out, "--json")
    assert result.code == 0, result.err
    rows = json.loads(result.out)
    assert [(row["method"], row["points"]) for row in rows] == [("COIN", 70_000), ("products", 0)]
    assert rows[0]["made"]["command"]
    assert out.with_suffix(".png").exists()


def test_scale_as_a_table_for_people(condiff: Run, no_work: None, tmp_path: Path) -> None:
    sizes = ("--points", 70_000, "--points", 140_000)
    result = condiff("bench", "scale", *sizes, "--limit", 5, "--out", tmp_path / "bench.json")
    assert result.code == 0, result.err
    assert "recall 97.0 %" in result.out
    assert "gave up: more than 5 s" in result.out
    assert "COIN: time grows as points to the power of 1.00" in result.out
    assert "COIN, 140,000 points: 140.0 s, 900 MB, accuracy 90.00 of 95.00" in result.err


def test_scale_of_products_alone(condiff: Run, no_work: None, tmp_path: Path) -> None:
    result = condiff("bench", "scale", "--products", "--out", tmp_path / "bench.json", "--json")
    assert [row["method"] for row in json.loads(result.out)] == ["products"]
    assert not (tmp_path / "bench.png").exists()


def test_bad_input_for_scale(condiff: Run, tmp_path: Path) -> None:
    condiff("bench", "scale", "--points", 100).assert_failed("--points must be at least 2,000")
    condiff("bench", "scale", "--method", "COINN").assert_failed("unknown method 'COINN'", "COIN")
    condiff("bench", "scale", "node").assert_failed("unexpected extra argument(s) (node)")
    condiff("bench", "node", "scale").assert_failed("scale is run by itself")


def test_ratios_of_an_earlier_run_stand_beside(condiff: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    row = {
        "task": "node tiny", "reference_seconds": 4.0, "engine_seconds": 0.1, "ratio": 40.0, "max_difference": 0.0,
        "peak_memory_mb": 1.0, "published_gpu_seconds": None,
    }  # fmt: skip
    monkeypatch.setitem(speed.TASKS, "node", lambda: [None])
    monkeypatch.setattr(speed, "measure", lambda *_: dict(row))
    before = tmp_path / "before.json"
    before.write_text(json.dumps([row | {"ratio": 37.2}]))
    result = condiff("bench", "node", "--before", before, "--threads", 1)
    assert result.code == 0, result.err
    assert "before" in result.out and result.out.split("node tiny")[1].split()[4:6] == ["40", "37"]


def test_options_that_do_not_belong_together(condiff: Run, tmp_path: Path) -> None:
    condiff("bench", "node", "--points", 5000).assert_failed("No such option: --points", "condiff bench speed --help")
    condiff("bench", "scale", "--before", tmp_path / "x.json").assert_failed("No such option: --before")
    (tmp_path / "x.json").write_text("{}]")
    condiff("bench", "node", "--before", tmp_path / "x.json").assert_failed("is not a file that condiff bench")


def test_tables_are_compared_and_the_same_command_runs_nothing_again(condiff: Run, tmp_path: Path) -> None:
    out = tmp_path / "tables"
    what = ("--tables", "sk-wine,sk-iris", "--method", "LR,LDA,1NN", "--budget", "5", "--draws", 2)
    command = ("bench", "tables", *what, "--jobs", 1, "--out", out)
    result = condiff(*command)
    assert result.code == 0, result.err
    assert "12 of 12 runs" in result.err and "5 labels per class, chosen half, classification" in result.out
    files = {
        "summary.json",
        "table.md",
        "comparison.md",
        "comparison.json",
        "by-table.csv",
        "runs.sqlite",
        "splits.csv",
    }
    pictures = {f"ranks-chosen-5-per-class-{name}.png" for name in ("accuracy", "balanced-accuracy", "log-loss")}
    assert files | pictures <= {path.name for path in out.iterdir()}
    table = (out / "table.md").read_text()
    assert table.startswith(
        "## 5 labels per class, chosen half, classification: 2 tables, 2 draws\n\n| method | accuracy"
    )
    again = condiff(*command, "--json")
    assert {row["metric"] for row in json.loads(again.out)} >= {
        "accuracy",
        "balanced_accuracy",
        "rank_log_loss",
        "seconds",
    }
    assert "LR" not in again.err  # nothing is left to run


def test_bad_input_for_tables(condiff: Run, tmp_path: Path) -> None:
    condiff("bench", "tables", "--tables", "sk-wines").assert_failed("did you mean 'sk-wine'")
    condiff("bench", "tables", "--budget", "r0").assert_failed("--budget 'r0'")
    condiff("bench", "tables", "--method", "LRR").assert_failed("unknown method 'LRR'")
    condiff("bench", "tables", "--shots", 1).assert_failed("No such option: --shots", "condiff bench tables --help")
