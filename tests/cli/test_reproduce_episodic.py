from __future__ import annotations

import json

import pytest
from tests.reproduce.datasets.made_images import split_folder


def test_a_method_is_trained_and_tested(condiff, tmp_path, monkeypatch):
    monkeypatch.setenv("CONDIFF_CACHE", str(tmp_path / "cache"))
    folder, out = split_folder(tmp_path / "colours"), tmp_path / "out"
    command = ("reproduce", "fewshot", "--dataset", folder, "--backbone", "conv4", "--episodic", "--method", "ProtoNet")
    command += ("--ways", 2, "--queries", 2, "--episodes", 2, "--tasks", 3, "--jobs", 1, "--out", out)
    done = condiff(*command, "--json")
    assert done.code == 0, done.err
    [row] = json.loads(done.out)
    assert (row["dataset"], row["method"], row["runs"]) == ("colours", "ProtoNet", 3)
    assert (row["condition"]["ways"], row["condition"]["queries"], row["condition"]["episodic"]) == (2, 2, True)
    assert row["settings"]["training"]["episodes"] == 2
    assert "| ProtoNet | 2 |" in (out / "training.md").read_text()
    assert [picture.name for picture in out.glob("*.png")] == ["episodic.png"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--episodic",), "--episodic trains on images: give --dataset"),
        (("--episodes", 5, "--features", "x.npz"), "give --episodic as well"),
        (("--episodic", "--dataset", "cub", "--cluster", "tcp://x:1"), "leave out --cluster"),
        (("--episodic", "--dataset", "absent"), "unknown image set 'absent'"),
    ],
)
def test_what_cannot_be_done_is_one_line(condiff, options, message):
    done = condiff("reproduce", "fewshot", "--method", "MAML", *options, "--no-pictures")
    assert done.code == 2
    assert message in " ".join(done.err.split())
