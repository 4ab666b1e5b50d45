from __future__ import annotations

import json
import re
import shutil
import sqlite3
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_iris
from tests.reproduce.made_up import paper_runs, run, sweep

from condiff import COINClassifier, COINRegressor
from condiff.errors import CondiffError, InvalidFileError, InvalidInputError
from condiff.reproduce.provenance import provenance
from condiff.reproduce.report.folders import read_results
from condiff.reproduce.report.report import report, write_report
from condiff.reproduce.results import STORE, headline, write_results
from condiff.reproduce.runs import Condition, Key, Run
from condiff.reproduce.store import Store

RESULTS = Path(__file__).parents[3] / "results"


def make_results(folder: Path, runs: list[Run]) -> Path:
    made = provenance("condiff reproduce <cora>")
    with Store(folder / STORE) as store:
        for each in runs:
            key = Key(each.task, each.dataset, each.method, each.settings, each.split, each.init)
            store.add(key, each, made)
        makers = store.makers()
    write_results(folder, headline(runs, ["accuracy"]), made, makers=makers)
    return folder


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs = paper_runs(["cora", "citeseer"]) + [run("Mine <script>", 80.0 + i, split=i) for i in range(3)]
    return make_results(tmp_path_factory.mktemp("results") / "my <folder>", runs)


def well_formed(page: str) -> list[tuple[str, dict[str, str | None]]]:
    """Every element that is opened is closed in its place, and ids are there once; returns all elements."""
    stack: list[str] = []
    found: list[tuple[str, dict[str, str | None]]] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            found.append((tag, dict(attrs)))
            if tag not in ("meta", "link", "br", "input"):
                stack.append(tag)

        def handle_endtag(self, tag: str) -> None:
            assert stack.pop() == tag

    Reader().feed(page)
    assert stack == []
    ids = [attributes["id"] for _, attributes in found if "id" in attributes]
    assert len(ids) == len(set(ids))
    for _, attributes in found:
        target = attributes.get("href") or ""
        assert not target.startswith("#") or target[1:] in ids
    return found


def test_results_show_ours_theirs_and_the_difference(results: Path) -> None:
    page = report(results, "condiff report results")
    well_formed(page)
    [row] = [row for row in read_results(results).rows if (row.dataset, row.method) == ("cora", "COIN")]
    line = page[page.index("<caption>Cora, accuracy (%): mean ± standard deviation over ") :]
    line = line[line.index(">COIN</th>") :]
    assert f"{row.mean:.1f} ± {row.std:.1f}</td>" in line[:200]
    assert "82.2 ± 1.2" in line[:400] and f"{row.difference:+.1f}" in line[:500]
    assert "published 82.2" in page
    assert page.count("<svg") >= 4
    assert "condiff reproduce &lt;cora&gt;" in page


def test_few_shot_tasks_show_the_interval_of_their_table() -> None:
    page = report(RESULTS / "fewshot", "condiff report results/fewshot")
    assert "82.31 ± 0.23" in page and "11.64" not in page
    assert "Mean ± 95 % interval over" in page


def test_names_of_users_are_escaped(results: Path) -> None:
    page = report(results, "condiff report '<i>'")
    assert "Mine &lt;script&gt;" in page and "Mine <script>" not in page
    assert "my &lt;folder&gt;" in page and "my <folder>" not in page
    assert "&lt;i&gt;" in page and "<i>" not in page
    assert page.count("<script") == 1  # ours


def test_the_folder_is_only_looked_at(results: Path, tmp_path: Path) -> None:
    before = {path.name: path.read_bytes() for path in results.iterdir()}
    out = tmp_path / "deep" / "report.html"
    write_report(results, out, "x")
    assert out.read_text(encoding="utf-8") == report(results, "x")
    assert {path.name: path.read_bytes() for path in results.iterdir()} == before


def test_a_sweep_that_is_going_on_is_read_too(tmp_path: Path) -> None:
    with Store(tmp_path / STORE) as store:
        for split in range(3):
            store.add(Key("node", "cora", "COIN", {}, split, 0), run(accuracy=80.0 + split, split=split), {})
        assert (tmp_path / f"{STORE}-wal").stat().st_size
        assert len(read_results(tmp_path).runs) == 3


def test_a_summary_alone_and_a_store_alone(results: Path, tmp_path: Path) -> None:
    for name in ("summary.json", STORE):
        folder = tmp_path / name / "found"
        folder.mkdir(parents=True)
        shutil.copy(results / name, folder)
        page = report(folder, "x")
        well_formed(page)
        assert "82.2 ± 1.2" in page
        assert ("Cora, all runs" in page) == (name == STORE)


def test_a_sweep_is_drawn_along_its_axis(tmp_path: Path) -> None:
    runs = [
        run(accuracy=80.0 + split, split=split, settings={"layers": layers, "strength": strength / 10})
        for layers in (20, 40)
        for strength in range(1, 8)
        for split in range(3)
    ]
    folder = make_results(tmp_path / "sweep", runs)
    claim = {"claim": "a broad <optimum>", "dataset": "cora", "text": "yes", "holds": True}
    (folder / "claims.json").write_text(json.dumps([claim]))
    page = report(folder, "x")
    well_formed(page)
    assert "Cora with 20 layers: best median 81.0 at" in page and "Cora with 40 layers: best median" in page
    assert "a broad &lt;optimum&gt;" in page
    assert "The strength of a layer" not in report(make_results(tmp_path / "few", sweep(layers=[20])), "x")


