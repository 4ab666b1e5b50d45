from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.reproduce.made_up import paper_runs, sweep

from condiff.errors import InvalidInputError, MissingDependencyError
from condiff.reproduce import figures
from condiff.reproduce.demo import Run
from condiff.reproduce.figures.canvas import panels, plain, save
from condiff.reproduce.summary import summarise

ROWS = summarise(paper_runs(("cora",), ("GCN", "COIN"), inits=1))
PICTURES: dict[str, tuple[Callable[..., None], Any]] = {
    "demo": (figures.accuracy_against_time, [Run("COIN", 1, 0, 0.9, time) for time in (0.0, 1.0)]),
    "strength": (figures.strength_boxplots, sweep(layers=(20,))),
    "times": (figures.time_complexity, ROWS),
    "memory": (figures.memory_bars, ROWS),
    "intervals": (figures.accuracy_intervals, ROWS),
}


@pytest.mark.parametrize("name", PICTURES)
@pytest.mark.parametrize("kind", ["png", "svg"])
def test_every_picture_is_written_whole(tmp_path: Path, name: str, kind: str) -> None:
    pytest.importorskip("matplotlib")
    draw, shown = PICTURES[name]
    draw(shown, tmp_path / "folder" / f"picture.{kind}")
    content = (tmp_path / "folder" / f"picture.{kind}").read_bytes()
    assert content.startswith(b"\x89PNG\r\n" if kind == "png" else b"<?xml")
    assert content.rstrip().endswith(b"</svg>" if kind == "svg" else b"IEND\xaeB`\x82")
    assert [path.name for path in (tmp_path / "folder").iterdir()] == [f"picture.{kind}"]


@pytest.mark.parametrize("kind", ["png", "svg", "pdf"])
def test_the_same_picture_gives_the_same_bytes(tmp_path: Path, kind: str) -> None:
    pytest.importorskip("matplotlib")
    for name in "ab":
        figure, [[axes]] = panels(1, 1, (2, 2))
        axes.plot([1, 2], [3, 4], clip_on=True)
        save(figure, tmp_path / f"{name}.{kind}")
    assert (tmp_path / f"a.{kind}").read_bytes() == (tmp_path / f"b.{kind}").read_bytes()


def test_a_picture_that_fails_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
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
    pytest.importorskip("matplotlib")
    figure, _ = panels(1, 1, (2, 2))
    with pytest.raises(InvalidInputError, match=f"png, svg, pdf file: {name}"):
        save(figure, tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_capitals_of_a_suffix_do_not_matter(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    save(panels(1, 1, (2, 2))[0], tmp_path / "picture.PDF")
    assert (tmp_path / "picture.PDF").read_bytes().startswith(b"%PDF")


def test_a_name_with_dollars_is_no_formula() -> None:
    pytest.importorskip("matplotlib")
    figure, [[axes]] = panels(1, 1, (2, 2))
    axes.set_title(plain(r"my $\nonsense{$ graph"))
    figure.draw_without_rendering()


@pytest.mark.parametrize("module", ["matplotlib", "matplotlib.figure"])
@pytest.mark.parametrize("name", PICTURES)
def test_without_matplotlib_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, name: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    if module == "matplotlib":
        monkeypatch.delitem(sys.modules, "matplotlib.figure", raising=False)
    draw, shown = PICTURES[name]
    with pytest.raises(MissingDependencyError, match=r"pip install 'condiff\[plot\]'"):
        draw(shown, tmp_path / "picture.png")
    with pytest.raises(MissingDependencyError):
        figures.require_matplotlib()
    assert list(tmp_path.iterdir()) == []
