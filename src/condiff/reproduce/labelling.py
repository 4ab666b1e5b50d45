"""Labels for a folder of images from a few labelled ones."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from condiff.errors import InvalidFileError, InvalidInputError
from condiff.estimators import COINClassifier
from condiff.readers.image_folder import Labelled, folder_images, list_images, read_labels
from condiff.readers.images import Frame
from condiff.reproduce.embedding import Progress, cached_features, open_backbone


@dataclass(frozen=True, eq=False)
class ImageLabels:
    """What was found for each image of a folder.

    Attributes
    ----------
    files
        Relative to the folder, sorted.
    classes
        The labels that there are.
    probabilities
        One row an image, one column a class.
    given
        The label that each file came with, or None.
    """

    files: tuple[str, ...]
    classes: tuple[str, ...]
    probabilities: NDArray[np.float64]
    given: tuple[str | None, ...]

    @property
    def labels(self) -> list[str]:
        """The most probable class of each image; for labelled ones too, so that a wrong label may show."""
        return [self.classes[code] for code in self.probabilities.argmax(axis=1)]

    @property
    def confidences(self) -> NDArray[np.float64]:
        """The probability of that class."""
        best: NDArray[np.float64] = self.probabilities.max(axis=1)
        return best


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
    fitted on all of them, with the labels that there are.

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
    network = open_backbone(backbone)
    grey = network.in_channels == 1
    # Characters are drawn dark on light; a backbone of grey images was trained on light ones on dark.
    frame = Frame(network.size, network.size, grey=grey, invert=grey)
    squares, key = folder_images(name="folder", folder=folder, files=files, frame=frame, on_batch=None)
    features = cached_features(
        network,
        lambda part: np.array(squares[part]),
        len(files),
        name="folder",
        images_key=key,
        on_batch=on_batch,
    )
    model = COINClassifier(scaling="none", random_state=seed).fit(on_sphere(features), targets)
    given = tuple(None if code < 0 else classes[code] for code in targets)
    return ImageLabels(tuple(files), classes, model.predict_proba(on_sphere(features)), given)


def on_sphere(features: NDArray[np.float32]) -> NDArray[np.float64]:
    """Features less their mean, each row of length one (rows of zeros stay)."""
    centred = features - features.mean(axis=0, dtype=np.float64)
    length = np.linalg.norm(centred, axis=1, keepdims=True)
    unit: NDArray[np.float64] = centred / np.where(length > 0, length, 1.0)
    return unit


def _positions(files: list[str], known: Labelled, folder: Path) -> list[int]:
    place = {file: position for position, file in enumerate(files)}
    for file, line in zip(known.files, known.lines, strict=True):
        if file not in place:
            raise InvalidFileError(f"{known.path}, line {line}: {file!r} is not among the images of {folder}")
    return [place[file] for file in known.files]
