from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
from sklearn.datasets import load_iris
from tests.cli.conftest import Run


def test_a_mapped_file_is_fitted_and_answered(condiff: Run, tmp_path: Path) -> None:
    x, y = load_iris(return_X_y=True)
    np.save(tmp_path / "x.npy", x.astype(np.float32))
    np.save(tmp_path / "kind.npy", np.where(np.arange(150) % 10 == 0, y, -1))
    result = condiff("fit", tmp_path / "x.npy", "--target", "kind", "--out", tmp_path / "model", "--json")
    assert result.code == 0, result.err
    [summary] = json.loads(result.out)
    assert summary["rows"] == 150
    assert summary["labelled"] == {"0": 5, "1": 5, "2": 5}
    answers = tmp_path / "answers.csv"
    result = condiff("predict", tmp_path / "model", tmp_path / "x.npy", "--out", answers)
    assert result.code == 0, result.err
    with answers.open(newline="") as stream:
        labels = [int(row["label"]) for row in csv.DictReader(stream)]
    assert np.mean(np.array(labels) == y) > 0.8


def test_a_target_that_is_not_beside_it(condiff: Run, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.eye(4))
    np.save(tmp_path / "kind.npy", np.arange(4))
    failed = condiff("fit", tmp_path / "x.npy", "--target", "kindd", "--out", tmp_path / "model")
    failed.assert_failed("no target column 'kindd'", "did you mean 'kind'")
