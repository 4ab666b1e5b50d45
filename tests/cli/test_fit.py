from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_iris
from tests.cli.conftest import Run, flower_rows, read_rows, species_of, write_rows

from condiff import COINClassifier, COINRegressor, load
from condiff.cli.fit import _doubted_line, _score_lines


def test_it_says_what_it_did_and_writes_the_model(condiff: Run, flowers: Path) -> None:
    out = flowers.with_name("model")
    result = condiff("fit", flowers, "--target", "species", "--out", out)
    assert result.code == 0
    for part in ("150 rows, 21 labelled", "setosa", "classification", "edges", "chosen", "diffusion", "held-out"):
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
    # On a busy machine it says that it is still at work.
    assert (result.code, [line for line in result.err.splitlines() if not line.endswith(" s")]) == (0, [])
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
    assert "size" not in model.feature_names_in_


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
    monkeypatch.setattr("condiff.cli.inputs.read_table", None)  # would fail if it were called
    result = condiff("fit", flowers, "--target", "species", "--out", flowers.parent)
    result.assert_failed("exists and is not a condiff model")
    assert content(flowers.parent) == ["flowers.csv"]


def test_fitting_again_replaces_the_model_only_by_force(condiff: Run, flowers: Path) -> None:
    out = flowers.with_name("model")
    assert condiff("fit", flowers, "--target", "species", "--out", out, "--seed", 1).code == 0
    again = ("fit", flowers, "--target", "species", "--out", out, "--seed", 2)
    condiff(*again).assert_failed("already holds a model", "--force")
    assert load(out).random_state == 1
    assert condiff(*again, "--force").code == 0
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


# ---- what a score is worth ---------------------------------------------------------------------------------------


def test_the_score_stands_beside_that_of_the_commonest_class(condiff: Run, tmp_path: Path) -> None:
    rows = flower_rows(60)
    for row in rows:  # setosa is left, the others become one class
        row["species"] = {"": "", "setosa": "setosa"}.get(str(row["species"]), "other")
    table = write_rows(tmp_path / "f.csv", rows)
    result = condiff("fit", table, "--target", "species", "--out", tmp_path / "model")
    assert "always 'other' would be 6" in result.out
    assert "of each class: other 100 %, setosa 100 %" in result.out
    assert "no better" not in result.out
    [summary] = json.loads(condiff("fit", table, "--target", "species", "--out", tmp_path / "two", "--json").out)
    assert (summary["always"], summary["better"]) == ("other", True)
    assert 0.6 < summary["always_score"] < 0.75


