from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from condiff.errors import InvalidInputError
from condiff.pages.canvas import COLOURS, class_colours, hint, panels, plain, save, svg


@pytest.mark.parametrize("kind", ["png", "svg", "pdf"])
def test_the_same_picture_gives_the_same_bytes(tmp_path: Path, kind: str) -> None:
    for name in "ab":
        figure, [[axes]] = panels(1, 1, (2, 2))
        axes.plot([1, 2], [3, 4], clip_on=True)
        save(figure, tmp_path / "folder" / f"{name}.{kind}")
    one, two = (path.read_bytes() for path in sorted((tmp_path / "folder").iterdir()))
    assert one == two
    assert one.startswith({"png": b"\x89PNG\r\n", "svg": b"<?xml", "pdf": b"%PDF"}[kind])


def test_a_picture_that_fails_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "picture.png").write_bytes(b"old")
    figure, _ = panels(1, 1, (2, 2))

    def fail(path: Path, **_: Any) -> None:
        Path(path).write_bytes(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(figure, "savefig", fail)
    with pytest.raises(OSError, match="disk full"):
        save(figure, tmp_path / "picture.png")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"old"]


@pytest.mark.parametrize("name", ["picture.gif", "picture", "picture.txt"])
def test_other_kinds_of_file_are_refused(tmp_path: Path, name: str) -> None:
    figure, _ = panels(1, 1, (2, 2))
    with pytest.raises(InvalidInputError, match=f"png, svg, pdf file: {name}"):
        save(figure, tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_capitals_of_a_suffix_do_not_matter(tmp_path: Path) -> None:
    save(panels(1, 1, (2, 2))[0], tmp_path / "picture.PDF")
    assert (tmp_path / "picture.PDF").read_bytes().startswith(b"%PDF")


def test_a_name_with_dollars_is_no_formula() -> None:
    figure, [[axes]] = panels(1, 1, (2, 2))
    axes.set_title(plain(r"my $\nonsense{$ graph"))
    figure.draw_without_rendering()


def drawn(title: str = "A <title>", about: str = "What & why") -> str:
    figure, [[axes]] = panels(1, 1, (4, 3))
    axes.set_xlabel("time & <money>", color="0.35")
    hint(axes.plot([0, 1], [1, 2], "o-", color=COLOURS[0]), "a <hint>")
    axes.plot([0, 1], [2, 1], color="#3a72d8")
    return svg(figure, title, about)


def test_a_picture_in_a_page_is_described_and_its_text_is_text() -> None:
    image = ElementTree.fromstring(drawn())
    space = "{http://www.w3.org/2000/svg}"
    assert image.attrib["role"] == "img"
    assert image.attrib["aria-label"] == "A <title>"
    [about] = image.findall(f"{space}desc")
    assert (about.text, about.attrib["id"]) == ("What & why", image.attrib["aria-describedby"])
    assert "time & <money>" in [text.text for text in image.iter(f"{space}text")]
    assert [title.text for title in image.iter(f"{space}title")] == ["a <hint>"]
    assert not list(image.iter(f"{space}style")) and not list(image.iter(f"{space}metadata"))


def test_its_colours_are_the_page_s() -> None:
    image = drawn()
    assert "var(--series-0)" in image and COLOURS[0].lower() not in image
    assert "#3a72d8" in image  # the colour of a class, the same on every ground
    greys = [found for found in re.findall("#([0-9a-f]{6})", image) if len({found[:2], found[2:4], found[4:]}) == 1]
    assert greys == []
    assert "color-mix(in srgb, var(--ink) 65%, var(--panel))" in image


def test_ids_are_those_that_are_referred_to_and_differ_between_pictures() -> None:
    one, same, other = drawn(), drawn(), drawn(about="Another")
    assert one == same
    ids = [set(re.findall(r'\bid="([^"]+)"', image)) for image in (one, other)]
    for image, own in zip((one, other), ids, strict=True):
        used = set(re.findall(r'(?:href="#|url\(#)([^")]+)', image))
        assert used | {next(iter(own)).split("-")[0] + "-about"} == own
    assert not ids[0] & ids[1]


def test_colours_of_classes_are_all_different() -> None:
    assert len(set(class_colours(20))) == 20
    assert class_colours(3) == class_colours(20)[:3]
    assert all(re.fullmatch("#[0-9a-f]{6}", colour) for colour in class_colours(30))
