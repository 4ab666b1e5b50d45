from __future__ import annotations

import errno
import json
import shutil
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import TextIO

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_iris
from tests.cli.conftest import Run, flower_rows, read_rows, species_of, write_rows

from condiff import COINClassifier, COINRegressor, load
from condiff.cli import output

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
    assert list(rows[0]) == ["id", "label", "confidence", "given", "model_says", *(f"p_{kind}" for kind in KINDS)]
    assert [row["id"] for row in rows] == [row["id"] for row in flower_rows()]
    for row in rows:
        p = {kind: float(row[f"p_{kind}"]) for kind in KINDS}
        assert sum(p.values()) == pytest.approx(1, abs=3e-6)
        assert p[row["label"]] == float(row["confidence"])
        assert p[row["model_says"] or row["label"]] == max(p.values())


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


def test_a_coverage_adds_sets(condiff: Run, fitted: Path, tmp_path: Path) -> None:
    command = "predict", fitted / "model", fitted / "flowers.csv", "--out", tmp_path / "answers.csv"
    result = condiff(*command, "--coverage", "0.999")
    assert result.code == 0 and "can promise a coverage of" in result.out
    assert condiff(*command, "--coverage", "0.8").code == 0
    rows = read_rows(tmp_path / "answers.csv")
    for row, own in zip(rows, flower_rows(), strict=True):
        chosen = row["set"].split(" | ")
        assert len(chosen) == int(row["set_size"]) and row["label"] in chosen and set(chosen) <= set(KINDS)
        assert not own["species"] or chosen == [own["species"]]
    assert condiff(*command, "--abstain", "0.1").code == 0
    rows = read_rows(tmp_path / "answers.csv")
    sure = [max(float(row[f"p_{kind}"]) for kind in KINDS) for row in rows]
    for row, chance in zip(rows, sure, strict=True):
        assert abs(chance - 0.9) < 1e-5 or bool(row["label"]) == (chance > 0.9 or bool(row["given"]))
    nothing = condiff(*command, "--abstain", "0")
    assert nothing.code == 0 and "--abstain 0 leaves every row empty: the largest confidence is" in " ".join(
        nothing.out.split()
    )
    assert condiff(*command, "--abstain", "2").code == 2
    refused = condiff(*command, "--coverage", "90")
    assert (refused.code, refused.err.strip()) == (2, "condiff: error: --coverage must be between 0 and 1, not 90")


def test_sets_for_every_label_by_itself_and_rows_that_are_none_of_these(
    condiff: Run, fitted: Path, tmp_path: Path
) -> None:
    command = "predict", fitted / "model", fitted / "flowers.csv", "--out", tmp_path / "answers.csv"
    assert condiff(*command, "--coverage", "0.8", "--per-class").code == 0
    assert all(int(row["set_size"]) >= 1 for row in read_rows(tmp_path / "answers.csv"))
    assert condiff(*command, "--none-of-these", "0.2").code == 0
    rows = read_rows(tmp_path / "answers.csv")
    left_out = [row for row in rows if not row["label"]]
    far = [float(row["out_of_scope"]) for row in left_out]
    answered = [float(row["out_of_scope"]) for row in rows if row["label"] and not row["given"]]
    assert 0 < len(left_out) < 75 and sum(far) / len(far) > sum(answered) / len(answered)
    assert all(0 <= float(row["out_of_scope"]) <= 1 for row in rows)
    refused = condiff(*command, "--none-of-these", "5")
    assert (refused.code, refused.err.strip()) == (2, "condiff: error: --none-of-these must be between 0 and 1, not 5")
    refused = condiff(*command, "--per-class")
    assert (refused.code, "give that too" in refused.err) == (2, True)


