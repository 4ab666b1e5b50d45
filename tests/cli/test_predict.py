from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import TextIO

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_iris
from tests.cli.conftest import Run, flower_rows, read_rows, species_of, write_rows

from condiff import COINClassifier, load
from condiff.cli import predict

KINDS = ("setosa", "versicolor", "virginica")


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table and the model that the command line made of it."""
    from typer.testing import CliRunner

    from condiff.cli.app import app

    folder = tmp_path_factory.mktemp("flowers")
    write_rows(folder / "flowers.csv", flower_rows())
    arguments = ["fit", str(folder / "flowers.csv"), "--target", "species", "--out", str(folder / "model")]
    assert CliRunner().invoke(app, arguments, catch_exceptions=False).exit_code == 0
    return folder


def test_the_answers_have_ids_labels_and_probabilities(condiff: Run, fitted: Path, tmp_path: Path) -> None:
    result = condiff("predict", fitted / "model", fitted / "flowers.csv", "--out", tmp_path / "answers.csv")
    assert (result.code, result.err) == (0, "")
    assert "150 rows: setosa" in result.out
    assert f"written to {tmp_path / 'answers.csv'}" in result.out
    rows = read_rows(tmp_path / "answers.csv")
    assert list(rows[0]) == ["id", "label", "confidence", *(f"p_{kind}" for kind in KINDS)]
    assert [row["id"] for row in rows] == [row["id"] for row in flower_rows()]
    for row in rows:
        p = {kind: float(row[f"p_{kind}"]) for kind in KINDS}
        assert sum(p.values()) == pytest.approx(1, abs=3e-6)
        assert p[row["label"]] == max(p.values()) == float(row["confidence"])


def test_rows_of_the_fit_get_their_fitted_answer_in_any_order(condiff: Run, fitted: Path, tmp_path: Path) -> None:
    shuffled = flower_rows()[::-1]
    write_rows(tmp_path / "again.csv", [{**row, "species": ""} for row in shuffled])
    assert condiff("predict", fitted / "model", tmp_path / "again.csv", "--out", tmp_path / "answers.csv").code == 0
    model = load(fitted / "model")
    assert [row["label"] for row in read_rows(tmp_path / "answers.csv")] == model.transduction_[::-1].tolist()


def test_new_rows_need_neither_target_nor_further_columns(condiff: Run, fitted: Path, tmp_path: Path) -> None:
    rows = flower_rows()
    for row in rows:
        row.pop("species")
        row["note"] = "new"
        row["sepal_length"] = float(str(row["sepal_length"])) + 0.05
    write_rows(tmp_path / "new.csv", rows)
    result = condiff("predict", fitted / "model", tmp_path / "new.csv", "--out", tmp_path / "answers.csv")
    assert (result.code, result.err) == (0, "")
    answers = read_rows(tmp_path / "answers.csv")
    truth = species_of([row["id"] for row in answers])
    assert np.mean([row["label"] == kind for row, kind in zip(answers, truth, strict=True)]) > 0.85


def test_parquet_in_and_out(condiff: Run, fitted: Path, tmp_path: Path) -> None:
    frame = pd.read_csv(fitted / "flowers.csv")
    frame.to_parquet(tmp_path / "flowers.parquet", index=False)
    for source, out in ((tmp_path / "flowers.parquet", "a.parquet"), (fitted / "flowers.csv", "b.csv")):
        assert condiff("predict", fitted / "model", source, "--out", tmp_path / out).code == 0
    written, plain = pd.read_parquet(tmp_path / "a.parquet"), read_rows(tmp_path / "b.csv")
    assert written["label"].tolist() == [row["label"] for row in plain]
    assert written["p_setosa"].tolist() == [float(row["p_setosa"]) for row in plain]


def test_json_is_one_list_and_nothing_else(condiff: Run, fitted: Path, tmp_path: Path) -> None:
    result = condiff("predict", fitted / "model", fitted / "flowers.csv", "--out", tmp_path / "answers.csv", "--json")
    assert result.err == ""
    [summary] = json.loads(result.out)
    assert summary["rows"] == sum(summary["labels"].values()) == 150
    assert summary["out"] == str(tmp_path / "answers.csv")
    assert 0 <= summary["below_half"] <= 150


def test_the_script_does_it_too(script: Run, fitted: Path, tmp_path: Path) -> None:
    result = script("predict", fitted / "model", fitted / "flowers.csv", "--out", tmp_path / "answers.csv")
    assert (result.code, result.err) == (0, "")
    labels = [row["label"] for row in read_rows(tmp_path / "answers.csv")]
    assert labels == load(fitted / "model").transduction_.tolist()


@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_npz_round_trip(condiff: Run, tmp_path: Path, form: str) -> None:
    X, y = load_iris(return_X_y=True)
    rows = sp.csr_array(X)
    parts = {f"X_{part}": getattr(rows, part) for part in ("data", "indices", "indptr", "shape")}
    ids = np.array([f"n{number}" for number in range(150)])
    labels = np.where(np.arange(150) % 7 == 0, y, -1)
    np.savez(tmp_path / "iris.npz", **({"X": X} if form == "dense" else parts), kind=labels, ids=ids)
    assert condiff("fit", tmp_path / "iris.npz", "--target", "kind", "--out", tmp_path / "model").code == 0
    assert condiff("predict", tmp_path / "model", tmp_path / "iris.npz", "--out", tmp_path / "answers.csv").code == 0
    answers = read_rows(tmp_path / "answers.csv")
    assert [row["id"] for row in answers] == ids.tolist()
    assert [int(row["label"]) for row in answers] == load(tmp_path / "model").transduction_.tolist()


def test_regression_writes_values(condiff: Run, tmp_path: Path) -> None:
    rows = flower_rows()
    truth = [float(str(row["petal_width"])) for row in rows]
    for position, row in enumerate(rows):
        row["petal_width"] = "" if position % 3 else row["petal_width"]
        row.pop("species")
    table = write_rows(tmp_path / "f.csv", rows)
    assert condiff("fit", table, "--target", "petal_width", "--out", tmp_path / "model").code == 0
    result = condiff("predict", tmp_path / "model", table, "--out", tmp_path / "answers.csv")
    assert result.code == 0
    assert "150 rows: values from" in result.out
    answers = read_rows(tmp_path / "answers.csv")
    assert list(answers[0]) == ["id", "value"]
    values = [float(row["value"]) for row in answers]
    assert values == load(tmp_path / "model").transduction_.tolist()
    assert np.abs(np.array(values) - truth).mean() < 0.3


@pytest.mark.parametrize(
    ("model", "data", "out", "parts"),
    [
        ("model", "flowers.csv", "answers.txt", ["--out must end in .csv or .parquet"]),
        ("model", "missing.csv", "answers.csv", ["missing.csv does not exist"]),
        ("nowhere", "flowers.csv", "answers.csv", ["nowhere is not a condiff model"]),
        ("model", "narrow.csv", "answers.csv", ["narrow.csv lacks", "petal_length"]),
        ("cut", "flowers.csv", "answers.csv", ["arrays.safetensors is missing, truncated or changed"]),
        ("edited", "flowers.csv", "answers.csv", ["model.json was changed"]),
        ("python", "flowers.csv", "answers.csv", ["was not written by condiff fit"]),
    ],
)
def test_errors_are_one_line_and_nothing_is_written(
    condiff: Run,
    fitted: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    model: str,
    data: str,
    out: str,
    parts: list[str],
) -> None:
    shutil.copytree(fitted, tmp_path, dirs_exist_ok=True)
    for name in ("cut", "edited"):
        shutil.copytree(tmp_path / "model", tmp_path / name)
    arrays = tmp_path / "cut" / "arrays.safetensors"
    arrays.write_bytes(arrays.read_bytes()[:-20])
    description = tmp_path / "edited" / "model.json"
    description.write_text(description.read_text().replace('"n_neighbors": ', '"n_neighbors": 1', 1))
    plain = COINClassifier(epochs=2, n_inits=1, folds=0).fit(np.random.default_rng(0).normal(size=(20, 2)), [0, 1] * 10)
    plain.save(tmp_path / "python")
    write_rows(tmp_path / "narrow.csv", [{"id": "f1", "sepal_length": 5.0, "sepal_width": 3.0}])
    monkeypatch.chdir(tmp_path)
    condiff("predict", model, data, "--out", out).assert_failed(*parts)
    assert not list(tmp_path.glob("*answers*"))
    assert not list(tmp_path.glob(".*"))


def test_a_write_that_fails_in_the_middle_leaves_the_old_answers(
    condiff: Run, fitted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class FullDisk:
        def __init__(self, stream: TextIO) -> None:
            self.stream = stream

        def writerow(self, _: object) -> None:
            self.stream.write("id,la")
            raise OSError("no space left on device")

    (tmp_path / "answers.csv").write_text("old")
    monkeypatch.setattr(predict, "csv", SimpleNamespace(writer=FullDisk))
    result = condiff("predict", fitted / "model", fitted / "flowers.csv", "--out", tmp_path / "answers.csv")
    result.assert_failed("no space left on device")
    assert [path.name for path in tmp_path.iterdir()] == ["answers.csv"]
    assert (tmp_path / "answers.csv").read_text() == "old"
