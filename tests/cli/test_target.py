from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.cli.conftest import Run

from condiff import load
from condiff.cli.target import Target, row_weights
from condiff.errors import InvalidInputError
from condiff.readers.tables import Table, read_table


def table_of(folder: Path, **columns: object) -> Table:
    path = folder / "t.csv"
    pd.DataFrame(columns).to_csv(path, index=False)
    return read_table(path)


def test_votes_are_shares_and_what_annotators_agree_on_is_said(tmp_path: Path) -> None:
    table = table_of(tmp_path, anna=["a", "b", None, None], ben=["a", "a", "b", None], cleo=["a", "b", None, "?"])
    found = Target.of_votes(table, ["anna", "ben", "cleo"], ["?"])
    np.testing.assert_allclose(found.labels, [[1, 0], [1 / 3, 2 / 3], [0, 1], [np.nan, np.nan]])
    assert (found.classes, found.counts, found.known.tolist()) == (["a", "b"], [1, 2], [True, True, True, False])
    assert found.notes == ("3 annotators: of 2 rows with two labels or more all agree on 1",)


def test_an_annotator_who_wrote_numbers_or_nothing_votes_as_the_others_do(tmp_path: Path) -> None:
    mixed = table_of(tmp_path, anna=["1", "two", "1"], ben=["1", "1", None], cleo=[None, None, None])
    found = Target.of_votes(mixed, ["anna", "ben", "cleo"])
    np.testing.assert_allclose(found.labels, [[1, 0], [0.5, 0.5], [1, 0]])
    assert found.classes == ["1", "two"]
    numbers = table_of(tmp_path, anna=[3, 5, 3], ben=[3, 5, None])
    assert Target.of_votes(numbers, ["anna", "ben"]).classes == [3, 5]


def test_chances_are_of_the_classes_that_columns_are_called_after(tmp_path: Path) -> None:
    table = table_of(tmp_path, p_cat=[0.25, 1, None], p_dog=[0.75, 0, None])
    found = Target.of_chances(table, ["p_cat", "p_dog"])
    np.testing.assert_allclose(found.labels, [[0.25, 0.75], [1, 0], [np.nan, np.nan]])
    assert (found.classes, found.counts) == (["cat", "dog"], [1, 1])
    assert Target.of_chances(table_of(tmp_path, cat=[1, 0], dog=[0, 1]), ["cat", "dog"]).classes == ["cat", "dog"]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"a": [0.5, 0.2], "b": [0.5, 0.7]}, "row 2 has chances that sum to 0.9, not 1"),
        ({"a": [1.5, 0.5], "b": [-0.5, 0.5]}, "row 1 has a chance below 0"),
        ({"a": [0.5, None], "b": [0.5, 0.7]}, "'a' is empty in row 2"),
        ({"a": [1.0, 1.0], "b": [0, 0]}, "'b' is 0 in every row"),
        ({"a": [0.5, 0.5], "b": ["half", "0.5"]}, "column 'b' of"),
        ({"a": [None, None], "b": [None, None]}, "no row has chances"),
    ],
)
def test_what_are_no_chances_is_said_in_one_line(tmp_path: Path, columns: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        Target.of_chances(table_of(tmp_path, x=[1, 2], **columns), ["a", "b"])


def test_weights_are_one_where_they_are_empty(tmp_path: Path) -> None:
    table = table_of(tmp_path, w=[2, None, 0.5], bad=[1, -1, 1], zero=[0, 0, 3], word=["1", "much", "2"])
    known = np.array([True, True, False])
    assert row_weights(table, "w", known).tolist() == [2, 1, 0.5]
    for name, message in (
        ("bad", "is -1 in row 2: weights are 0 or more"),
        ("zero", "is 0 in every labelled row"),
        ("word", "no number in row 2"),
        ("wait", "no column of weights 'wait'"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            row_weights(table, name, known)


@pytest.fixture
def voted(tmp_path: Path) -> Path:
    """Two clusters, twelve of whose rows two people have labelled; the second is wrong in one of them."""
    x = np.concatenate([np.linspace(0, 1, 20), np.linspace(5, 6, 20)])
    truth = np.repeat(["low", "high"], 20)
    seen = np.arange(40) % 4 == 0
    anna = np.where(seen, truth, "")
    ben = np.where(seen & (np.arange(40) % 8 == 0), truth, "")
    ben[0] = "high"
    frame = pd.DataFrame({"name": [f"r{row}" for row in range(40)], "x": x, "anna": anna, "ben": ben})
    frame["counts"] = np.where(np.arange(40) == 0, 3.0, np.nan)
    frame.to_csv(tmp_path / "voted.csv", index=False)
    return tmp_path / "voted.csv"


def test_votes_and_weights_reach_the_fit(condiff: Run, voted: Path) -> None:
    out = voted.with_name("model")
    options = ("--annotators", "anna,ben", "--weight", "counts", "--base", "residual", "--json", "--out", out)
    result = condiff("fit", voted, *options)
    assert result.code == 0, result.err
    [summary] = json.loads(result.out)
    assert summary["labelled"] == {"high": 6, "low": 4}
    assert 0.5 < summary["most"] < 1
    model = load(out)
    assert sorted(set(model.record_.weights.tolist())) == [1, 1.5]  # row 1: half a vote each, three times over
    assert (model.transduction_ == np.repeat(["low", "high"], 20))[1:].all()
    answered = condiff("predict", out, voted, "--out", voted.with_name("answers.csv"))
    assert answered.code == 0
    columns = pd.read_csv(voted.with_name("answers.csv")).columns.tolist()
    assert columns == ["name", "label", "confidence", "p_high", "p_low"]
    again = condiff("fit", voted.with_name("answers.csv"), "--chances", "p_high,p_low", "--drop", "label", "--out", out)
    assert again.code == 2  # nothing but the ids is left to learn from, and that the model is there already


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--annotators", "anna"], "--annotators must name two or more different columns"),
        (["--annotators", "anna,bem"], "no annotator's column 'bem' (did you mean 'ben'?)"),
        (["--annotators", "anna,ben", "--target", "x"], "--target and --annotators exclude each other"),
        (["--annotators", "anna,ben", "--label-noise"], "--label-noise is for plain labels"),
        (["--annotators", "anna,ben", "--task", "regression"], "--annotators is for classes"),
        (["--annotators", "x,anna"], "holds values, not classes"),
        (["--target", "anna", "--weight", "x1"], "no column of weights 'x1'"),
    ],
)
def test_a_mistake_is_one_line(condiff: Run, voted: Path, options: list[str], message: str) -> None:
    condiff("fit", voted, *options, "--out", voted.with_name("model")).assert_failed(message)
