from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.reproduce.class_features import made_up

from condiff.reproduce.datasets.features import save_features


@pytest.fixture
def features(tmp_path: Path) -> Path:
    save_features(tmp_path / "toy.npz", made_up())
    return tmp_path / "toy.npz"


def test_few_shot_tasks_from_a_file_of_features(condiff, features, tmp_path):
    out = tmp_path / "out"
    command = ("reproduce", "fewshot", "--features", features, "--queries", 5, "--jobs", 1, "--out", out)
    done = condiff(*command, "--method", "SimpleShot,PT-MAP", "--tasks", 120)
    assert done.code == 0, done.err
    assert "120" in done.out
    assert "s per task" in done.out
    rows = json.loads((out / "summary.json").read_text())
    assert [(row["method"], row["runs"], row["splits"]) for row in rows] == [("SimpleShot", 120, 2), ("PT-MAP", 120, 2)]
    assert all(30 < row["mean"] <= 100 for row in rows)
    assert all(row["interval"] == pytest.approx(1.96 * row["std"] / 120**0.5) for row in rows)
    assert "mean ± 95 % interval over 120 tasks" in (out / "table.md").read_text()
    assert (out / "accuracy.png").read_bytes().startswith(b"\x89PNG")
    [pair] = json.loads((out / "pairs.json").read_text())  # over the first hundred tasks: the others are no whole block
    assert (pair["method"], pair["splits"]) in {("SimpleShot", 1), ("PT-MAP", 1)}
    assert "over blocks of 100 tasks" in (out / "pairs.md").read_text()
    # A second kind of task joins the table of the first.
    done = condiff(*command, "--method", "SimpleShot", "--tasks", 20, "--unbalanced", "--no-pictures", "--json")
    assert [(row["dataset"], row["condition"]["concentration"]) for row in json.loads(done.out)] == [("toy", 2.0)]
    assert len(json.loads((out / "summary.json").read_text())) == 3
    # Other features of the same name would be averaged with these.
    written = (out / "summary.json").read_bytes()
    save_features(tmp_path / "other.npz", made_up(apart=2.0))
    done = condiff(*command, "--features", tmp_path / "other.npz", "--method", "SimpleShot", "--tasks", 20)
    assert done.code == 2
    assert "holds runs of SimpleShot on other data called toy" in " ".join(done.err.split())
    assert (out / "summary.json").read_bytes() == written


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "few-shot tasks need features"),
        (("--backbone", "conv4"), "give --dataset cub|omniglot|DIR as well"),
        (("--dataset", "cub", "--features", "x.npz"), "leave out --dataset and --backbone"),
        (("--features", "absent.npz"), "absent.npz"),
    ],
)
def test_what_cannot_be_done_is_one_line(condiff, options, message):
    done = condiff("reproduce", "fewshot", *options, "--no-pictures")
    assert done.code == 2
    assert message in " ".join(done.err.split())
    assert "Traceback" not in done.err
