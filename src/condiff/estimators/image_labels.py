"""Labels for a folder of images from a few labelled ones."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from condiff.encoders.embedding import Progress
from condiff.errors import InvalidFileError, InvalidInputError
from condiff.readers.image_folder import Labelled, list_images, read_labels


@dataclass(frozen=True, eq=False)
class ImageLabels:
    """The answers for the images of a folder.

    Attributes
    ----------
    files
        Relative to the folder, sorted.
    classes
        The different labels.
    probabilities
        One row per image, one column per class.
    given
        The label that each file came with, or None.
    """

    files: tuple[str, ...]
    classes: tuple[str, ...]
    probabilities: NDArray[np.float64]
    given: tuple[str | None, ...]

    @property
    def most_probable(self) -> list[str]:
        """The model's answer for each image, labelled or not."""
        return [self.classes[code] for code in self.probabilities.argmax(axis=1)]

    @property
    def labels(self) -> list[str]:
        """The label of each image: the given one, or the most probable class."""
        return [given or said for given, said in zip(self.given, self.most_probable, strict=True)]

    @property
    def confidences(self) -> NDArray[np.float64]:
        """The probability of that label."""
        code = [self.classes.index(label) for label in self.labels]
        confidences: NDArray[np.float64] = self.probabilities[np.arange(len(code)), code]
        return confidences


def label_images(
    folder: Path | str,
    labels: Path | str,
    *,
    backbone: str = "efficientnet_lite0",
    seed: int = 0,
    on_batch: Progress | None = None,
) -> ImageLabels:
    """Label every image of a folder from a CSV file that labels a few.

    Images become features by a backbone; features are centred by their mean over the folder and normalised; COIN is
    fitted on all of them, with the given labels.

    Parameters
    ----------
    folder
        Images, at any depth.
    labels
        ``file,label`` lines, files relative to the folder.
    backbone
        ``efficientnet_lite0``, or a folder that ``condiff backbone train`` wrote.
    seed
        Of the initialisations.
    on_batch
        Called with the images done and all of them.
    """
    folder = Path(folder)
    files = list_images(folder)
    known = read_labels(labels)
    codes, classes = known.codes()
    if len(classes) < 2:
        raise InvalidInputError(f"{known.path} has only the label {classes[0]!r}: give images of at least two classes")
    targets = np.full(len(files), -1, dtype=np.int64)
    targets[_positions(files, known, folder)] = codes

    from condiff.encoders.images import ImageEncoder
    from condiff.estimators.classifier import COINClassifier

    features = ImageEncoder(folder, backbone, on_batch).fit_transform(files)
    model = COINClassifier(base="residual", scaling="none", label_noise=True, random_state=seed).fit(features, targets)
    given = tuple(None if code < 0 else classes[code] for code in targets)
    return ImageLabels(tuple(files), classes, model.predict_proba(features), given)


def _positions(files: list[str], known: Labelled, folder: Path) -> list[int]:
    place = {file: position for position, file in enumerate(files)}
    for file, line in zip(known.files, known.lines, strict=True):
        if file not in place:
            raise InvalidFileError(f"{known.path}, line {line}: {file!r} is not among the images of {folder}")
    return [place[file] for file in known.files]
