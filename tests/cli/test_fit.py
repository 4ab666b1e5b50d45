from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_iris
from tests.cli.conftest import Run, flower_rows, species_of, write_rows

from condiff import COINClassifier, COINRegressor, load
from condiff.cli import fit


def test_it_says_what_it_did_and_writes_the_model(condiff: Run, flowers: Path) -> None:
    out = flowers.with_name("model")
    result = condiff("fit", flowers, "--target", "species", "--out", out)
    assert (result.code, result.err) == (0, "")
    for part in ("150 rows, 21 labelled", "setosa", "classification", "edges", "layers of", "certified", "held-out"):
        assert part in result.out
    assert f"condiff predict {out} DATA" in result.out
    model = load(out)
    assert isinstance(model, COINClassifier)
    ids = [str(row["id"]) for row in flower_rows()]
    assert (model.transduction_ == species_of(ids)).mean() > 0.85


def test_json_is_one_list_and_nothing_else(condiff: Run, flowers: Path) -> None:
    out = flowers.with_name("model")
    result = condiff("fit", flowers, "--target", "species", "--out", out, "--json")
    assert result.err == ""
    [summary] = json.loads(result.out)
    assert summary["task"] == "classification"
    assert summary["rows"] == 150
    assert sum(summary["labelled"].values()) == 21
    assert set(summary["labelled"]) == {"setosa", "versicolor", "virginica"}
    assert summary["certificate"]["positivity_limit"] >= summary["strength"] * (1 - 1e-6)
    assert 0.6 < summary["cv_score"] <= 1
    assert summary["model"] == str(out)


def test_the_script_does_it_too(script: Run, flowers: Path) -> None:
    out = flowers.with_name("model")
    result = script("fit", flowers, "--target", "species", "--out", out, "--json")
    assert (result.code, result.err) == (0, "")
    assert json.loads(result.out)[0]["rows"] == 150
    assert sorted(path.name for path in out.iterdir()) == ["arrays.safetensors", "model.json"]


def test_parquet_is_read_as_csv_is(condiff: Run, flowers: Path) -> None:
    frame = pd.read_csv(flowers)
    table = flowers.with_suffix(".parquet")
    frame.to_parquet(table, index=False)
    for source, name in ((flowers, "one"), (table, "two")):
        assert condiff("fit", source, "--target", "species", "--out", flowers.with_name(name)).code == 0
    one, two = load(flowers.with_name("one")), load(flowers.with_name("two"))
    np.testing.assert_array_equal(one.transduction_, two.transduction_)


@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_npz_is_read_dense_and_sparse(condiff: Run, tmp_path: Path, form: str) -> None:
    X, y = load_iris(return_X_y=True)
    labels = np.where(np.arange(150) % 7 == 0, y, -1)
    rows = sp.csr_array(X)
    parts = {f"X_{part}": getattr(rows, part) for part in ("data", "indices", "indptr", "shape")}
    np.savez(tmp_path / "iris.npz", **({"X": X} if form == "dense" else parts), kind=labels)
    result = condiff("fit", tmp_path / "iris.npz", "--target", "kind", "--out", tmp_path / "model")
    assert (result.code, result.err) == (0, "")
    model = load(tmp_path / "model")
    assert (model.transduction_ == y).mean() > 0.85
    assert "22 labelled: 0 8, 1 7, 2 7" in result.out


def test_numbers_with_fractions_are_a_regression(condiff: Run, tmp_path: Path) -> None:
    rows = flower_rows()
    for position, row in enumerate(rows):
        row["petal_width"] = "" if position % 3 else row["petal_width"]
        row.pop("species")
    result = condiff(
        "fit", write_rows(tmp_path / "f.csv", rows), "--target", "petal_width", "--out", tmp_path / "model"
    )
    assert (result.code, result.err) == (0, "")
    assert "regression" in result.out
    assert "R^2" in result.out
    assert isinstance(load(tmp_path / "model"), COINRegressor)


def test_options_reach_the_model(condiff: Run, flowers: Path) -> None:
    out = flowers.with_name("model")
    options = ["--n-neighbors", 7, "--layers", 3, "--seed", 5, "--drop", "size"]
    result = condiff("fit", flowers, "--target", "species", "--out", out, *options)
    assert result.code == 0
    model = load(out)
    assert (model.n_neighbors, model.layers_, model.random_state) == (7, 3, 5)
    assert "size" not in [column["name"] for column in model.metadata_["encoder"]["columns"]]


