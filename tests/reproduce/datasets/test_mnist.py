"""Features that an autoencoder learns without labels, and what is kept of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from condiff.reproduce.datasets import mnist
from condiff.reproduce.datasets.autoencoder import N_FEATURES, learn_encoder


def _stripes() -> np.ndarray:
    """Two kinds of small images: one half or the other is bright."""
    generator = np.random.default_rng(0)
    kinds = np.arange(400) % 2
    images = generator.integers(0, 60, size=(400, 16))
    images[kinds == 0, :8] += 180
    images[kinds == 1, 8:] += 180
    return images.astype(np.uint8)


def test_an_autoencoder_separates_what_differs() -> None:
    found = mnist.encode(_stripes(), learn_encoder(_stripes(), epochs=15))
    assert found.shape == (400, N_FEATURES)
    middle = found[0::2].mean(axis=0), found[1::2].mean(axis=0)
    nearer = np.linalg.norm(found - middle[0], axis=1) < np.linalg.norm(found - middle[1], axis=1)
    assert (nearer == (np.arange(400) % 2 == 0)).mean() > 0.95
    assert np.array_equal(found, mnist.encode(_stripes(), learn_encoder(_stripes(), epochs=15)))


def test_features_do_not_depend_on_how_many_images_are_encoded_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, size=(60, 784)).astype(np.uint8)
    whole = mnist.encode(pixels, mnist.encoder())
    assert whole.shape == (60, N_FEATURES)
    monkeypatch.setattr(mnist, "_AT_ONCE", 7)
    np.testing.assert_array_equal(mnist.encode(pixels, mnist.encoder()), whole)


def test_learned_features_tell_digits_apart(data_root: Path) -> None:
    """The nearest of 2,000 images: by pixels it is of the same digit in 92 of 100 cases."""
    (pixels, digits), some = mnist.images(), slice(0, 3000)
    found = mnist.encode(pixels[some], mnist.encoder())
    nearest = ((found[2000:, None] - found[None, :2000]) ** 2).sum(axis=-1).argmin(axis=1)
    assert (digits[:2000][nearest] == digits[2000:3000]).mean() > 0.9


def test_what_is_costly_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONDIFF_CACHE", str(tmp_path))
    made = []

    def make() -> dict[str, np.ndarray]:
        made.append(1)
        return {"a": np.arange(3)}

    for _ in range(2):
        assert mnist._kept("thing", make, "pixels")["a"].tolist() == [0, 1, 2]
    assert len(made) == 1
