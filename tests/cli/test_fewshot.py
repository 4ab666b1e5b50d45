from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from tests.cli.conftest import Run, read_rows
from tests.reproduce.datasets.made_images import COLOURS, png, write


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONDIFF_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    for number in range(12):
        write(tmp_path / "photos" / f"{number:02d}.png", png(COLOURS[("red", "blue")[number % 2]], seed=number))
    write(tmp_path / "labels.csv", "file,label\n00.png,red\n01.png,blue\n")
    return tmp_path / "photos"


def test_images_go_in_and_labels_come_out(condiff: Run, photos: Path, tmp_path: Path) -> None:
    pytest.importorskip("efficientnet_lite_pytorch")
    run = ("fewshot", photos, "--labels", tmp_path / "labels.csv")
    printed = condiff(*run)
    assert printed.code == 0
    rows = list(csv.DictReader(io.StringIO(printed.out)))
    assert [row["label"] for row in rows] == ["red", "blue"] * 6
    assert [row["given"] for row in rows] == ["red", "blue"] + [""] * 10
    assert [row["model_says"] for row in rows] == [""] * 12
    for row in rows:
        assert float(row["confidence"]) == max(float(row["p_red"]), float(row["p_blue"]))
    assert "12 images: blue 6, red 6" in printed.err

    written = condiff(*run, "--out", tmp_path / "answers.csv")
    assert written.out == ""
    assert read_rows(tmp_path / "answers.csv") == rows
    as_json = json.loads(condiff(*run, "--json", "--out", tmp_path / "answers.json").out)
    assert as_json == json.loads((tmp_path / "answers.json").read_text())
    assert as_json[2]["given"] is None
    assert [row["file"] for row in as_json] == [row["file"] for row in rows]


def test_wrong_requests_are_one_line(condiff: Run, photos: Path, tmp_path: Path) -> None:
    labels = tmp_path / "labels.csv"
    condiff("fewshot", photos, "--labels", labels, "--out", labels).assert_failed("is also an input")
    condiff("fewshot", photos, "--labels", labels, "--out", "a.txt").assert_failed("--out must end in .csv or .json")
    condiff("fewshot", tmp_path / "none", "--labels", labels).assert_failed("is not a folder of images")
    condiff("fewshot", photos, "--labels", tmp_path / "none.csv").assert_failed("none.csv: no such file")
    write(labels, "file,label\n00.png,red\n99.png,blue\n")
    condiff("fewshot", photos, "--labels", labels).assert_failed("labels.csv, line 3: '99.png' is not among the images")
    write(labels, "file,label\n00.png,red\n01.png,blue\n")
    condiff("fewshot", photos, "--labels", labels, "--backbone", "conv4").assert_failed("conv4 is not trained yet")