def test_a_score_no_better_than_that_is_said_plainly(condiff: Run, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows: list[dict[str, object]] = [
        {"x": rng.normal(), "y": rng.normal(), "kind": "b" if i % 4 == 0 else "a", "size": rng.normal()}
        for i in range(120)
    ]
    table = write_rows(tmp_path / "noise.csv", rows)
    result = condiff("fit", table, "--target", "kind", "--drop", "size", "--out", tmp_path / "model")
    assert "this is no better than always answering 'a'" in result.out
    result = condiff("fit", table, "--target", "size", "--drop", "kind", "--out", tmp_path / "values")
    assert "always the mean would be 0" in result.out
    assert "always answering the mean: " in result.out


@pytest.mark.parametrize(
    ("score", "better", "said"),
    [(0.5, False, "no better than"), (0.7, False, "no clear gain over"), (0.9, True, None)],
)
def test_a_small_gain_may_be_chance(score: float, better: bool, said: str | None) -> None:
    summary = {"task": "classification", "cv_score": score, "always": "a", "always_score": 0.5, "better": better}
    group = {"n": 9, "said": 0.9, "right": 0.9, "low": 0.6, "high": 0.99}
    more = {"class_scores": None, "most": None, "interval": (0.4, 0.8), "reliability": [group]}
    first, *rest = _score_lines(summary | more, 5)
    known = "95 % interval 40 to 80; 5 folds"
    assert first == f"{100 * score:.1f} % accuracy on held-out labels ({known}); always 'a' would be 50.0 %"
    assert [line.partition(" always")[0] for line in rest] == ([] if said is None else [f"this is {said}"])


def test_probabilities_that_say_too_much_are_named() -> None:
    summary = {"task": "classification", "cv_score": 0.7, "always": "a", "always_score": 0.5, "better": True}
    group = {"n": 20, "said": 0.95, "right": 0.6, "low": 0.38, "high": 0.8}
    more = {"class_scores": None, "most": None, "interval": (0.4, 0.8), "reliability": [group]}
    last = "of 20 held-out answers of about 95 % only 38 to 80 % are right: trust such probabilities less"
    assert _score_lines(summary | more, 5)[1:] == [last]


# ---- settings ----------------------------------------------------------------------------------------------------


def test_class_weights_reach_the_model_by_name(condiff: Run, flowers: Path) -> None:
    fit = ("fit", flowers, "--target", "species", "--out", flowers.with_name("model"))
    assert condiff(*fit, "--class-weight", "setosa=2,virginica=0.5").code == 0
    assert load(flowers.with_name("model")).class_weight == {0: 2.0, 2: 0.5}
    assert condiff(*fit, "--class-weight", "balanced", "--graph", "knn", "--force").code == 0
    assert load(flowers.with_name("model")).class_weight == "balanced"


@pytest.mark.parametrize(
    ("prior", "shares"),
    [
        ("uniform", {0: 1.0, 1: 1.0, 2: 1.0}),
        ("labels", {0: 4.0, 1: 9.0, 2: 8.0}),
        ("setosa=10,versicolor=20,virginica=30", {0: 10.0, 1: 20.0, 2: 30.0}),
    ],
)
def test_priors_reach_the_model(condiff: Run, flowers: Path, prior: str, shares: dict[int, float]) -> None:
    fit = ("fit", flowers, "--target", "species", "--out", flowers.with_name("model"), "--base", "blend")
    assert condiff(*fit, "--prior", prior).code == 0
    model = load(flowers.with_name("model"))
    assert (model.base, model.class_prior) == ("blend", shares)


def test_settings_are_handed_on(condiff: Run, flowers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Seen(Exception):
        pass

    class Estimator:
        def __init__(self, **options: object) -> None:
            raise Seen(options)

        @staticmethod
        def _get_param_names() -> list[str]:
            return ["base", "graph", "class_prior", "class_weight", "random_state"]

    monkeypatch.setattr("condiff.estimators.COINClassifier", Estimator)
    with pytest.raises(Seen) as seen:
        options = ["--base", "forest", "--graph", "learned", "--prior", "setosa=0.2,versicolor=0.3,virginica=0.5"]
        condiff("fit", flowers, "--target", "species", "--out", flowers.with_name("m"), *options)
    assert seen.value.args == (
        {"random_state": 0, "base": "forest", "graph": "learned", "class_prior": {0: 0.2, 1: 0.3, 2: 0.5}},
    )


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (["--class-weight", "heavy"], ["--class-weight must be balanced or CLASS=NUMBER", "'heavy'"]),
        (["--class-weight", "setosa=-1"], ["'setosa=-1' is not CLASS=NUMBER"]),
        (["--class-weight", "rose=1"], ["there is no class 'rose': the classes are 'setosa'"]),
        (["--prior", "even"], ["--prior must be labels or uniform or"]),
        (["--prior", "setosa=1"], ["--prior lacks the class 'versicolor'"]),
        (["--prior", "setosa=1,versicolor=1,virginica=0"], ["--prior is 0 for 'virginica'"]),
        (["--graph", "spaghetti"], ["--graph must be answers, auto, knn, leaves or precomputed, not 'spaghetti'"]),
        (["--base", "spaghetti"], ["--base must be ", "residual, not 'spaghetti'"]),
        (["--id", "name"], ["no column 'name'"]),
        (
            ["--task", "regression", "--target", "petal_width", "--class-weight", "balanced"],
            ["does not apply to a regression"],
        ),
        (["--edges", "none.csv"], ["none.csv does not exist"]),
    ],
    ids=lambda value: " ".join(value[:2]) if value[0].startswith("--") else "",
)
def test_settings_that_cannot_be(condiff: Run, flowers: Path, options: list[str], parts: list[str]) -> None:
    out = flowers.with_name("m")
    condiff("fit", flowers, "--target", "species", "--out", out, *options).assert_failed(*parts)
    assert not out.exists()


def test_classes_get_exactly_the_sizes_that_are_given(condiff: Run, tmp_path: Path) -> None:
    table = write_rows(tmp_path / "flowers.csv", flower_rows())
    command = "fit", table, "--target", "species", "--out", tmp_path / "model"
    refused = condiff(*command, "--exact-sizes")
    assert refused.code == 2 and "give them with --prior" in refused.err
    sizes = {"setosa": 60, "versicolor": 40, "virginica": 50}
    prior = ",".join(f"{name}={size}" for name, size in sizes.items())
    assert condiff(*command, "--prior", prior, "--exact-sizes").code == 0
    found = load(tmp_path / "model").transduction_.tolist()
    assert abs(found.count("setosa") - 60) <= 1 and abs(found.count("versicolor") - 40) <= 1  # iris has equal rows


def test_labels_that_may_be_wrong_are_looked_for(condiff: Run, tmp_path: Path) -> None:
    table = write_rows(tmp_path / "flowers.csv", flower_rows())
    command = "fit", table, "--target", "species", "--base", "blend", "--label-noise"
    result = condiff(*command, "--out", tmp_path / "model")
    assert result.code == 0 and "nothing says that some are wrong; all are believed" in result.out
    assert load(tmp_path / "model").label_noise == "auto"
    assert _doubted_line(["r3", 7], 60) == "2 of 60 are very likely wrong and were left out: 'r3', '7'"
    refused = condiff(
        *("fit", table, "--target", "petal_width", "--task", "regression", "--label-noise", "--out", tmp_path / "m")
    )
    assert refused.code == 2 and "--label-noise does not apply to a regression" in refused.err


