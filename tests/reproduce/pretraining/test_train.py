from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tests.reproduce.datasets.made_images import split_folder

from condiff.bases.backbones.checkpoints import load_backbone
from condiff.errors import InvalidInputError
from condiff.reproduce.pretraining import train as pretraining
from condiff.reproduce.pretraining.train import train_backbone


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONDIFF_CACHE", str(tmp_path / "cache"))


def test_a_backbone_is_trained_on_a_folder(tmp_path: Path) -> None:
    images = str(split_folder(tmp_path / "colours"))
    state = torch.random.get_rng_state()
    records = [
        train_backbone(images, "conv4", tmp_path / name, epochs=2, size=16, batch_size=4, validation_tasks=5, seed=seed)
        for name, seed in (("a", 0), ("b", 0), ("c", 1))
    ]
    assert torch.equal(torch.random.get_rng_state(), state)  # nobody else's numbers change
    assert records[0].files == records[1].files != records[2].files
    assert records[0].best_accuracy == 1.0  # blue and white
    facts = records[0].facts
    assert (facts["label_smoothing"], facts["data"]["validation_ways"]) == (0.1, 2)
    assert facts["training"]["milestones"] == [1]
    network = load_backbone(tmp_path / "a")
    assert (network.name, network.size, network.in_channels) == ("conv4", 16, 3)


@pytest.mark.parametrize(("size", "rate"), [(16, 0.1), (84, 0.03)])
def test_the_rate_is_lower_for_many_features(tmp_path: Path, size: int, rate: float) -> None:
    images = str(split_folder(tmp_path / "colours"))
    record = train_backbone(images, "conv4", tmp_path / "a", epochs=1, size=size, validation_tasks=5)
    assert record.facts["training"]["learning_rate"] == rate


def test_a_network_that_died_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images = str(split_folder(tmp_path / "colours"))
    monkeypatch.setattr(pretraining, "embed", lambda network, images, count: np.full((count, 64), 0.5, np.float32))
    with pytest.raises(InvalidInputError, match=r"network died: .* lower the learning rate"):
        train_backbone(images, "conv4", tmp_path / "a", epochs=1, size=16, validation_tasks=5)
    assert not (tmp_path / "a").exists()


def test_changed_images_do_not_go_on(tmp_path: Path) -> None:
    folder = split_folder(tmp_path / "colours")
    train_backbone(str(folder), "conv4", tmp_path / "a", epochs=1, size=16, validation_tasks=5)
    (folder / "images" / "red" / "0.png").write_bytes((folder / "images" / "green" / "0.png").read_bytes())
    with pytest.raises(InvalidInputError, match="data was"):
        train_backbone(str(folder), "conv4", tmp_path / "a", epochs=1, size=16, validation_tasks=5)


@pytest.mark.parametrize("name", ["efficientnet_lite0", "vgg"])
def test_only_the_untrained_backbones_are_trained(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidInputError, match="must be one of conv4, resnet18, wrn28_10"):
        train_backbone("cub", name, tmp_path)