def test_missing_data_are_lines(tmp_path: Path) -> None:
    runs = [
        run(
            method,
            dataset="england",
            condition=Condition(missing=rate / 100, causal=False),
            task="covid",
            metrics={"mse": 0.5 + rate / 200 + split / 50 + 0.1 * (method == "LR")},
            split=split,
        )
        for method in ("COIN", "LR")
        for rate in (0, 50, 90)
        for split in range(2)
    ]
    with Store(tmp_path / STORE) as store:
        for each in runs:
            key = Key(each.task, each.dataset, each.method, {}, each.split, each.init, "", each.condition)
            store.add(key, each, {})
    page = report(tmp_path, "x")
    well_formed(page)
    assert "against missing data" in page and "At the right end COIN is best" in page


@pytest.mark.parametrize("name", ["node", "covid", "node-ablation", "node-costs", "demo"])
def test_every_committed_folder(name: str) -> None:
    page = report(RESULTS / name, f"condiff report results/{name}")
    elements = well_formed(page)
    if name == "demo":
        assert '<span class="name">COIN, 1 per class</span><span class="value">89.5<small> ± 5.2 %</small>' in page
    headings = [int(tag[1]) for tag, _ in elements if re.fullmatch("h[1-6]", tag)]
    assert headings[0] == 1 and headings.count(1) == 1
    assert all(b - a <= 1 for a, b in pairwise(headings))
    assert "NaN" not in page and "None" not in page


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "<versicolor>", "virginica"], dtype=object)
    labels = np.where(np.arange(150) % 5 == 0, names[y], None)
    model = COINClassifier(layers=30).fit(X, labels)
    folder = tmp_path_factory.mktemp("model") / "flowers"
    ids = [f"<f{i}>" for i in range(150)]
    metadata = {"ids": ids, "target": "<kind>", "data": "f.csv", "made": provenance("condiff fit <f>")}
    return model.save(folder, metadata)


def test_a_classifier(classifier: Path) -> None:
    page = report(classifier, "x")
    well_formed(page)
    for part in (
        "30 labels were held out",
        "Confusion matrix",
        "Expected calibration error",
        "What the diffusion changed",
        "Points to label next",
        "positivity limit",
        "condiff fit &lt;f&gt;",
        "&lt;f",
        "&lt;versicolor&gt;",
    ):
        assert part in page
    assert "<versicolor>" not in page and "<f" not in re.sub("<(footer|figure|figcaption|fieldset)", "", page)


def test_a_regressor(tmp_path: Path) -> None:
    angle = np.linspace(0, 3, 80)
    X = np.stack([np.cos(angle), np.sin(angle), angle], axis=1)
    y = np.where(np.arange(80) % 4 == 0, angle, np.nan)
    page = report(COINRegressor(layers=20).fit(X, y).save(tmp_path / "values"), "x")
    well_formed(page)
    for part in ("R²", "Held-out values and answers", "moves by the diffusion", "far from labels", "row 1"):
        assert part in page


def test_a_model_without_diffusion_or_held_out_labels(tmp_path: Path) -> None:
    X = np.linspace(0, 1, 30)[:, None]
    model = COINClassifier(layers=0, folds=0).fit(X, np.where(np.arange(30) % 29 == 0, np.arange(30) > 15, None))
    page = report(model.save(tmp_path / "bare"), "x")
    well_formed(page)
    assert "changed no answer" in page and "too few labels" in page and "There is no diffusion" in page


def test_other_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="does not exist"):
        report(tmp_path / "nothing", "x")
    with pytest.raises(InvalidFileError, match="holds neither results"):
        report(tmp_path, "x")
    (tmp_path / "file").touch()
    with pytest.raises(InvalidInputError, match="is a file"):
        report(tmp_path / "file", "x")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("summary.json", "[{", "damaged or not JSON"),
        ("summary.json", "{}", "not a JSON list"),
        ("summary.json", "[]", "no finished run"),
        ("summary.json", '[{"task": "node"}]', "lacks 'dataset'"),
        ("runs.sqlite", "no database at all, but long enough to be told apart from one", "cannot be used as a store"),
        ("accuracy.json", '[{"method": "COIN"}]', "damaged"),
    ],
)
def test_damaged_results(tmp_path: Path, name: str, content: str, message: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(CondiffError, match=message):
        report(tmp_path, "x")


def test_a_foreign_database_and_an_unknown_metric(results: Path, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / STORE) as connection:
        connection.execute("CREATE TABLE other (a)")
    connection.close()
    with pytest.raises(InvalidFileError, match="not a store of runs"):
        report(tmp_path, "x")
    (tmp_path / STORE).unlink()
    rows = json.loads((results / "summary.json").read_text())
    (tmp_path / "summary.json").write_text(json.dumps([{**rows[0], "metric": "luck"}]))
    with pytest.raises(InvalidFileError, match="'luck'"):
        report(tmp_path, "x")