def ticket_rows() -> list[dict[str, object]]:
    topics = {"card": ["card", "lost", "stolen", "bank"], "rate": ["rate", "exchange", "euro", "dollar"]}
    generator = np.random.default_rng(0)
    rows: list[dict[str, object]] = []
    for number in range(60):
        topic = "card" if number % 2 else "rate"
        words = [*generator.choice(topics[topic], 4), *generator.choice(["my", "the", "is", "now"], 3)]
        rows.append({"text": " ".join(words), "size": number % 7, "topic": topic if number < 12 else ""})
    return rows


def test_texts_are_found_learned_and_answered(condiff: Run, tmp_path: Path) -> None:
    path = write_rows(tmp_path / "tickets.csv", ticket_rows())
    run = condiff("fit", path, "--target", "topic", "--drop", "size", "--out", tmp_path / "model")
    assert run.code == 0
    assert "'text': text, TF-IDF of " in run.out
    new = write_rows(tmp_path / "new.csv", [{"text": "my stolen card"}, {"text": "the euro rate"}, {"text": ""}])
    assert condiff("predict", tmp_path / "model", new, "--out", tmp_path / "answers.csv").code == 0
    assert [row["label"] for row in read_rows(tmp_path / "answers.csv")][:2] == ["card", "rate"]
    # Pages show texts, not numbers of rows.
    first = next(row["text"] for row in read_rows(path) if not row["topic"])
    assert condiff("explore", tmp_path / "model", "--out", tmp_path / "explorer.html").code == 0
    assert str(first) in (tmp_path / "explorer.html").read_text()
    assert condiff("report", tmp_path / "model").code == 0
    page = (tmp_path / "model" / "report.html").read_text()
    assert any(f">{row['text']}<" in page for row in read_rows(path))
    assert ">row " not in page


def test_it_says_which_columns_carried_the_answers(condiff: Run, tmp_path: Path) -> None:
    path = write_rows(tmp_path / "tickets.csv", ticket_rows())
    run = condiff("fit", path, "--target", "topic", "--out", tmp_path / "model")
    assert "carried" in run.out and "by text 'text'" in run.out
    (summary,) = json.loads(condiff("fit", path, "--target", "topic", "--out", tmp_path / "m", "--json").out)
    assert summary["carried"]["text 'text'"] > summary["carried"]["other columns"]


def test_images_are_found_and_missing_ones_refused(
    condiff: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONDIFF_CACHE", str(tmp_path / "cache"))
    pytest.importorskip("efficientnet_lite_pytorch", reason="needs pip install 'condiff[images]'")
    from tests.reproduce.datasets.made_images import COLOURS, png, write

    names = list(COLOURS)[:2]
    rows: list[dict[str, object]] = []
    for number in range(24):
        file = f"pictures/{number}.png"
        write(tmp_path / file, png(COLOURS[names[number % 2]], seed=number))
        rows.append({"photo": file, "size": number % 7, "kind": names[number % 2] if number < 8 else ""})
    path = write_rows(tmp_path / "photos.csv", rows)
    run = condiff("fit", path, "--target", "kind", "--out", tmp_path / "model")
    assert "'photo': image, 1280 numbers by efficientnet_lite0 (trained on ImageNet)" in run.out
    run = condiff("predict", tmp_path / "model", path, "--out", tmp_path / "answers.csv")
    assert [row["label"] for row in read_rows(tmp_path / "answers.csv")] == [names[number % 2] for number in range(24)]
    assert condiff("report", tmp_path / "model").code == 0
    assert '<img class="thumbnail" src="data:image/jpeg;base64,' in (tmp_path / "model" / "report.html").read_text()
    assert condiff("explore", tmp_path / "model", "--out", tmp_path / "explorer.html").code == 0
    assert "data:image/jpeg;base64," in (tmp_path / "explorer.html").read_text()
    (tmp_path / "pictures" / "3.png").unlink()
    for command in (
        ["fit", path, "--target", "kind", "--image", "photo", "--out", tmp_path / "other"],
        ["fit", path, "--target", "kind", "--out", tmp_path / "other"],
        ["predict", tmp_path / "model", path, "--out", tmp_path / "more.csv"],
    ):
        condiff(*command).assert_failed("column 'photo', row 4: there is no file 'pictures/3.png'")
    assert not (tmp_path / "other").exists()
    assert not (tmp_path / "more.csv").exists()


def test_bad_texts_and_models_are_one_line(condiff: Run, tmp_path: Path) -> None:
    path = write_rows(tmp_path / "tickets.csv", ticket_rows())
    fit = ("fit", path, "--target", "topic", "--out", tmp_path / "model")
    condiff(*fit, "--text", "size").assert_failed("the column 'size' holds numbers", "no text")
    condiff(*fit, "--text", "body").assert_failed("has no column 'body'")
    pytest.importorskip("sentence_transformers", reason="needs pip install 'condiff[text]'")
    condiff(*fit, "--embedding", tmp_path).assert_failed("is not a sentence model", "modules.json")
    assert not (tmp_path / "model").exists()
