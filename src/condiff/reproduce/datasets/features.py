"""Features of the images of some classes, from which few-shot episodes are drawn: one NPZ file without pickles."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from condiff.errors import InvalidFileError, InvalidInputError
from condiff.files import atomic_path, refusing
from condiff.readers.arrays import NpzArrays
from condiff.reproduce.migration import split_features_name

if TYPE_CHECKING:
    from numpy.typing import NDArray

_KEYS = ("name", "features", "labels", "classes", "base_mean", "fingerprint")
# Files of earlier versions have these in the name alone.
_SOURCE = ("dataset", "backbone")


@dataclass(frozen=True, eq=False)
class ClassFeatures:
    """Features of the images of one data set's novel, or validation, classes.

    Made by :func:`class_features`, which checks the parts and computes the fingerprint.

    Attributes
    ----------
    name
        Data set, backbone and part, such as ``cub-efficientnet_lite0-novel``, for messages and files.
    features
        One row per image, as the backbone gives them: neither centred nor normalised, shape (n, d).
    labels
        The class of each image, from 0 on, shape (n,).
    classes
        The names of the classes.
    base_mean
        The mean over all images of the base classes, for centring, shape (d,).
    fingerprint
        16 hexadecimal digits of all of the above.
    dataset, backbone
        The images, and what embedded them; an empty backbone where it is not known.
    """

    name: str
    features: NDArray[np.float32]
    labels: NDArray[np.int64]
    classes: tuple[str, ...]
    base_mean: NDArray[np.float32]
    fingerprint: str
    dataset: str
    backbone: str | None


def class_features(
    name: str,
    features: NDArray[Any],
    labels: NDArray[Any],
    classes: Sequence[str],
    base_mean: NDArray[Any],
    *,
    dataset: str | None = None,
    backbone: str | None = None,
) -> ClassFeatures:
    """Check the parts of a :class:`ClassFeatures`, convert and combine them.

    Without a ``dataset``, it and the backbone are taken from a name such as ``cub-resnet18-novel``.

    Raises
    ------
    InvalidInputError
        Shapes that do not fit, labels without a class, a class without images, NaN or infinite entries.
    """
    rows = np.ascontiguousarray(features, dtype=np.float32)
    mean = np.ascontiguousarray(base_mean, dtype=np.float32)
    if rows.ndim != 2 or rows.size == 0:
        raise InvalidInputError(f"features must be a table with a row for each image, not of the shape {rows.shape}")
    if mean.shape != rows.shape[1:]:
        raise InvalidInputError(
            f"base_mean must have {rows.shape[1]} entries like the features, not shape {mean.shape}"
        )
    for part, values in (("features", rows), ("base_mean", mean)):
        if not np.isfinite(values).all():
            raise InvalidInputError(f"{part} have NaN or infinite entries: embed the images again")
    if np.asarray(labels).dtype.kind not in "iu" or np.shape(labels) != rows.shape[:1]:
        raise InvalidInputError(f"labels must be {len(rows)} whole numbers, one for each image")
    codes = np.ascontiguousarray(labels, dtype=np.int64)
    names = tuple(str(label) for label in classes)
    if len(set(names)) != len(names):
        raise InvalidInputError("two classes have the same name")
    if not np.array_equal(np.unique(codes), np.arange(len(names))):
        raise InvalidInputError(f"labels must be 0 .. {len(names) - 1}, each of the {len(names)} classes at least once")
    if dataset is None:
        dataset, backbone = split_features_name(name)
    fingerprint = _fingerprint(name, rows, codes, names, mean)
    return ClassFeatures(name, rows, codes, names, mean, fingerprint, dataset, backbone)


def save_features(path: Path | str, features: ClassFeatures) -> None:
    """Write features to an NPZ file, whole or not at all."""
    arrays: dict[str, Any] = {key: np.asarray(getattr(features, key)) for key in _KEYS if key != "classes"}
    arrays |= {key: np.asarray(getattr(features, key) or "") for key in _SOURCE}
    # An array of texts drops what follows a zero character, so the names travel as UTF-8.
    arrays["classes"] = np.frombuffer("\n".join(features.classes).encode(), dtype=np.uint8)
    with atomic_path(Path(path)) as temporary, temporary.open("wb") as stream:
        np.savez(stream, **arrays)


def load_features(path: Path | str) -> ClassFeatures:
    """Read features that :func:`save_features` wrote; a changed, truncated or foreign file is refused."""
    path = Path(path)
    again = "embed the images again with `condiff backbone embed`"
    if not path.is_file():
        raise InvalidFileError(f"{path}: no such file; {again}")
    if not zipfile.is_zipfile(path):
        raise InvalidFileError(f"{path} is not an .npz file, or is cut off; {again}")
    with NpzArrays(path, again) as archive, refusing(path, "a file of features", again):
        missing = [key for key in _KEYS if key not in archive]
        if missing:
            raise InvalidFileError(f"{path} holds no features of images ({', '.join(missing)} missing); {again}")
        parts = {key: archive[key] for key in _KEYS}
        source = {key: str(archive[key]) or None for key in _SOURCE if key in archive}
        names = parts["classes"].tobytes().decode().split("\n")
        found = class_features(
            str(parts["name"]), parts["features"], parts["labels"], names, parts["base_mean"], **source
        )
    if found.fingerprint != str(parts["fingerprint"]):
        raise InvalidFileError(f"{path} was changed after it was written; {again}")
    return found


def _fingerprint(name: str, *parts: NDArray[Any] | tuple[str, ...]) -> str:
    digest = hashlib.sha256(name.encode())
    for part in parts:
        values = part if isinstance(part, np.ndarray) else np.frombuffer("\n".join(part).encode(), dtype=np.uint8)
        digest.update(f"\n{values.dtype.str}{values.shape}\n".encode())
        digest.update(values.tobytes())
    return digest.hexdigest()[:16]