def test_names_with_brackets_are_shown_as_they_are(condiff: Run, tmp_path: Path) -> None:
    rows = flower_rows()
    for row in rows:
        row["species"] = f"[/{row['species']}]" if row["species"] else ""
        row["[bold]"] = row.pop("sepal_length")
        row["constant [red]"] = 1
    result = condiff("fit", write_rows(tmp_path / "f.csv", rows), "--target", "species", "--out", tmp_path / "m[1]")
    assert (result.code, result.err) == (0, "")
    for part in ("[/setosa]", "constant [red]", "m[1]"):
        assert part in result.out


def test_points_out_of_reach_are_one_warning_line(condiff: Run, tmp_path: Path) -> None:
    rows: list[dict[str, object]] = []
    rng = np.random.default_rng(0)
    for cluster, labels in ((0, "ab"), (500, "")):
        for number in range(40):
            kind = labels[number % 2] if labels and number < 6 else ""
            rows.append({"x": cluster + rng.normal(), "y": rng.normal(), "kind": kind})
    result = condiff("fit", write_rows(tmp_path / "f.csv", rows), "--target", "kind", "--out", tmp_path / "model")
    assert result.code == 0
    assert len(result.err.splitlines()) == 1
    assert result.err.startswith("condiff: warning: 40 points lie in 1 component(s)")
    assert "40 rows out of every label's reach" in result.out
    assert "too few labels" in result.out


def content(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["missing.csv", "--target", "species"], ["missing.csv", "does not exist"]),
        (["flowers.csv", "--target", "specie"], ["no target column 'specie'", "did you mean 'species'"]),
        (["flowers.csv", "--target", "species", "--drop", "nothing"], ["'nothing'"]),
        (["flowers.csv", "--target", "species", "--task", "clustering"], ["--task must be", "'clustering'"]),
        (["flowers.csv", "--target", "species", "--task", "regression"], ["not a number in row 1"]),
        (["flowers.csv", "--target", "petal_width", "--task", "classification"], ["continuous"]),
        (["one.csv", "--target", "species"], ["only one class, 'setosa'"]),
        (["none.csv", "--target", "species"], ["is empty in every row"]),
        (["empty.csv", "--target", "species"], ["is empty (0 bytes)"]),
        (["notes.docx", "--target", "species"], ["not a table that condiff reads"]),
    ],
    ids=lambda value: " ".join(value) if "--target" in value else "",
)
def test_errors_are_one_line_and_nothing_is_written(
    condiff: Run, flowers: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], parts: list[str]
) -> None:
    folder = flowers.parent
    rows = flower_rows()
    write_rows(folder / "one.csv", [{**row, "species": "setosa" if row["species"] == "setosa" else ""} for row in rows])
    write_rows(folder / "none.csv", [{**row, "species": ""} for row in rows])
    (folder / "empty.csv").touch()
    (folder / "notes.docx").write_text("hello")
    monkeypatch.chdir(folder)
    before = content(folder)
    condiff("fit", *arguments, "--out", "model").assert_failed(*parts)
    assert content(folder) == before


def test_a_folder_with_other_content_is_left_alone_before_any_work(
    condiff: Run, flowers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fit, "read_table", None)  # would fail if it were called
    result = condiff("fit", flowers, "--target", "species", "--out", flowers.parent)
    result.assert_failed("exists and is not a condiff model")
    assert content(flowers.parent) == ["flowers.csv"]


def test_fitting_again_replaces_the_model(condiff: Run, flowers: Path) -> None:
    out = flowers.with_name("model")
    for seed in (1, 2):
        assert condiff("fit", flowers, "--target", "species", "--out", out, "--seed", seed).code == 0
    assert load(out).random_state == 2
    shutil.rmtree(out)
    assert content(flowers.parent) == ["flowers.csv"]


def test_a_class_called_minus_one_is_a_class(condiff: Run, tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    lines = ["x,y,mood"]
    for number in range(90):
        mood = number % 3 - 1
        x, y = generator.normal(10 * mood, 1, 2)
        lines.append(f"{x:.4f},{y:.4f},{mood if number < 30 else ''}")
    (tmp_path / "moods.csv").write_text("\n".join(lines) + "\n")
    out = tmp_path / "model"
    assert condiff("fit", tmp_path / "moods.csv", "--target", "mood", "--out", out).code == 0
    model = load(out)
    assert model.classes_.tolist() == [-1, 0, 1]
    assert model.transduction_.tolist() == [number % 3 - 1 for number in range(90)]
