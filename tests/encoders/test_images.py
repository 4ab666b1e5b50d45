from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from tests.reproduce.datasets.made_images import COLOURS, png, write

from condiff.bases.backbones import Backbone, backbone
from condiff.encoders import images as module
from condiff.encoders.images import ImageEncoder, backbone_key, cached_features, embed, open_backbone
from condiff.errors import InvalidInputError


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CONDIFF_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def seeded(name: str = "conv4", seed: int = 0, **options: Any) -> Backbone:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return backbone(name, **({"in_channels": 3, "size": 16} | options))


def pixels(count: int) -> Any:
    return np.random.default_rng(0).integers(0, 256, (count, 16, 16, 3), dtype=np.uint8)


def test_batches_give_what_one_pass_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    network, images, steps = seeded(), pixels(7), []
    with torch.no_grad():
        whole = network.eval()(network.prepare(torch.from_numpy(images))).numpy()
    network.train()
    monkeypatch.setattr(module, "BATCH", 3)
    found = embed(network, lambda part: images[part], 7, lambda *step: steps.append(step))
    np.testing.assert_allclose(found, whole, rtol=1e-4, atol=1e-5)
    assert steps == [(3, 7), (6, 7), (7, 7)]
    assert network.training  # as it was


def test_features_are_made_once_for_weights_and_images() -> None:
    images, asked = pixels(4), []

    def crops(part: slice) -> Any:
        asked.append(part)
        return images[part]

    def found(network: Backbone, images_key: str = "k") -> Any:
        return cached_features(network, crops, 4, name="set", images_key=images_key)

    first = found(seeded())
    np.testing.assert_array_equal(found(seeded()), first)
    assert len(asked) == 1
    assert (found(seeded(seed=1)) != first).any()
    found(seeded(), "other")
    assert len(asked) == 3


def test_a_damaged_array_in_the_cache_is_made_anew(cache: Path) -> None:
    images = pixels(4)
    first = cached_features(seeded(), lambda part: images[part], 4, name="set", images_key="k")
    path = next((cache / "features").iterdir())
    for damage in (path.read_bytes()[:100], b""):
        path.write_bytes(damage)
        again = cached_features(seeded(), lambda part: images[part], 4, name="set", images_key="k")
        np.testing.assert_array_equal(again, first)


def test_a_stopped_embedding_goes_on(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BATCH", 2)
    monkeypatch.setattr(module, "BLOCK", 4)
    images = pixels(11)
    whole = embed(seeded(), lambda part: images[part], 11)
    asked: list[int] = []
    steps: list[tuple[int, int]] = []

    def crops(part: slice) -> Any:
        if len(asked) == 3:
            asked.append(-1)
            raise KeyboardInterrupt
        asked.append(part.start)
        return images[part]

    def found() -> Any:
        return cached_features(seeded(), crops, 11, name="s", images_key="k", on_batch=lambda *step: steps.append(step))

    with pytest.raises(KeyboardInterrupt):
        found()
    np.testing.assert_array_equal(found(), whole)
    assert asked == [0, 2, 4, -1, 4, 6, 8, 10]  # the first block is kept, the second begins again
    assert steps == [(2, 11), (4, 11), (6, 11), (6, 11), (8, 11), (10, 11), (11, 11)]
    assert [path.suffix for path in (cache / "features").iterdir()] == [".npy"]


def test_the_key_has_weights_and_preparation() -> None:
    keys = [backbone_key(seeded()), backbone_key(seeded(seed=1)), backbone_key(seeded(size=17))]
    assert len(set(keys)) == 3
    assert backbone_key(seeded()) == keys[0]
    channels_last = seeded().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    assert backbone_key(channels_last) == keys[0]


def test_backbones_that_cannot_embed_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="resnet18 is not trained yet"):
        open_backbone("resnet18")
    with pytest.raises(InvalidInputError, match=r"unknown backbone 'efficientnet' .did you mean"):
        open_backbone("efficientnet")


def test_the_encoder_centres_and_brings_to_length_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [f"{number}.png" for number in range(6)]
    for number, file in enumerate(files):
        write(tmp_path / file, png(list(COLOURS.values())[number % 3], seed=number))
    monkeypatch.setattr(module, "open_backbone", lambda name: seeded())
    encoder = ImageEncoder(tmp_path)
    features = encoder.fit_transform(files)
    np.testing.assert_allclose(np.linalg.norm(features, axis=1), 1.0)
    np.testing.assert_array_equal(encoder.transform(files), features)
    np.testing.assert_allclose(encoder.transform(files[::-1]), features[::-1], atol=1e-5)
    raw = clone(encoder)._features(files)
    np.testing.assert_allclose(encoder.mean_, raw.mean(axis=0), rtol=1e-4)
    write(tmp_path / "same.png", png(COLOURS["red"], seed=0))
    np.testing.assert_array_equal(clone(encoder).fit(["same.png"]).transform(["same.png"]), 0.0)
