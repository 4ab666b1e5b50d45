"""MNIST with the label draws of the graph-learning literature, as pixels or as features learned without labels."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from importlib import resources
from pathlib import Path
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import reverse_cuthill_mckee

from condiff.files import atomic_path, cache_folder
from condiff.graph import nearest
from condiff.reproduce.datasets.sources import locate

Features = Literal["pixels", "autoencoder"]
FEATURES: tuple[Features, ...] = ("pixels", "autoencoder")
#: Labels per class for which there are draws, and how many draws.
BUDGETS, DRAWS = (1, 2, 3, 4, 5), 100
#: Digits after the point of a learned feature: more than a sum in another order changes, fewer than neighbours ask for.
DIGITS = 4
#: Neighbours in the field's graph, the image itself not counted.
N_NEIGHBOURS = 10
_ENCODER, _AT_ONCE = resources.files(__package__).joinpath("mnist_encoder.npz"), 4096


@lru_cache(maxsize=1)
def images() -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The 70,000 images, (images, 784), and their digits."""
    with np.load(locate("mnist/mnist.npz"), allow_pickle=False) as archive:
        return archive["X"].reshape(len(archive["y"]), -1), archive["y"].astype(np.int64)


@lru_cache(maxsize=1)
def draws() -> dict[int, NDArray[np.int64]]:
    """For every number of labels per class, the labelled images of each draw, (draws, labels)."""
    with np.load(locate("mnist/draws.npz"), allow_pickle=False) as archive:
        return {budget: archive[f"labels_{budget}_per_class"].astype(np.int64) for budget in BUDGETS}


@lru_cache(maxsize=2)
def points(features: Features) -> NDArray[np.float32]:
    """What distances are measured on."""
    pixels = images()[0]
    return np.asarray(pixels / np.float32(255), np.float32) if features == "pixels" else encode(pixels, encoder())


@cache
def encoder() -> dict[str, NDArray[np.float16]]:
    """What the autoencoder learned, once and without labels: see :mod:`condiff.reproduce.datasets.autoencoder`."""
    with resources.as_file(_ENCODER) as path, np.load(path, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def encode(pixels: NDArray[np.uint8], weights: Mapping[str, NDArray[np.float16]]) -> NDArray[np.float32]:
    """The features of images, (images, features), the same on every processor: rounded from double precision."""
    known = {name: value.astype(np.float64) for name, value in weights.items()}
    found = []
    for first in range(0, len(pixels), _AT_ONCE):
        x = pixels[first : first + _AT_ONCE] / 255.0
        hidden = np.maximum(x @ known["hidden_weight"].T + known["hidden_bias"], 0)
        found.append(np.round(hidden @ known["mean_weight"].T + known["mean_bias"], DIGITS).astype(np.float32))
    return np.concatenate(found)


@lru_cache(maxsize=2)
def field_graph(features: Features) -> sp.csr_array:
    """The weights that the field uses: ten nearest neighbours, ``exp(-4 d^2 / d_10^2)``, made symmetric."""

    def build() -> dict[str, Any]:
        found = nearest(points(features), N_NEIGHBOURS + 1)
        distances = found.distances[:, 1:].astype(np.float64)
        values = np.exp(-4 * (distances / np.maximum(distances[:, -1:], 1e-12)) ** 2)
        starts = np.arange(0, values.size + 1, N_NEIGHBOURS)
        rows = sp.csr_array((values.ravel(), found.indices[:, 1:].ravel(), starts), shape=(len(values), len(values)))
        weights = sp.csr_array((rows + rows.T) / 2)
        return {"data": weights.data, "indices": weights.indices, "indptr": weights.indptr}

    kept = _kept(f"graph-{features}", build, features)
    n = len(kept["indptr"]) - 1
    return sp.csr_array((kept["data"], kept["indices"], kept["indptr"]), shape=(n, n))


@lru_cache(maxsize=2)
def order(features: Features) -> NDArray[np.int64]:
    """The images in an order in which neighbours in the field's graph stand close together."""
    return np.asarray(reverse_cuthill_mckee(sp.csr_matrix(field_graph(features)), symmetric_mode=True), np.int64)


def kept_modes(features: Features, make: Callable[[], dict[str, NDArray[Any]]]) -> dict[str, NDArray[Any]]:
    """The modes of the field's graph in this order, which take longer than most methods; made once."""
    return _kept(f"modes-{features}", make, features)


@cache
def fingerprint(features: Features) -> str:
    """Of the images and how they were made into points."""
    learned = hashlib.sha256(_ENCODER.read_bytes()).hexdigest() if features == "autoencoder" else ()
    content = repr((features, learned, N_NEIGHBOURS)).encode()
    return hashlib.sha256(content).hexdigest()[:16]


def _kept(name: str, make: Callable[[], dict[str, NDArray[Any]]], features: Features) -> dict[str, NDArray[Any]]:
    """Arrays of some features from the cache, made and written there where they are missing."""
    path = Path(cache_folder()) / "mnist" / f"{name}-{fingerprint(features)}.npz"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        arrays = make()
        with atomic_path(path) as temporary, temporary.open("wb") as stream:
            np.savez(stream, allow_pickle=False, **arrays)
    with np.load(path, allow_pickle=False) as archive:
        return {key: archive[key] for key in archive.files}
