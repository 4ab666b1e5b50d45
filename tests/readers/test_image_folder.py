from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reproduce.datasets.made_images import png, split_folder, write

from condiff.errors import InvalidFileError
from condiff.readers.image_folder import FRAME, check_disjoint, list_images, load_image_folder, read_labels
from condiff.readers.images import Frame, Part


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CONDIFF_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.parametrize(
    "text",
    [
        "a/1.png,x\nb.png,y\n",
        "file,label\na/1.png,x\nb.png,y\n",
        "\ufefffilename,label\r\na/1.png,x\r\n\r\nb.png,y\r\n",
        "label,size,file\nx,3,a/1.png\ny,4,b.png\n",
        "a\\1.png, x\nb.png ,y",
        "./a//1.png,x\n./b.png,y\n",
    ],
)
def test_labels_are_read_with_and_without_a_header(tmp_path: Path, text: str) -> None:
    found = read_labels(write(tmp_path / "l.csv", text))
    assert (found.files, found.labels) == (("a/1.png", "b.png"), ("x", "y"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("file,label\n", "a header and no lines"),
        ("file,class\na.png,x\n", "line 1: the column 'label' is missing"),
        ("picture,label\na.png,x\n", "line 1: the column 'file' is missing"),
        ("a.png,x\nb.png\n", "line 2: must be file,label, but has 1 cell"),
        ("file,label\na.png,x\nb.png,y,z\n", "line 3: must be file,label, but has 3 cell"),
        ("file,label,more\na.png,x\n", "line 2: must be 3 cells"),
        ("a.png,x\n,y\n", "line 2: the file is empty"),
        ("a.png,x\nb.png, \n", "line 2: the label is empty"),
        ("a.png,x\n../b.png,y\n", r"line 2: '../b.png' leaves the folder"),
        ("a/../../b.png,y\n", "line 1: .* leaves the folder"),
        ("/etc/b.png,y\n", "line 1: .* leaves the folder"),
        ("C:\\b.png,y\n", "line 1: .* leaves the folder"),
        ("a.png,x\nb.png,y\na.png,y\n", "line 3: 'a.png' is already on line 1"),
        ('a.png,"x\n', "cannot be read as CSV"),
    ],
)
def test_wrong_lines_are_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InvalidFileError, match=message) as caught:
        read_labels(write(tmp_path / "l.csv", text))
    assert "l.csv" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_and_another_encoding_are_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidFileError, match="no such file"):
        read_labels(tmp_path / "none.csv")
    with pytest.raises(InvalidFileError, match="UTF-8"):
        read_labels(write(tmp_path / "l.csv", b"a.png,\xe4\n"))


@given(labels=st.lists(st.integers(0, 300).map(str), min_size=1, max_size=30))
def test_numbers_keep_their_order_as_classes(labels: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    lines = "".join(f"{number}.png,{label}\n" for number, label in enumerate(labels))
    codes, classes = read_labels(write(tmp_path_factory.mktemp("l") / "l.csv", lines)).codes()
    assert [int(name) for name in classes] == sorted({int(label) for label in labels})
    assert [classes[code] for code in codes] == labels


def test_names_are_in_alphabetical_order(tmp_path: Path) -> None:
    codes, classes = read_labels(write(tmp_path / "l.csv", "1,b\n2,10\n3,a\n4,9\n")).codes()
    assert classes == ("10", "9", "a", "b")
    assert codes.tolist() == [3, 0, 2, 1]


def test_a_class_or_file_of_two_splits_is_refused(tmp_path: Path) -> None:
    base = read_labels(write(tmp_path / "split_train.csv", "a.png,x\nb.png,y\n"))
    novel = read_labels(write(tmp_path / "split_test.csv", "c.png,z\nd.png,y\n"))
    with pytest.raises(InvalidFileError, match=r"split_test.csv, line 2: the class 'y' is also in split_train.csv"):
        check_disjoint([base, novel])
    same = read_labels(write(tmp_path / "split_test.csv", "b.png,z\n"))
    with pytest.raises(InvalidFileError, match=r"line 1: the file 'b.png' is also in split_train.csv"):
        check_disjoint([base, same])


@pytest.mark.parametrize(
    ("part", "classes"), [("base", ("green", "red")), ("validation", ("blue", "white")), ("novel", ("black", "yellow"))]
)
def test_each_part_has_its_images_and_classes(tmp_path: Path, part: Part, classes: tuple[str, ...]) -> None:
    found = load_image_folder(split_folder(tmp_path / "colours"), part, frame=Frame(10, 8))
    assert (found.name, found.part, found.classes) == ("colours", part, classes)
    assert found.images.shape == (8, 10, 10, 3)
    assert sorted(found.labels.tolist()) == [0] * 4 + [1] * 4
    brightness = [found.images[found.labels == code].mean() for code in (0, 1)]
    if part == "novel":
        assert brightness[0] < 40 < 100 < brightness[1]


def test_the_layout_of_the_papers_code_is_understood(tmp_path: Path) -> None:
    folder = split_folder(tmp_path / "mini")
    plain = load_image_folder(folder, "novel")
    for word in ("train", "val", "test"):
        write(folder / "split" / f"{word}.csv", (folder / f"split_{word}.csv").read_text())
        (folder / f"split_{word}.csv").unlink()
    moved = load_image_folder(folder, "novel")
    assert moved.fingerprint == plain.fingerprint
    assert moved.frame == FRAME == Frame(96, 84)
    np.testing.assert_array_equal(moved.images, plain.images)


def test_a_changed_image_gets_a_new_array(tmp_path: Path) -> None:
    folder = split_folder(tmp_path / "colours")
    before = load_image_folder(folder, "novel", frame=Frame(8, 8))
    path = write(folder / "images" / "black" / "0.png", png((255, 255, 255), (24, 20)))
    os.utime(path, (1, 1))
    after = load_image_folder(folder, "novel", frame=Frame(8, 8))
    assert before.fingerprint != after.fingerprint
    assert (before.images != after.images).any(axis=(1, 2, 3)).sum() == 1


def test_a_missing_split_or_image_or_a_damaged_one_is_named(tmp_path: Path) -> None:
    folder = split_folder(tmp_path / "colours")
    write(folder / "images" / "black" / "1.png", b"nothing")
    with pytest.raises(InvalidFileError, match=r"black/1.png is not a readable image"):
        load_image_folder(folder, "novel")
    (folder / "images" / "black" / "1.png").unlink()
    with pytest.raises(InvalidFileError, match=r"split_test.csv, line 7: .*1.png is not there"):
        load_image_folder(folder, "novel")
    (folder / "split_val.csv").unlink()
    with pytest.raises(InvalidFileError, match=r"has no split_val.csv"):
        load_image_folder(folder, "base")


def test_a_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    folder = split_folder(tmp_path / "colours")
    secret = write(tmp_path / "secret.png", png())
    path = folder / "images" / "black" / "2.png"
    path.unlink()
    path.symlink_to(secret)
    with pytest.raises(InvalidFileError, match="is a link that leaves"):
        load_image_folder(folder, "novel")


def test_images_are_listed_at_any_depth(tmp_path: Path) -> None:
    for name in ("b.JPG", "a/c.png", "a/.hidden.png", ".git/d.png", "notes.txt"):
        write(tmp_path / "photos" / name, b"x")
    assert list_images(tmp_path / "photos") == ["a/c.png", "b.JPG"]
    with pytest.raises(InvalidFileError, match="has no images"):
        list_images(write(tmp_path / "texts" / "x.txt", b"").parent)
    with pytest.raises(InvalidFileError, match="not a folder"):
        list_images(tmp_path / "none")
