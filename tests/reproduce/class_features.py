"""Features of classes that nobody took images of."""

from __future__ import annotations

import numpy as np

from condiff.reproduce.datasets.features import ClassFeatures, class_features


def made_up(
    name: str = "toy-resnet18-novel", classes: int = 8, images: int = 30, features: int = 16, apart: float = 1.0
) -> ClassFeatures:
    """As many images of every class, not negative."""
    generator = np.random.default_rng(3)
    centres = apart * generator.normal(size=(classes, features))
    labels = generator.permutation(np.repeat(np.arange(classes), images))
    rows = np.maximum(0.0, 1.0 + centres[labels] + generator.normal(size=(len(labels), features)))
    names = [f"class {number}" for number in range(classes)]
    return class_features(name, rows, labels, names, np.ones(features))
