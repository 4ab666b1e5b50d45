from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.reproduce.datasets.made_images import split_folder

from condiff.cli.output import batches_shown
from condiff.reproduce.datasets.features import load_features


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONDIFF_CACHE", str(tmp_path / "cache"))


def test_a_backbone_is_trained_goes_on_and_embeds(condiff: Run, tmp_path: Path) -> None:
    images, folder = split_folder(tmp_path / "colours"), tmp_path / "trained"
    train = ("backbone", "train", images, "--backbone", "conv4", "--size", 16, "--epochs", 2, "--out", folder)
    first = condiff(*train, "--json")
    assert first.code == 0
    (report,) = json.loads(first.out)
    assert report["backbone"] == {"name": "conv4", "in_channels": 3, "size": 16}
    assert [entry["epoch"] for entry in report["epochs"]] == [0, 1]
    assert "epoch 2 of 2: loss" in first.err
    again = condiff(*train)
    assert again.code == 0
    assert "epoch" not in again.err  # all was done
    assert "validation accuracy" in again.out

    out = tmp_path / "novel.npz"
    embedded = condiff("backbone", "embed", images, "--backbone", folder, "--out", out, "--json")
    assert embedded.code == 0
    (found,) = json.loads(embedded.out)
    features = load_features(out)
    assert found["fingerprint"] == features.fingerprint
    assert (found["images"], found["features"], found["classes"]) == (8, 64, 2)
    assert features.name == "colours-conv4-novel"
    plain = condiff("backbone", "embed", images, "--backbone", folder, "--part", "base", "--out", out)
    assert "colours-conv4-base: 8 images of 2 classes, 64 features" in plain.out


def test_long_epochs_tell_how_far_they_are(condiff: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("condiff.cli.backbone._PAUSE", 0.0)
    arguments = ("--backbone", "conv4", "--size", 16, "--epochs", 1, "--batch-size", 4, "--out", tmp_path / "t")
    told = condiff("backbone", "train", split_folder(tmp_path / "colours"), *arguments).err.splitlines()
    steps = [line for line in told if "steps, the last with a loss of" in line]
    assert [line.split(":")[1].split()[0] for line in steps] == ["1", "2"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("train", "cubs", "--out", "t"), "unknown image set 'cubs' (did you mean 'cub'?)"),
        (("train", "cub", "--backbone", "vgg", "--out", "t"), "must be one of conv4"),
        (("embed", "cub", "--out", "f.csv"), "--out must end in .npz"),
        (("embed", "cub", "--part", "test", "--out", "f.npz"), "unknown part 'test'"),
        (("embed", "cub", "--backbone", "resnet18", "--out", "f.npz"), "resnet18 is not trained yet"),
    ],
)
def test_wrong_requests_are_one_line(
    condiff: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    condiff("backbone", *arguments).assert_failed(message)
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_image_is_one_line(condiff: Run, tmp_path: Path) -> None:
    images = split_folder(tmp_path / "colours")
    (images / "images" / "red" / "1.png").write_bytes(b"")
    run = condiff("backbone", "train", images, "--backbone", "conv4", "--size", 16, "--out", tmp_path / "t")
    run.assert_failed("red/1.png", "is not a readable image")
    assert not (tmp_path / "t").exists()


def test_progress_is_about_ten_lines(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False)
    with batches_shown("images embedded") as shown:
        for done in (*range(64, 6400, 64), 6400):
            shown(done, 6400)
    lines = capsys.readouterr().err.splitlines()
    assert 8 <= len(lines) <= 12
    assert lines[-1] == "images embedded: 6400 of 6400"
