from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.reproduce.datasets.made_images import split_folder

from condiff.encoders.images import embed, open_backbone
from condiff.reproduce.datasets.features import ClassFeatures
from condiff.reproduce.datasets.image_sets import load_image_set
from condiff.reproduce.embedding import dataset_features
from condiff.reproduce.pretraining.train import train_backbone


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONDIFF_CACHE", str(tmp_path / "cache"))


def test_a_sets_features_have_the_mean_of_its_base_classes(tmp_path: Path) -> None:
    images, trained = str(split_folder(tmp_path / "colours")), tmp_path / "trained"
    train_backbone(images, "conv4", trained, epochs=1, size=16, validation_tasks=5)
    novel, validation, base = (dataset_features(images, str(trained), part) for part in ("novel", "validation", "base"))
    assert isinstance(novel, ClassFeatures)
    assert (novel.name, novel.classes) == ("colours-conv4-novel", ("black", "yellow"))
    assert validation.classes == ("blue", "white")
    assert novel.features.shape == (8, 64)
    np.testing.assert_allclose(novel.base_mean, base.features.mean(axis=0), rtol=1e-5)
    network = open_backbone(str(trained))
    stored = load_image_set(images, "novel", size=16)
    expected = embed(network, stored.crops, len(stored))
    np.testing.assert_array_equal(novel.features, expected)
