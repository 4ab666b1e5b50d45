from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.reproduce.datasets.made_images import COLOURS, png, write
from torch import Tensor

from condiff.bases.backbones import Backbone
from condiff.errors import InvalidFileError, InvalidInputError
from condiff.estimators.image_labels import label_images


class MeanColour(Backbone):
    """The mean colour of an image: features whose classes are known."""

    name = "mean_colour"

    def __init__(self) -> None:
        super().__init__(in_channels=3, size=8, out_features=3)

    def forward(self, x: Tensor) -> Tensor:
        return x.mean(dim=(2, 3))


@pytest.fixture(autouse=True)
def quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONDIFF_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("condiff.encoders.images.open_backbone", lambda name: MeanColour())


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    for number in range(36):
        name = ("red", "green", "blue")[number % 3]
        write(tmp_path / "photos" / f"{number % 2}" / f"{number:02d}.png", png(COLOURS[name], seed=number))
    return tmp_path / "photos"


def truth(files: tuple[str, ...]) -> list[str]:
    return [("red", "green", "blue")[int(Path(file).stem) % 3] for file in files]


def test_one_example_per_class_labels_the_folder(photos: Path, tmp_path: Path) -> None:
    labels = write(tmp_path / "l.csv", "file,label\n0/00.png,red\n1/01.png,green\n0/02.png,blue\n")
    found = label_images(photos, labels)
    assert len(found.files) == 36
    assert found.classes == ("blue", "green", "red")
    assert found.labels == truth(found.files)
    assert found.probabilities.shape == (36, 3)
    np.testing.assert_allclose(found.probabilities.sum(axis=1), 1.0, rtol=1e-6)
    np.testing.assert_array_equal(found.confidences, found.probabilities.max(axis=1))
    assert found.most_probable == found.labels
    assert {file: label for file, label in zip(found.files, found.given, strict=True) if label} == {
        "0/00.png": "red",
        "1/01.png": "green",
        "0/02.png": "blue",
    }


def test_names_and_order_of_classes_do_not_matter(photos: Path, tmp_path: Path) -> None:
    lines = ["0/00.png,{}", "1/01.png,{}", "0/02.png,{}"]
    answers = []
    for names, order in ((("a", "b", "c"), (0, 1, 2)), (("zebra", "-1", "7"), (2, 0, 1))):
        text = "\n".join(lines[position].format(names[position]) for position in order)
        found = label_images(photos, write(tmp_path / "l.csv", text))
        answers.append([names.index(label) for label in found.labels])
    assert answers[0] == answers[1]


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("0/00.png,red\n0/77.png,green\n", InvalidFileError, "line 2: '0/77.png' is not among the images"),
        ("0/00.png,red\n1/03.png,red\n", InvalidInputError, "only the label 'red'"),
        ("0/00.png,red\n../1.png,green\n", InvalidFileError, "line 2: .* leaves the folder"),
    ],
)
def test_wrong_labels_are_named(photos: Path, tmp_path: Path, text: str, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        label_images(photos, write(tmp_path / "l.csv", text))


def test_a_damaged_photograph_is_named(photos: Path, tmp_path: Path) -> None:
    write(photos / "0" / "bad.jpg", b"no image")
    labels = write(tmp_path / "l.csv", "0/00.png,red\n1/01.png,green\n")
    with pytest.raises(InvalidFileError, match=r"0/bad\.jpg is not a readable image \(cannot identify image file\)"):
        label_images(photos, labels)


def test_a_given_label_stays_where_the_model_disagrees(photos: Path, tmp_path: Path) -> None:
    reds = "".join(f"{number % 2}/{number:02d}.png,red\n" for number in (0, 3, 6, 9, 12))
    greens = "".join(f"{number % 2}/{number:02d}.png,green\n" for number in (1, 4, 7, 10, 13))
    rest = "1/15.png,green\n0/02.png,blue\n"
    found = label_images(photos, write(tmp_path / "l.csv", reds + greens + rest))
    place = found.files.index("1/15.png")
    assert (found.labels[place], found.most_probable[place]) == ("green", "red")
    assert found.confidences[place] < 0.5
