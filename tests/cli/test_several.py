"""Several labels for each row, at the shell."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.cli.conftest import Run, read_rows, write_rows

from condiff import COINClassifier, COINMultiLabelClassifier, load
from condiff.cli.target import Target, several
from condiff.readers.tables import read_table

FAST = ("--base", "blend")


def _rows(separator: str = ";") -> list[dict[str, object]]:
    """Four clusters that stand for the four combinations of two tags; a third of the rows is labelled."""
    generator, rows = np.random.default_rng(0), []
    for number in range(60):
        cluster = number % 4
        left, right = generator.normal(size=2) * 0.4 + [3 * (cluster % 2), 3 * (cluster // 2)]
        tags = [name for name, applies in (("odd", cluster % 2), ("large", cluster // 2)) if applies]
        known = (separator.join(tags) or separator) if number % 3 == 0 else ""
        rows.append({"id": f"r{number}", "left": left, "right": right, "tags": known})
    return rows


def _truth(number: int) -> set[str]:
    return {name for name, applies in (("odd", number % 2), ("large", number % 4 > 1)) if applies}


@pytest.mark.parametrize("separator", [";", " | "])
def test_every_label_of_a_row_is_learned_and_answered(condiff: Run, tmp_path: Path, separator: str) -> None:
    table, out, answers = write_rows(tmp_path / "tags.csv", _rows(separator)), tmp_path / "model", tmp_path / "a.csv"
    result = condiff("fit", table, "--target", "tags", "--separator", separator, "--out", out, *FAST)
    assert (result.code, result.err) == (0, "")
    for part in (
        "60 rows, 20 labelled, with 2 labels in all",
        "large: 10 rows",
        "odd: 10 rows",
        "accuracy on held-out",
    ):
        assert part in result.out
    model = load(out)
    assert isinstance(model, COINMultiLabelClassifier) and model.classes_.tolist() == ["large", "odd"]
    result = condiff("predict", out, table, "--out", answers)
    assert (result.code, result.err) == (0, "")
    assert "60 rows: large 30, odd 30" in result.out and "20 labels given and kept, and the model agrees" in result.out
    found = read_rows(answers)
    assert list(found[0]) == ["id", "labels", "given", "model_says", "p_large", "p_odd"]
    for number, row in enumerate(found):
        assert {label.strip() for label in row["labels"].split(separator.strip())} - {""} == _truth(number)
        assert (row["given"] != "") == (number % 3 == 0)
    # What was written can be learned from: a row without any label is not one that nothing is known of.
    assert found[4]["labels"] == separator.strip()
    np.testing.assert_allclose(
        model.predict_proba(read_table(table))[:, 1], [float(row["p_odd"]) for row in found], atol=1e-6
    )


def test_the_heads_are_those_of_labels_by_themselves(condiff: Run, tmp_path: Path) -> None:
    rows = _rows()
    table, out = write_rows(tmp_path / "tags.csv", rows), tmp_path / "model"
    result = condiff("fit", table, "--target", "tags", "--separator", ";", "--out", out, "--json", *FAST)
    [summary] = json.loads(result.out)
    assert (summary["task"], summary["known"], summary["labelled"]) == ("several labels", 20, {"large": 10, "odd": 10})
    alone = [{**row, "tags": ("yes" if "odd" in str(row["tags"]) else "no") if row["tags"] else ""} for row in rows]
    condiff("fit", write_rows(tmp_path / "odd.csv", alone), "--target", "tags", "--out", tmp_path / "odd", *FAST)
    one = load(tmp_path / "odd")
    assert isinstance(one, COINClassifier) and summary["labels"]["odd"]["cv_score"] == one.cv_score_
    data = read_table(table)
    np.testing.assert_array_equal(load(out).predict_proba(data)[:, 1], one.predict_proba(data)[:, 1])


def test_new_rows_other_labels_and_json(condiff: Run, tmp_path: Path) -> None:
    table, out, answers = write_rows(tmp_path / "tags.csv", _rows()), tmp_path / "model", tmp_path / "a.csv"
    condiff("fit", table, "--target", "tags", "--separator", ";", "--out", out, *FAST)
    new = [{"id": "n1", "left": 3.1, "right": 2.9, "tags": ""}, {"id": "n2", "left": 0, "right": 3, "tags": "small"}]
    result = condiff("predict", out, write_rows(tmp_path / "new.csv", new), "--out", answers, "--json")
    [summary] = json.loads(result.out)
    assert (summary["rows"], summary["given"], summary["disagreeing"]) == (2, 1, 1)
    assert summary["labels"] == {"large": 2, "odd": 1}
    assert summary["notes"] == ["'tags': 1 label that the model has not learned ('small')"]
    first, second = read_rows(answers)
    assert first["labels"] == "large;odd" and (second["labels"], second["model_says"]) == ("small", "large")
    plain = [{"id": "n1", "left": 3.1, "right": 2.9}]
    assert condiff("predict", out, write_rows(tmp_path / "plain.csv", plain), "--out", answers).code == 0
    assert list(read_rows(answers)[0]) == ["id", "labels", "p_large", "p_odd"]


def test_rows_joined_by_given_edges(condiff: Run, tmp_path: Path) -> None:
    folder, rows = tmp_path / "graph", _rows()
    folder.mkdir()
    write_rows(folder / "nodes.csv", rows)
    joined = [{"source": f"r{one}", "target": f"r{other}"} for one in range(60) for other in range(one + 4, 60, 8)]
    write_rows(folder / "edges.csv", joined)
    out, answers = tmp_path / "model", tmp_path / "a.csv"
    assert condiff("fit", folder, "--target", "tags", "--separator", ";", "--out", out).code == 0
    result = condiff("predict", out, folder, "--out", answers)
    assert (result.code, result.err) == (0, "")
    right = [set(row["labels"].split(";")) - {""} == _truth(number) for number, row in enumerate(read_rows(answers))]
    assert np.mean(right) > 0.9


def test_empty_cells_are_unknown_and_the_separator_alone_is_none(tmp_path: Path) -> None:
    cells = ["a; b", "", ";", "b", " ; a ;", "?"]
    table = read_table(write_rows(tmp_path / "t.csv", [{"x": place, "tags": cell} for place, cell in enumerate(cells)]))
    assert several(table, "tags", ";", ["?"]) == [{"a", "b"}, None, set(), {"b"}, {"a"}, None]
    found = Target.of_several(table, "tags", ";", ["?"])
    assert (found.classes, found.counts, found.known.tolist()) == (
        ["a", "b"],
        [2, 2],
        [True, False] + [True] * 3 + [False],
    )
    assert found.labels[0].tolist() == [1, 1] and found.labels[2].tolist() == [0, 0] and np.isnan(found.labels[1]).all()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--separator", " "], "--separator must be something that is not blank"),
        (["--separator", "/"], "holds two labels with '/' between them"),
        (["--separator", ";", "--task", "regression"], "--task regression is for rows of one label"),
        (["--separator", ";", "--label-noise"], "--label-noise is for rows of one label"),
        (["--separator", ";", "--class-weight", "balanced"], "--class-weight is for rows of one label"),
        (["--separator", ";", "--prior", "odd=1,large=2"], "--prior is for rows of one label"),
    ],
)
def test_what_means_nothing_is_refused(condiff: Run, tmp_path: Path, options: list[str], said: str) -> None:
    table = write_rows(tmp_path / "tags.csv", _rows())
    result = condiff("fit", table, "--target", "tags", "--out", tmp_path / "model", *options)
    assert result.code == 2 and said in result.err and len(result.err.splitlines()) == 1
    assert not (tmp_path / "model").exists()


def test_other_mistakes_are_said_in_a_line(condiff: Run, tmp_path: Path) -> None:
    rows = _rows()
    table, out = write_rows(tmp_path / "tags.csv", rows), tmp_path / "model"
    result = condiff("fit", table, "--separator", ";", "--out", out)
    assert result.code == 2 and "--separator is for the cells of --target" in result.err
    result = condiff("fit", table, "--target", "tag", "--separator", ";", "--out", out)
    assert result.code == 2 and "did you mean 'tags'?" in result.err
    everywhere = [{**row, "tags": f"{row['tags']};text" if row["tags"] else ""} for row in rows]
    result = condiff(
        "fit", write_rows(tmp_path / "e.csv", everywhere), "--target", "tags", "--separator", ";", "--out", out
    )
    assert result.code == 2 and "e.csv has 'text'" in result.err
    assert condiff("fit", table, "--target", "tags", "--separator", ";", "--out", out, *FAST).code == 0
    for option in (["--coverage", 0.9], ["--abstain", 0.2], ["--none-of-these", 0.05]):
        result = condiff("predict", out, table, "--out", tmp_path / "a.csv", *option)
        assert result.code == 2 and f"{option[0]} is for rows of one label" in result.err
    for command in (["report", out], ["explore", out, "--out", tmp_path / "page.html"]):
        result = condiff(*command)
        assert result.code == 2 and "holds a COINMultiLabelClassifier" in result.err
