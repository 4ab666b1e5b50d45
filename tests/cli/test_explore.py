from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Run


def test_an_example(condiff: Run, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    result = condiff("explore", "circles", "--points", 60, "--out", out)
    assert (result.code, result.err) == (0, "")
    assert f"60 points in 2 classes, written to {out}" in result.out
    assert "Two circles" in out.read_text(encoding="utf-8")


def test_a_table_and_its_model(condiff: Run, flowers: Path) -> None:
    out = flowers.with_name("page.html")
    result = condiff("explore", flowers, "--target", "species", "--layout", "pca", "--out", out, "--json")
    [found] = json.loads(result.out)
    assert found["classes"] == ["setosa", "versicolor", "virginica"]
    assert found["bytes"] == out.stat().st_size
    assert "f001" in out.read_text(encoding="utf-8")
    model = flowers.with_name("model")
    assert condiff("fit", flowers, "--target", "species", "--out", model).code == 0
    result = condiff("explore", model, "--layout", "pca", "--out", out, "--json")
    assert json.loads(result.out)[0]["points"] == found["points"]


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["moon"], ["unknown source 'moon'", "did you mean 'moons'"]),
        (["flowers.csv"], ["--target"]),
        (["flowers.csv", "--target", "specie"], ["did you mean 'species'"]),
        (["flowers.csv", "--target", "petal_length"], ["20 classes apart"]),
        (["none.csv", "--target", "x"], ["does not exist"]),
        (["moons", "--layout", "magic"], ["--layout must be"]),
    ],
)
def test_errors_are_one_line_and_nothing_is_written(
    condiff: Run, flowers: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], parts: list[str]
) -> None:
    monkeypatch.chdir(flowers.parent)
    condiff("explore", *arguments).assert_failed(*parts)
    assert [path.name for path in flowers.parent.iterdir()] == ["flowers.csv"]


def test_a_model_of_values(condiff: Run, flowers: Path) -> None:
    model = flowers.with_name("model")
    assert condiff("fit", flowers, "--target", "petal_width", "--out", model).code == 0
    condiff("explore", model).assert_failed("COINRegressor: the explorer shows one class per row")
