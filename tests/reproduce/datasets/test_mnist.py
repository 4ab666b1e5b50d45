"""Features that an autoencoder learns without labels, and what is kept of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from condiff.reproduce.datasets import mnist
from condiff.reproduce.datasets.autoencoder import learn_features


def _stripes() -> np.ndarray:
    """Two kinds of small images: one half or the other is bright."""
    generator = np.random.default_rng(0)
    kinds = np.arange(400) % 2
    images = generator.integers(0, 60, size=(400, 16))
    images[kinds == 0, :8] += 180
    images[kinds == 1, 8:] += 180
    return images.astype(np.uint8)


def test_an_autoencoder_separates_what_differs() -> None:
    found = learn_features(_stripes(), epochs=15)
    assert found.shape == (400, mnist.N_FEATURES)
    middle = found[0::2].mean(axis=0), found[1::2].mean(axis=0)
    nearer = np.linalg.norm(found - middle[0], axis=1) < np.linalg.norm(found - middle[1], axis=1)
    assert (nearer == (np.arange(400) % 2 == 0)).mean() > 0.95
    assert np.array_equal(found, learn_features(_stripes(), epochs=15))


def test_what_is_costly_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONDIFF_CACHE", str(tmp_path))
    made = []

    def make() -> dict[str, np.ndarray]:
        made.append(1)
        return {"a": np.arange(3)}

    for _ in range(2):
        assert mnist._kept("thing", make, 1, 2)["a"].tolist() == [0, 1, 2]
    assert len(made) == 1
