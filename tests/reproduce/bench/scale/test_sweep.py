from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from condiff.errors import CondiffError
from condiff.pages.canvas import save
from condiff.reproduce.bench.scale import job, methods, sweep
from condiff.reproduce.bench.scale.methods import _watched
from condiff.reproduce.bench.scale.points import make_points
from condiff.reproduce.bench.scale.sweep import exponents, run_sweep
from condiff.reproduce.figures.bench import draw_scale


def row(method: str, points: int, **more: Any) -> dict[str, Any]:
    found = {"seconds": points**1.1, "memory_mb": 500.0, "accuracy": 0.9, "best_accuracy": 0.95, "status": "ok"}
    return {"method": method, "points": points, "threads": 2} | found | more


def test_exponents_leave_out_what_is_small_or_gave_up() -> None:
    rows = [row("A", n) for n in (62_500, 125_000, 250_000)] + [row("A", 100, seconds=1e9)]
    rows += [row("B", 62_500), {"method": "B", "points": 125_000, "threads": 2, "status": "time"}]
    assert exponents(rows) == {"A": pytest.approx(1.1)}


def test_jobs_are_run_once_and_a_method_that_gave_up_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    called = []

    def run(call: list[str], timeout: float, **_: Any) -> Any:
        asked = json.loads(call[-1])
        called.append((asked["method"], asked["points"]))
        if asked["method"] == "LabelSpreading" and asked["points"] > 50_000:
            raise subprocess.TimeoutExpired(call, timeout)
        if asked["method"] == "perceptron":
            return SimpleNamespace(returncode=-9, stdout="", stderr="")
        return SimpleNamespace(returncode=0, stdout="noise\n" + json.dumps(asked | row(**_of(asked))), stderr="")

    def _of(asked: dict[str, Any]) -> dict[str, Any]:
        return {"method": asked["method"], "points": asked["points"]}

    monkeypatch.setattr(sweep.subprocess, "run", run)
    out, reported = tmp_path / "bench.json", []
    options: dict[str, Any] = {
        "sizes": (50_000, 62_500, 125_000),
        "methods": ("COIN", "LabelSpreading", "perceptron"),
        "report": reported.append,
    }
    rows = run_sweep(out, **options)
    assert [(row["method"], row["points"], row["status"]) for row in rows] == [
        ("COIN", 50_000, "ok"),
        ("COIN", 62_500, "ok"),
        ("COIN", 125_000, "ok"),
        ("LabelSpreading", 50_000, "ok"),
        ("LabelSpreading", 62_500, "time"),
        ("perceptron", 50_000, "memory"),
    ]
    assert "LabelSpreading, 125,000 points: not tried, because it gave up at 62,500" in reported
    assert all("folder" not in row for row in rows)
    assert json.loads(out.read_text()) == rows
    called.clear()
    assert run_sweep(out, **options) == rows
    assert called == []


def test_a_job_that_fails_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    failed = SimpleNamespace(returncode=1, stdout="", stderr="Traceback\nValueError: no such thing")
    monkeypatch.setattr(sweep.subprocess, "run", lambda *_, **__: failed)
    with pytest.raises(CondiffError, match="COIN, 50,000 points failed: ValueError: no such thing"):
        run_sweep(tmp_path / "bench.json", sizes=(50_000,), methods=("COIN",))


def test_the_picture(tmp_path: Path) -> None:
    rows = [row(name, n) for name in ("COIN", "other") for n in (62_500, 125_000)]
    rows += [{"method": "other", "points": 250_000, "threads": 2, "status": "time", "reason": "more than 1 s"}]
    save(draw_scale(rows), tmp_path / "scale.png")
    assert (tmp_path / "scale.png").stat().st_size > 1000
    labels = [line.get_label() for line in draw_scale(rows).axes[0].lines]
    assert labels == ["COIN (1.10)", "other (1.10)"]


def test_a_stopwatch_measures_and_leaves_no_trace() -> None:
    owner, seconds = SimpleNamespace(work=lambda x, *, y: x + y), dict[str, float]()
    before = owner.work
    with _watched(owner, "work", seconds, "step"):
        assert owner.work(1, y=2) == 3
        once = seconds["step"]
        assert once > 0
        owner.work(1, y=2)
    assert seconds["step"] > once
    assert owner.work is before


def test_a_job_in_a_process_of_its_own(tmp_path: Path) -> None:
    asked = {"method": "perceptron", "points": 2500, "threads": 1, "folder": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-m", "condiff.reproduce.bench.scale.job", json.dumps(asked)],
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout)
    assert found["status"] == "ok"
    assert 0.8 < found["accuracy"] < found["best_accuracy"]
    assert found["memory_mb"] > 50


def test_missing_packages_and_memory_are_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked = {"method": "Poisson learning", "points": 2000, "threads": 1, "folder": str(tmp_path)}
    monkeypatch.setitem(sys.modules, "graphlearning", None)
    found = job.run(asked)
    assert found["status"] == "missing"
    assert "condiff[bench]" in found["reason"]
    assert (tmp_path / "graph-2000.npz").exists()

    def out_of_memory(job: dict[str, Any]) -> dict[str, Any]:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory")

    monkeypatch.setattr(job, "_measured", out_of_memory)
    assert job.run(asked)["status"] == "memory"


@pytest.mark.parametrize("name", ["LabelSpreading", "LabelPropagation", "CorrectAndSmooth"])
def test_other_methods_answer_the_points(name: str) -> None:
    method, takes_graph = methods.METHODS[name]
    if takes_graph:
        pytest.importorskip("torch_geometric", reason="torch_geometric is not installed")
    points = make_points(3000)
    found = method(points, methods.shared_graph(points)) if takes_graph else method(points)
    assert 0.8 < found["accuracy"] < points.best_accuracy
    assert found["seconds"] > 0


def test_coin_tells_the_time_of_its_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(methods, "_NEW", 200)
    points = make_points(2200)
    found = methods.coin(points)
    parts = [found[f"seconds_{part}"] for part in ("neighbours", "graph", "fit", "predict")]
    assert min(parts) > 0
    assert sum(parts) == pytest.approx(found["seconds"])
    assert 0.85 < found["accuracy"] < points.best_accuracy
    assert np.isfinite(found["held_out_accuracy"])
    assert found["recall"] == 1.0
