"""Backbones trained on the base classes of an image set, the best epoch kept by its validation classes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from condiff.bases.backbones import BACKBONES, Backbone, backbone
from condiff.bases.backbones.checkpoints import Record, describe
from condiff.encoders.images import embed
from condiff.errors import InvalidInputError
from condiff.reproduce.datasets.image_sets import frame_of, load_image_set
from condiff.reproduce.pretraining.augmentation import Augmentation
from condiff.reproduce.pretraining.backbone import Classification, multi_step
from condiff.reproduce.pretraining.epochs import Schedule, fit_in_epochs
from condiff.reproduce.pretraining.prototypes import prototype_accuracy


@dataclass(frozen=True)
class Recipe:
    """What differs between kinds of images.

    Attributes
    ----------
    scale, ratio, flip, jitter
        As in :class:`~condiff.reproduce.pretraining.augmentation.Augmentation`.
    ways
        Classes in a validation task, or all validation classes if they are fewer.
    """

    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    flip: bool = True
    jitter: float = 0.4
    ways: int = 5


PHOTOGRAPHS = Recipe()
#: A mirrored character is another one, most of one is needed to recognise it, and 5 ways are nearly always right.
CHARACTERS = Recipe(scale=(0.7, 1.0), ratio=(0.8, 1.25), flip=False, jitter=0.0, ways=20)


def train_backbone(
    dataset: str,
    name: str,
    folder: Path,
    *,
    epochs: int = 100,
    size: int | None = None,
    batch_size: int = 64,
    learning_rate: float | None = None,
    label_smoothing: float = 0.1,
    validate_every: int = 1,
    validation_tasks: int = 500,
    seed: int = 0,
    on_batch: Callable[[int, int], None] | None = None,
    on_step: Callable[[int, int, float], None] | None = None,
    on_epoch: Callable[[dict[str, Any]], None] | None = None,
) -> Record:
    """Train a backbone on an image set's base classes, or resume a training that was stopped.

    Parameters
    ----------
    dataset
        As in :func:`~condiff.reproduce.datasets.image_sets.load_image_set`.
    name
        ``conv4``, ``resnet18`` or ``wrn28_10``.
    folder
        Where the checkpoints go.
    epochs, batch_size, learning_rate, label_smoothing, seed
        Of the training: SGD with momentum 0.9 and weight decay 5e-4, x0.1 at half and three quarters of the epochs. The
        learning rate is 0.1 by default, but 0.03 for more than a thousand features (Conv-4 at 84 x 84).
    size
        Side of the images in pixels, by default the set's own.
    validate_every, validation_tasks
        Epochs between measurements, and 1-shot tasks of each: the accuracy of the nearest prototype on validation
        classes.
    on_batch
        Called with the images done and all of them while images are decoded for the first time.
    on_step, on_epoch
        Called with the epoch, its steps so far and the last loss; and with each epoch's figures.
    """
    if name not in BACKBONES or name == "efficientnet_lite0":
        known = ", ".join(kind for kind in BACKBONES if kind != "efficientnet_lite0")
        raise InvalidInputError(f"the backbone to train must be one of {known}, not {name!r}")
    recipe = CHARACTERS if dataset == "omniglot" else PHOTOGRAPHS
    frame = frame_of(dataset, size)
    base = load_image_set(dataset, "base", size=size, on_batch=on_batch)
    held_out = load_image_set(dataset, "validation", size=size, on_batch=on_batch)
    augmentation = Augmentation(frame.crop, recipe.scale, recipe.ratio, recipe.flip, recipe.jitter)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = backbone(name, in_channels=frame.shape[2], size=frame.crop)
        objective = Classification(
            base.images,
            base.labels,
            network.out_features,
            augmentation,
            batch_size=batch_size,
            label_smoothing=label_smoothing,
            seed=seed,
        )

    ways = min(recipe.ways, len(held_out.classes))

    def validate(trained: Backbone) -> float:
        features = embed(trained, held_out.crops, len(held_out))
        if (features == features[0]).all():
            raise InvalidInputError(
                "the network died: all validation images have the same features; lower the learning rate"
            )
        return prototype_accuracy(features, held_out.labels, ways=ways, tasks=validation_tasks, seed=seed)

    data = {
        "dataset": base.name,
        "base": base.fingerprint,
        "validation": held_out.fingerprint,
        "validation_ways": ways,
        "validation_tasks": validation_tasks,
    }
    rate = _rate_for(network) if learning_rate is None else learning_rate
    schedule = Schedule(multi_step(epochs, rate), validate_every)
    described = describe(network)
    return fit_in_epochs(
        network, described, objective, validate, schedule, folder, data=data, on_step=on_step, on_epoch=on_epoch
    )


def _rate_for(network: Backbone) -> float:
    """Steps of the linear head grow with its number of inputs: at 0.1, 1,600 of them kill all units at once."""
    return 0.03 if network.out_features > 1000 else 0.1
