"""Features of images: each image through a backbone once, kept in the cache.

A cached array's name carries a key of the weights, of how pixels are prepared, and of the images, so whatever changes
gets an array of its own.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from condiff.bases.backbones import BACKBONES, Backbone, backbone
from condiff.errors import InvalidInputError, did_you_mean
from condiff.files import atomic_path, cache_folder
from condiff.readers.images import ImageSet, Part
from condiff.reproduce.datasets.features import ClassFeatures, class_features
from condiff.reproduce.datasets.image_sets import frame_of, load_image_set
from condiff.reproduce.pretraining.checkpoints import load_backbone

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Images in a batch. A constant, because the last digits of features depend on it.
BATCH = 64
#: Images that are written to the cache at a time: whole batches, or the last digits would depend on it.
BLOCK = 16 * BATCH
Progress = Callable[[int, int], None]


def open_backbone(name: str) -> Backbone:
    """A trained backbone: ``efficientnet_lite0``, or a folder that ``condiff backbone train`` wrote."""
    if Path(name).is_dir():
        return load_backbone(Path(name))
    if name == "efficientnet_lite0":
        return backbone(name)
    if name in BACKBONES:
        raise InvalidInputError(
            f"{name} is not trained yet: train it with `condiff backbone train DATASET --backbone {name} --out FOLDER` "
            "and name that folder"
        )
    raise InvalidInputError(
        f"unknown backbone {name!r}{did_you_mean(name, BACKBONES)}: give efficientnet_lite0 or a folder that "
        "`condiff backbone train` wrote"
    )


def dataset_features(dataset: str, name: str, part: Part, *, on_batch: Progress | None = None) -> ClassFeatures:
    """Features of one part of an image set, with the mean over its base classes; both from the cache if they are there.

    Parameters
    ----------
    dataset
        As in :func:`~condiff.reproduce.datasets.image_sets.load_image_set`.
    name
        As in :func:`open_backbone`.
    part
        ``novel``, ``validation`` or ``base``.
    on_batch
        Called with the images done and all of them, for each array that is made.
    """
    frame_of(dataset)  # a misspelt name is told before anything is loaded
    network = open_backbone(name)
    base, base_features = _part_features(dataset, network, "base", on_batch)
    images, features = (base, base_features) if part == "base" else _part_features(dataset, network, part, on_batch)
    title = f"{images.name}-{network.name}-{part}"
    # In double precision: single sums over thousands of rows lose digits.
    mean = base_features.mean(axis=0, dtype=np.float64)
    return class_features(title, features, images.labels, images.classes, mean)


def embed(
    network: Backbone, crops: Callable[[slice], NDArray[np.uint8]], count: int, on_batch: Progress | None = None
) -> NDArray[np.float32]:
    """Features of ``count`` images, of which ``crops`` gives a range as bytes of shape (n, h, w, channels)."""
    return _embed_block(network, crops, range(count), count, on_batch)


def cached_features(
    network: Backbone,
    crops: Callable[[slice], NDArray[np.uint8]],
    count: int,
    *,
    name: str,
    images_key: str,
    on_batch: Progress | None = None,
) -> NDArray[np.float32]:
    """What :func:`embed` gives, from the cache if it is there.

    Parameters
    ----------
    network, crops, count, on_batch
        As there.
    name
        Begins the array's name in the cache.
    images_key
        Changes whenever what ``crops`` gives does.
    """
    key = hashlib.sha256(f"{backbone_key(network)} {images_key} {BATCH}".encode()).hexdigest()[:16]
    path = cache_folder() / "features" / f"{name}-{network.name}-{key}.npy"
    found = _read_rows(path, count, network.out_features)
    if found is not None:
        return found
    # Block by block, so that a long embedding that was stopped goes on where it was.
    folder, blocks = path.with_suffix(".blocks"), []
    for start in range(0, count, BLOCK):
        span, block_path = range(start, min(start + BLOCK, count)), folder / f"{start:08d}.npy"
        block = _read_rows(block_path, len(span), network.out_features)
        if block is None:
            block = _embed_block(network, crops, span, count, on_batch)
            _write_rows(block_path, block)
        blocks.append(block)
    rows = np.concatenate(blocks)
    _write_rows(path, rows)
    shutil.rmtree(folder, ignore_errors=True)
    return rows


def backbone_key(network: Backbone) -> str:
    """16 hexadecimal digits of a backbone's weights and of how it prepares pixels."""
    facts = [network.name, network.in_channels, network.size, network.normalisation]
    digest = hashlib.sha256(json.dumps(facts).encode())
    for name, value in network.state_dict().items():
        digest.update(f"\n{name} {value.dtype} {tuple(value.shape)}\n".encode())
        digest.update(value.contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]


def _embed_block(
    network: Backbone, crops: Callable[[slice], NDArray[np.uint8]], span: range, count: int, on_batch: Progress | None
) -> NDArray[np.float32]:
    was_training = network.training
    network.eval()
    # The layout that convolutions are fastest in on a CPU.
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    rows = []
    with torch.inference_mode():
        for start in span[::BATCH]:
            stop = min(start + BATCH, span.stop)
            images = network.prepare(torch.from_numpy(crops(slice(start, stop))))
            rows.append(network(images.contiguous(memory_format=torch.channels_last)).numpy())
            if on_batch is not None:
                on_batch(stop, count)
    network.train(was_training)
    return np.concatenate(rows)


def _read_rows(path: Path, count: int, width: int) -> NDArray[np.float32] | None:
    """An array of the cache, or None where it is not there or damaged: it is then made anew."""
    try:
        rows: NDArray[np.float32] = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    return rows if rows.shape == (count, width) and rows.dtype == np.float32 and np.isfinite(rows).all() else None


def _write_rows(path: Path, rows: NDArray[np.float32]) -> None:
    with atomic_path(path) as temporary, temporary.open("wb") as stream:
        np.save(stream, rows, allow_pickle=False)


def _part_features(
    dataset: str, network: Backbone, part: Part, on_batch: Progress | None
) -> tuple[ImageSet, NDArray[np.float32]]:
    images = load_image_set(dataset, part, size=network.size, channels=network.in_channels)
    # The stored square may serve several crops.
    key = f"{images.fingerprint} {images.frame.crop}"
    name = f"{images.name}-{part}"
    return images, cached_features(network, images.crops, len(images), name=name, images_key=key, on_batch=on_batch)