def test_the_script_does_it_too(script: Run, fitted: Path, tmp_path: Path) -> None:
    result = script("predict", fitted / "model", fitted / "flowers.csv", "--out", tmp_path / "answers.csv")
    # On a busy machine it says that it is still at work.
    assert (result.code, [line for line in result.err.splitlines() if not line.endswith(" s")]) == (0, [])
    labels = [row["model_says"] or row["label"] for row in read_rows(tmp_path / "answers.csv")]
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
    said = [int(row["model_says"] or row["label"]) for row in answers]
    assert said == load(tmp_path / "model").transduction_.tolist()


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
    outside = sum(
        not float(row["low"]) <= float(row["given"]) <= float(row["high"])
        for row in read_rows(tmp_path / "answers.csv")
        if row["given"]
    )
    said = f"; the model disagrees with {outside} of them" if outside else ", and the model agrees"
    assert f"50 labels given and kept{said}" in result.out
    answers = read_rows(tmp_path / "answers.csv")
    assert list(answers[0]) == ["id", "value", "low", "high", "given", "model_says"]
    model = load(tmp_path / "model").transduction_.tolist()
    for row, said, true in zip(answers, model, truth, strict=True):
        given = row["given"] != ""
        assert float(row["value"]) == (true if given else pytest.approx(said, rel=1e-7))
        assert float(row["model_says"]) == pytest.approx(said, rel=1e-7) if given else row["model_says"] == ""
        assert row["given"] == (str(true) if given else "")
        assert float(row["low"]) < said < float(row["high"])
    held = [float(row["low"]) <= true <= float(row["high"]) for row, true in zip(answers, truth, strict=True)]
    assert np.mean(held) > 0.8
    assert np.abs(np.array([float(row["value"]) for row in answers]) - truth).mean() < 0.3


# ---- one model for shell and Python ------------------------------------------------------------------------------


def messy_rows(n: int = 60) -> list[dict[str, object]]:
    """Text, money, dates, gaps and a category; the kind of every third row is known."""
    generator = np.random.default_rng(3)
    rows: list[dict[str, object]] = []
    for row in range(n):
        big = row % 2
        rows.append(
            {
                "name": f"thing {row}",
                "price": "" if row % 11 == 4 else f"${1000 * big + generator.integers(10, 900):,}",
                "colour": ["red", "blue", "green"][int(generator.integers(0, 2)) + big],
                "bought": f"2023-{1 + row % 12:02}-{1 + row % 28:02}",
                "weight": "n/a" if row % 13 == 5 else round(float(generator.normal(5 * big, 2)), 3),
                "kind": ("big" if big else "small") if row % 3 == 0 else "",
            }
        )
    return rows


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_model_of_the_command_line_answers_data_frames(condiff: Run, tmp_path: Path, library: str) -> None:
    frames = pytest.importorskip(library)
    table = write_rows(tmp_path / "t.csv", messy_rows())
    assert condiff("fit", table, "--target", "kind", "--out", tmp_path / "model").code == 0
    assert condiff("predict", tmp_path / "model", table, "--out", tmp_path / "a.csv").code == 0
    model, frame = load(tmp_path / "model"), frames.read_csv(table)
    assert model.feature_names_in_.tolist() == ["name", "price", "colour", "bought", "weight"]
    answers = pd.read_csv(tmp_path / "a.csv")
    np.testing.assert_allclose(model.predict_proba(frame), answers[["p_big", "p_small"]], atol=1e-6)
    np.testing.assert_array_equal(model.predict(frame), model.transduction_)
    assert len(model.predict(frame[:5])) == 5


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_model_of_python_answers_tables(condiff: Run, tmp_path: Path, library: str) -> None:
    frames = pytest.importorskip(library)
    table = write_rows(tmp_path / "t.csv", messy_rows())
    known = np.array([row["kind"] or None for row in messy_rows()], dtype=object)
    frame = frames.read_csv(table)
    frame = frame.drop(columns="kind") if library == "pandas" else frame.drop("kind")
    model = COINClassifier().fit(frame, known)
    model.save(tmp_path / "model")
    result = condiff("predict", tmp_path / "model", table, "--id", "name", "--out", tmp_path / "a.csv")
    assert (result.code, result.err) == (0, "")
    answers = pd.read_csv(tmp_path / "a.csv")
    assert answers["name"].tolist() == [row["name"] for row in messy_rows()]
    assert answers["label"].tolist() == model.transduction_.tolist()
    np.testing.assert_allclose(answers[["p_big", "p_small"]], model.predict_proba(frame), atol=1e-6)


