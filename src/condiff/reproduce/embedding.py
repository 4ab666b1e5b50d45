"""Features of the images of a set, with the mean over its base classes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from condiff.bases.backbones import Backbone
from condiff.encoders.embedding import Progress
from condiff.encoders.images import cached_features, open_backbone
from condiff.readers.images import ImageSet, Part
from condiff.reproduce.datasets.features import ClassFeatures, class_features
from condiff.reproduce.datasets.image_sets import frame_of, load_image_set

if TYPE_CHECKING:
    from numpy.typing import NDArray


def dataset_features(dataset: str, name: str, part: Part, *, on_batch: Progress | None = None) -> ClassFeatures:
    """Features of one part of an image set, with the mean over its base classes; both from the cache if they are there.

    Parameters
    ----------
    dataset
        As in :func:`~condiff.reproduce.datasets.image_sets.load_image_set`.
    name
        As in :func:`~condiff.encoders.images.open_backbone`.
    part
        ``novel``, ``validation`` or ``base``.
    on_batch
        Called with the images done and all of them, for each array that is made.
    """
    frame_of(dataset)  # a misspelt name is reported before anything is loaded
    network = open_backbone(name)
    base, base_features = _part_features(dataset, network, "base", on_batch)
    images, features = (base, base_features) if part == "base" else _part_features(dataset, network, part, on_batch)
    title = f"{images.name}-{network.name}-{part}"
    # In double precision: single sums over thousands of rows lose digits.
    mean = base_features.mean(axis=0, dtype=np.float64)
    return class_features(
        title, features, images.labels, images.classes, mean, dataset=images.name, backbone=network.name
    )


def _part_features(
    dataset: str, network: Backbone, part: Part, on_batch: Progress | None
) -> tuple[ImageSet, NDArray[np.float32]]:
    images = load_image_set(dataset, part, size=network.size, channels=network.in_channels)
    # The stored square may serve several crops.
    key = f"{images.fingerprint} {images.frame.crop}"
    name = f"{images.name}-{part}"
    return images, cached_features(network, images.crops, len(images), name=name, images_key=key, on_batch=on_batch)
