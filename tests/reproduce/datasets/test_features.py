from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from condiff.errors import InvalidFileError, InvalidInputError
from condiff.reproduce.datasets.features import ClassFeatures, class_features, load_features, save_features

PARTS: dict[str, Any] = {
    "name": "birds-conv4-novel",
    "features": np.arange(12, dtype=np.float64).reshape(4, 3),
    "labels": np.array([1, 0, 1, 0]),
    "classes": ["wren", "grüner Fink"],
    "base_mean": np.array([1.0, 2.0, 3.0]),
}


def made(**changes: Any) -> ClassFeatures:
    return class_features(**(PARTS | changes))


def test_features_come_back_as_they_were(tmp_path: Path) -> None:
    save_features(tmp_path / "f.npz", made())
    found = load_features(tmp_path / "f.npz")
    assert (found.name, found.classes, found.fingerprint) == (made().name, made().classes, made().fingerprint)
    for part in ("features", "labels", "base_mean"):
        np.testing.assert_array_equal(getattr(found, part), PARTS[part])
    assert (found.features.dtype, found.labels.dtype, found.base_mean.dtype) == (np.float32, np.int64, np.float32)


def test_the_same_features_are_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a.npz", "b.npz"):
        save_features(tmp_path / name, made())
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "birds-conv4-base"},
        {"features": PARTS["features"] + 1},
        {"labels": np.array([0, 1, 0, 1])},
        {"classes": ["wren", "finch"]},
        {"base_mean": np.zeros(3)},
    ],
)
def test_the_fingerprint_depends_on_every_part(changes: dict[str, Any]) -> None:
    assert len(made().fingerprint) == 16
    assert made(**changes).fingerprint != made().fingerprint


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"features": np.zeros(4)}, "a row for each image"),
        ({"features": np.full((4, 3), np.nan)}, "NaN"),
        ({"base_mean": np.zeros(2)}, "base_mean must have 3 entries"),
        ({"labels": np.array([0, 1])}, "4 whole numbers"),
        ({"labels": np.array([0.0, 1.0, 0.0, 1.0])}, "whole numbers"),
        ({"labels": np.array([0, 1, 2, 1])}, "each of the 2 classes"),
        ({"labels": np.zeros(4, dtype=int)}, "each of the 2 classes"),
        ({"classes": ["wren", "wren"]}, "same name"),
    ],
)
def test_parts_that_do_not_fit_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        made(**changes)


def test_a_file_that_is_not_there_or_cut_or_foreign_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "f.npz"
    with pytest.raises(InvalidFileError, match="no such file"):
        load_features(path)
    save_features(path, made())
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(InvalidFileError, match="cut off"):
        load_features(path)
    np.savez(path, features=np.zeros((2, 2)))
    with pytest.raises(InvalidFileError, match="labels, classes, base_mean, fingerprint missing"):
        load_features(path)
    np.save(tmp_path / "plain.npy", np.zeros(3))
    with pytest.raises(InvalidFileError, match=r"not an \.npz file"):
        load_features(tmp_path / "plain.npy")


def test_changed_numbers_are_noticed(tmp_path: Path) -> None:
    path = tmp_path / "f.npz"
    save_features(path, made())
    with np.load(path) as archive:
        arrays = dict(archive)
    arrays["features"][0, 0] += 1
    np.savez(path, **arrays)
    with pytest.raises(InvalidFileError, match="changed after it was written"):
        load_features(path)


def test_pickles_are_never_opened(tmp_path: Path) -> None:
    path = tmp_path / "f.npz"
    save_features(path, made())
    with np.load(path) as archive:
        arrays = dict(archive)
    arrays["labels"] = np.array([{}, 1, 0, 1], dtype=object)
    np.savez(path, **arrays)
    with pytest.raises(InvalidFileError, match="never loaded"):
        load_features(path)