def test_a_model_of_a_frame_of_numbers_answers_tables(condiff: Run, tmp_path: Path) -> None:
    frame = load_iris(as_frame=True).data.assign(large=lambda rows: rows["petal length (cm)"] > 4)
    width = frame.pop("petal width (cm)")
    model = COINRegressor().fit(frame, width.where(np.arange(150) % 5 == 0))
    model.save(tmp_path / "model")
    frame[frame.columns[::-1]].to_csv(tmp_path / "t.csv", index=False)
    result = condiff("predict", tmp_path / "model", tmp_path / "t.csv", "--out", tmp_path / "a.csv")
    assert (result.code, result.err) == (0, "")
    answers = pd.read_csv(tmp_path / "a.csv")
    assert list(answers) == ["row", "value", "low", "high"]
    np.testing.assert_allclose(answers["value"], model.transduction_)
    frame.loc[3, "sepal width (cm)"] = np.nan
    frame.to_csv(tmp_path / "t.csv", index=False)
    failed = condiff("predict", tmp_path / "model", tmp_path / "t.csv", "--out", tmp_path / "b.csv")
    failed.assert_failed("column 'sepal width (cm)', row 4: the number is missing")
    frame.drop(columns="large").to_csv(tmp_path / "t.csv", index=False)
    failed = condiff("predict", tmp_path / "model", tmp_path / "t.csv", "--out", tmp_path / "b.csv")
    failed.assert_failed("t.csv lacks 'large'")


def test_several_values_per_row_are_for_python(condiff: Run, tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(30, 3))
    COINRegressor(epochs=2, n_inits=1).fit(X, X[:, :2]).save(tmp_path / "model")
    np.savez(tmp_path / "t.npz", X=X)
    failed = condiff("predict", tmp_path / "model", tmp_path / "t.npz", "--out", tmp_path / "a.csv")
    failed.assert_failed("answers 2 values per row: use condiff.load in Python")


