from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Run


def test_a_model(condiff: Run, flowers: Path) -> None:
    model = flowers.with_name("model")
    fitted = condiff("fit", flowers, "--target", "species", "--out", model, "--layers", 10)
    assert f"condiff report {model}" in fitted.out
    wanted = flowers.with_name("wanted.csv")
    result = condiff("report", model, "--suggestions", wanted)
    assert (result.code, result.err) == (0, "")
    lines = wanted.read_text().splitlines()
    assert lines[0] == "row,id,answer,probability,rival,rival_probability"
    row, name, *_ = lines[1].split(",")
    assert name in flowers.read_text(encoding="utf-8").splitlines()[int(row)].split(",")
    assert f"written to {model / 'report.html'}" in result.out
    page = (model / "report.html").read_text(encoding="utf-8")
    assert "species of flowers.csv, learned from 21 labelled" in page
    assert "Labels that look wrong" in page and "given label" in page and "Which columns mattered" in page
    assert (
        "f0" in page
        and " · " in page
        and "condiff fit flowers.csv --target species" in page
        and "category, 2 levels one-hot" in page
    )
    # A report in its folder does not keep a model from being read or replaced.
    assert condiff("predict", model, flowers, "--out", flowers.with_name("answers.csv")).code == 0
    assert condiff("fit", flowers, "--target", "species", "--out", model, "--layers", 0, "--force").code == 0


def test_committed_results_as_json(condiff: Run, tmp_path: Path) -> None:
    out = tmp_path / "node.html"
    folder = Path(__file__).parents[2] / "results" / "node-costs"
    result = condiff("report", folder, "--out", out, "--json")
    assert (result.code, result.err) == (0, "")
    assert json.loads(result.out) == [{"folder": str(folder), "out": str(out), "bytes": out.stat().st_size}]


def test_a_folder_of_something_else(condiff: Run, tmp_path: Path) -> None:
    condiff("report", tmp_path).assert_failed("holds neither results", "condiff reproduce, ablate, demo or fit")
    condiff("report", tmp_path / "none").assert_failed("does not exist")
    condiff("report", tmp_path, "--suggestions", tmp_path / "a.csv").assert_failed("holds none")
    assert list(tmp_path.iterdir()) == []
