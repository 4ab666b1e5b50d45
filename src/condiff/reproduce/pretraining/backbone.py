"""Training a backbone to classify the base classes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from condiff.bases.backbones import Backbone, unit_range
from condiff.errors import InvalidInputError
from condiff.reproduce.pretraining.augmentation import Augmentation
from condiff.reproduce.pretraining.epochs import Objective, epoch_generator
from condiff.training.settings import Training


def multi_step(epochs: int, learning_rate: float = 0.1) -> Training:
    """SGD as the paper's backbones have it: momentum 0.9, weight decay 5e-4, x0.1 at half and at three quarters."""
    milestones = tuple(sorted({epochs // 2, epochs * 3 // 4} - {0}))
    return Training(
        "sgd", learning_rate, momentum=0.9, weight_decay=5e-4, epochs=epochs, milestones=milestones, patience=None
    )


class Classification(Objective[Backbone]):
    """Classify the base classes: a linear head and cross-entropy with smoothed labels, on augmented batches.

    Parameters
    ----------
    images, labels
        Bytes of shape (n, h, w, channels), which may be memory-mapped, and their classes from 0 on.
    in_features
        Width of the backbone's features.
    augmentation
        Applied to each batch.
    batch_size, label_smoothing, seed
        Batches, smoothing and seed; the last batch of an epoch may be smaller, but a single image joins the one before.
    """

    def __init__(
        self,
        images: NDArray[np.uint8],
        labels: NDArray[np.int64],
        in_features: int,
        augmentation: Augmentation,
        *,
        batch_size: int = 64,
        label_smoothing: float = 0.1,
        seed: int = 0,
    ) -> None:
        super().__init__()
        if batch_size < 2 or len(images) < 2:
            raise InvalidInputError("batch normalisation needs at least two images in a batch")
        if not 0 <= label_smoothing < 1:
            raise InvalidInputError(f"label_smoothing must be at least 0 and below 1, not {label_smoothing}")
        self.images, self.labels, self.augmentation = images, torch.from_numpy(labels), augmentation
        self.batch_size, self.label_smoothing, self.seed = batch_size, label_smoothing, seed
        self.head = nn.Linear(in_features, int(labels.max()) + 1)

    def losses(self, network: Backbone, epoch: int) -> Iterator[Tensor]:
        """Cross-entropy of each batch of a random order of the images."""
        generator = epoch_generator(self.seed, epoch)
        order = torch.randperm(len(self.images), generator=generator)
        for chosen in _batches(order, self.batch_size):
            pixels = unit_range(torch.from_numpy(self.images[chosen.numpy()]))
            inputs = network.normalise(self.augmentation(pixels, generator))
            outputs = self.head(network(inputs.contiguous(memory_format=torch.channels_last)))
            yield functional.cross_entropy(outputs, self.labels[chosen], label_smoothing=self.label_smoothing)

    def facts(self) -> dict[str, Any]:
        """The settings, without the data, which the caller describes."""
        return {
            "objective": "classification",
            "augmentation": asdict(self.augmentation),
            "batch_size": self.batch_size,
            "label_smoothing": self.label_smoothing,
            "seed": self.seed,
        }


def _batches(order: Tensor, size: int) -> Iterator[Tensor]:
    cuts = list(range(size, len(order), size))
    if cuts and len(order) - cuts[-1] == 1:
        cuts.pop()  # a batch of one image has no variance to normalise by
    yield from torch.tensor_split(order, cuts)