@pytest.mark.parametrize(
    ("model", "data", "out", "parts"),
    [
        ("model", "flowers.csv", "answers.txt", ["--out must end in .csv or .parquet"]),
        ("model", "missing.csv", "answers.csv", ["missing.csv does not exist"]),
        ("nowhere", "flowers.csv", "answers.csv", ["nowhere is not a condiff model"]),
        ("model", "narrow.csv", "answers.csv", ["narrow.csv lacks", "petal_length"]),
        ("cut", "flowers.csv", "answers.csv", ["arrays.safetensors is missing, truncated or changed"]),
        ("edited", "flowers.csv", "answers.csv", ["model.json was changed"]),
        ("python", "flowers.csv", "answers.csv", ["reads a matrix of numbers without names"]),
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
        def __init__(self, stream: TextIO, **_: object) -> None:
            self.stream = stream

        def writerow(self, _: object) -> None:
            self.stream.write("id,la")
            raise OSError(errno.ENOSPC, "No space left on device")

    (tmp_path / "answers.csv").write_text("old")
    monkeypatch.setattr(output, "csv", SimpleNamespace(writer=FullDisk))
    result = condiff("predict", fitted / "model", fitted / "flowers.csv", "--out", tmp_path / "answers.csv")
    result.assert_failed("answers.csv cannot be written (No space left on device): free some room")
    assert [path.name for path in tmp_path.iterdir()] == ["answers.csv"]
    assert (tmp_path / "answers.csv").read_text() == "old"


def test_text_that_a_spreadsheet_would_run_is_quoted_and_said(condiff: Run, fitted: Path, tmp_path: Path) -> None:
    rows = flower_rows()
    rows[3]["id"] = "=HYPERLINK(1)"
    table, out = write_rows(tmp_path / "flowers.csv", rows), tmp_path / "answers.csv"
    result = condiff("predict", fitted / "model", table, "--out", out)
    assert result.code == 0
    assert "note: 1 cell that a spreadsheet would run as a formula now begins with '" in result.out
    assert read_rows(out)[3]["id"] == "'=HYPERLINK(1)"
    condiff("predict", fitted / "model", table, "--out", out, "--formulas")
    assert read_rows(out)[3]["id"] == "=HYPERLINK(1)"


def test_an_output_that_is_an_input_is_refused(condiff: Run, fitted: Path, tmp_path: Path) -> None:
    table = tmp_path / "flowers.csv"
    shutil.copy(fitted / "flowers.csv", table)
    before = table.read_bytes()
    (tmp_path / "link.csv").symlink_to(table)
    (tmp_path / "hard.csv").hardlink_to(table)
    (tmp_path / "sub").mkdir()
    for out in (table, tmp_path / "link.csv", tmp_path / "hard.csv", tmp_path / "sub" / ".." / "flowers.csv"):
        condiff("predict", fitted / "model", table, "--out", out).assert_failed("is also an input, which would be lost")
        assert table.read_bytes() == before


def test_given_labels_stay_and_disagreement_shows(condiff: Run, fitted: Path, tmp_path: Path) -> None:
    rows = flower_rows()
    wrong = next(row for row in rows if row["species"] == "setosa")
    wrong["species"] = "virginica"
    rows[-1]["species"] = "rose"
    table = write_rows(tmp_path / "t.csv", rows)
    result = condiff("predict", fitted / "model", table, "--out", tmp_path / "a.csv")
    assert "22 labels given and kept; the model disagrees with" in result.out
    answers = {row["id"]: row for row in read_rows(tmp_path / "a.csv")}
    for row in rows:
        answer = answers[str(row["id"])]
        assert answer["given"] == row["species"]
        if row["species"]:
            assert answer["label"] == row["species"]
        else:
            assert answer["model_says"] == ""
    assert answers[str(wrong["id"])]["model_says"] == "setosa"
    assert float(answers[str(wrong["id"])]["confidence"]) < 0.5
    assert answers[str(rows[-1]["id"])]["confidence"] == ""
    assert answers[str(rows[-1]["id"])]["model_says"] in KINDS


def test_labels_that_the_model_does_not_know_are_kept_and_counted(condiff: Run, fitted: Path, tmp_path: Path) -> None:
    rows = [{**row, "species": "rose" if number < 2 else ""} for number, row in enumerate(flower_rows())]
    table = write_rows(tmp_path / "t.csv", rows)
    result = condiff("predict", fitted / "model", table, "--out", tmp_path / "a.csv")
    assert "note: 'species': 2 labels that the model has not learned ('rose')" in result.out
    answers = read_rows(tmp_path / "a.csv")
    assert [answers[0][name] for name in ("label", "confidence", "given")] == ["rose", "", "rose"]
    assert answers[0]["model_says"] in KINDS


def test_answers_are_not_written_into_the_model(condiff: Run, fitted: Path) -> None:
    failed = condiff("predict", fitted / "model", fitted / "flowers.csv", "--out", fitted / "model" / "sub" / "a.csv")
    failed.assert_failed("is within the model, which a new fit replaces: choose another folder")


def test_dates_of_a_table_that_was_saved_again(condiff: Run, tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [
        {"day": f"{1 + i % 28:02}/{1 + i // 28:02}/2024", "kind": "ab"[i > 25]} for i in range(50)
    ]
    table = write_rows(tmp_path / "t.csv", rows)
    assert condiff("fit", table, "--target", "kind", "--out", tmp_path / "m", "--layers", 1).code == 0
    frame = pd.read_csv(table).assign(day=lambda rows: pd.to_datetime(rows["day"], dayfirst=True))
    frame.to_csv(tmp_path / "again.csv", index=False)
    for name in ("t.csv", "again.csv"):
        assert condiff("predict", tmp_path / "m", tmp_path / name, "--out", tmp_path / f"a-{name}").code == 0
    assert (tmp_path / "a-t.csv").read_text() == (tmp_path / "a-again.csv").read_text()


def test_chosen_columns_and_all_columns(condiff: Run, fitted: Path, tmp_path: Path) -> None:
    rows = flower_rows()
    for number, row in enumerate(rows):
        row["label"] = f"tag {number}"
    table, out = write_rows(tmp_path / "t.csv", rows), tmp_path / "a.csv"
    assert condiff("predict", fitted / "model", table, "--out", out, "--id", "size", "--id", "id").code == 0
    assert list(read_rows(out)[0])[:3] == ["size", "id", "label"]
    assert condiff("predict", fitted / "model", table, "--out", out, "--keep-columns").code == 0
    answers = read_rows(out)
    kept = [name for name in rows[0] if name not in ("species", "label")]
    assert list(answers[0])[: len(kept) + 2] == [*kept, "label (table)", "label"]
    for row, answer in zip(rows, answers, strict=True):
        assert [answer[name] for name in kept] == [str(row[name]) for name in kept]
        assert answer["label (table)"] == row["label"]
    parquet = tmp_path / "a.parquet"
    assert condiff("predict", fitted / "model", table, "--out", parquet, "--keep-columns").code == 0
    assert pd.read_parquet(parquet)["sepal_width"].isna().sum() == 15
    condiff("predict", fitted / "model", table, "--out", out, "--id", "nmae").assert_failed("no column 'nmae'")


def test_a_repeated_column_is_no_id(condiff: Run, tmp_path: Path) -> None:
    rows = [{"shop_id": i % 5, "x": i / 7, "kind": "ab"[i % 2]} for i in range(40)]
    table = write_rows(tmp_path / "t.csv", rows)
    assert condiff("fit", table, "--target", "kind", "--out", tmp_path / "m").code == 0
    assert condiff("predict", tmp_path / "m", table, "--out", tmp_path / "a.csv").code == 0
    assert [row["row"] for row in read_rows(tmp_path / "a.csv")] == [str(i + 1) for i in range(40)]


def test_what_is_unusual_is_counted(condiff: Run, fitted: Path, tmp_path: Path) -> None:
    rows = flower_rows()
    for number, row in enumerate(rows):
        row["size"] = "tiny" if number < 3 else row["size"]
        row["petal_length"] = 9000 if number == 7 else row["petal_length"]
        row["sepal_width"] = ""
    table = write_rows(tmp_path / "t.csv", rows)
    result = condiff("predict", fitted / "model", table, "--out", tmp_path / "a.csv")
    assert result.code == 0
    assert "note: 'size': 3 rows with a category that was not there at fitting ('tiny')" in result.out
    assert "note: 'petal_length': 1 row far outside of what was seen" in result.out
    assert "note: 'sepal_width': no value in any row" in result.out
    [summary] = json.loads(condiff("predict", fitted / "model", table, "--out", tmp_path / "a.csv", "--json").out)
    assert len(summary["notes"]) == 3


@pytest.mark.parametrize("features", [True, False])
def test_new_nodes_are_answered_through_their_edges(condiff: Run, club: Path, features: bool) -> None:
    frame, edges = pd.read_csv(club / "nodes.csv"), pd.read_csv(club / "edges.csv")
    truth = pd.read_csv(club / "truth.csv")["side"]
    if not features:
        frame = frame[["id", "label"]]
    fitted = frame["id"] < 30
    known = edges[(edges["source"] < 30) & (edges["target"] < 30)]
    frame.loc[:, "label"] = np.where(frame["id"].isin([0, 32, 24]), truth, None)
    frame[fitted].to_csv(club / "some.csv", index=False)
    known.to_csv(club / "some-edges.csv", index=False)
    frame.to_csv(club / "all.csv", index=False)
    fit = ("fit", club / "some.csv", "--target", "label", "--edges", club / "some-edges.csv", "--out", club / "model")
    assert condiff(*fit).code == 0
    arguments = ("predict", club / "model", club / "all.csv", "--out", club / "a.csv")
    result = condiff(*arguments, "--edges", club / "edges.csv")
    assert (result.code, result.err) == (0, "")
    assert "edges between new rows are left out" in result.out
    answers = pd.read_csv(club / "a.csv")
    model = load(club / "model")
    own = frame["label"].isna()[fitted].to_numpy()
    said = answers["model_says"].astype(object).fillna(answers["label"])
    assert said[fitted][own].tolist() == model.transduction_[own].tolist()
    again = pd.read_csv(club / "a.csv")[["p_Mr. Hi", "p_Officer"]].to_numpy()
    # Given labels stay as they are in Python; here the model's own opinion of them is shown.
    found = model.on_numbers().predict_proba(model._domain.points)
    np.testing.assert_allclose(again[fitted][own], found[own], atol=1e-6)
    assert (answers["label"] == truth)[~fitted].mean() >= 0.5
    result = condiff(*arguments)
    if features:
        assert "base" in result.err
    else:
        result.assert_failed("4 new rows: give their edges with --edges")


def test_edges_go_with_a_model_of_edges(condiff: Run, fitted: Path, club: Path) -> None:
    failed = condiff(
        "predict", fitted / "model", fitted / "flowers.csv", "--edges", club / "edges.csv", "--out", club / "a.csv"
    )
    failed.assert_failed("this model was fitted without edges")


def test_a_model_whose_description_was_forged(condiff: Run, fitted: Path, tmp_path: Path) -> None:
    from condiff.files import _checksum

    for number, (key, value) in enumerate(
        [("ids", 7), ("id_columns", [1]), ("edges", "yes"), ("unlabelled", [None]), ("target", None)]
    ):
        folder = tmp_path / str(number)
        shutil.copytree(fitted / "model", folder)
        content = json.loads((folder / "model.json").read_text())
        del content["checksum"]
        content["metadata"][key] = value
        content["checksum"] = _checksum(content)
        (folder / "model.json").write_text(json.dumps(content))
        condiff("predict", folder, fitted / "flowers.csv", "--out", tmp_path / "a.csv").assert_failed(
            "fit the model again"
        )


@pytest.mark.parametrize("labels", [3, 5, 8])
def test_a_handful_of_labels_promises_less_and_a_note_says_so(condiff: Run, tmp_path: Path, labels: int) -> None:
    table = write_rows(tmp_path / "f.csv", flower_rows(labels))
    counts = Counter(row["species"] for row in flower_rows(labels) if row["species"])
    alone = sum(count == 1 for count in counts.values())
    model, answers = tmp_path / "model", tmp_path / "a.csv"
    assert condiff("fit", table, "--target", "species", "--base", "blend", "--out", model).code == 0
    result = condiff("predict", model, table, "--coverage", "0.9", "--out", answers)
    most = 100 * (1 - (1 + alone) / (labels + 1))
    assert result.code == 0 and f"can promise a coverage of {most:.1f} % at most, not 90 %: this is given" in result.out
    assert all(int(row["set_size"]) >= 1 for row in read_rows(answers))
    rows = [{**row, "petal_width": row["petal_width"] if at < labels else ""} for at, row in enumerate(flower_rows())]
    values = write_rows(tmp_path / "v.csv", rows)
    assert condiff("fit", values, "--target", "petal_width", "--out", model, "--force").code == 0
    result = condiff("predict", model, values, "--out", answers)
    most = 100 * labels / (labels + 1)
    assert result.code == 0 and f"{labels} labels can promise a coverage of {most:.1f} % at most" in result.out
    assert all(float(row["low"]) <= float(row["high"]) for row in read_rows(answers))
