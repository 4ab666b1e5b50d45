"""A session: what is asked, what is kept, what the model makes of it, and the table that comes out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.labelling.conftest import TRUTH, Start, write_table

from condiff.errors import InvalidInputError
from condiff.labelling.journal import Journal
from condiff.labelling.rows import Rows
from condiff.labelling.session import Conflict, Session
from condiff.readers.tables import read_table


def label_some(session: Session, number: int, who: str = "me") -> list[int]:
    rows = []
    for _ in range(number):
        row = session.next_row(who)
        assert row is not None
        session.act(who, row, session.card(row)["seen"], "label", TRUTH[row])
        session.settle()
        rows.append(row)
    return rows


def test_from_no_label_to_right_answers(start: Start) -> None:
    session = start()
    assert session.state()["score"] is None
    rows = label_some(session, 10)
    assert len(set(rows)) == 10
    assert {TRUTH[row] for row in rows[:3]} == set(TRUTH)  # every cluster at once
    answers = session.fitted.answers
    assert answers is not None
    said = np.array(session.fitted.classes)[answers.chances.argmax(axis=1)][session.learner.node_of_row]
    assert (said == TRUTH).mean() > 0.9
    state = session.state()
    counts = [[name, sum(TRUTH[row] == name for row in rows)] for name in session.classes]
    assert (state["labelled"], state["classes"]) == (10, counts)
    assert state["gain"] is None or state["gain"] >= 0
    # Every fifth question is drawn at random, and the score is over those.
    assert sum(each.drawn for each in session.journal.decisions) == 2


def test_it_goes_on_where_it_stopped(start: Start, tmp_path: Path) -> None:
    first = start()
    rows = label_some(first, 6)
    first.act("me", 80 if 80 not in rows else 81, 0, "unsure")
    again = start()
    assert again.labels == first.labels
    assert again.state()["unsure"] == 1
    assert again.next_row("me") not in {*rows, 80, 81}
    # Labels may have gone into the table meanwhile: only its other cells must be the same.
    assert again.rows.export(tmp_path / "trees.csv", again.journal) == 6
    rows_now = Rows.of(read_table(tmp_path / "trees.csv"), "kind")
    assert [row for row, label in enumerate(rows_now.given) if label] == sorted(rows)


def test_two_browsers_get_different_rows_and_never_overwrite_each_other(start: Start) -> None:
    session = start()
    mine, yours = session.next_row("me"), session.next_row("you")
    assert mine is not None and yours is not None and mine != yours
    assert session.next_row("me") == mine  # until something is said of it
    session.act("you", mine, 0, "label", "ash")
    with pytest.raises(Conflict, match=rf"row {mine + 1} was decided on elsewhere meanwhile \(ash\)"):
        session.act("me", mine, 0, "label", "oak")
    assert session.labels[mine] == "ash"
    assert session.next_row("me") != mine
    assert session.undo("me") is None
    undone = session.undo("you")
    assert undone is not None and undone.row == mine and mine not in session.labels
    assert session.next_row("you") == mine


def test_skip_not_sure_and_none_of_these_are_not_asked_again(start: Start) -> None:
    session = start({row: TRUTH[row] for row in range(84)})
    for kind in ("skip", "unsure", "none"):
        row = session.next_row("me")
        assert row is not None
        session.act("me", row, 0, kind)  # type: ignore[arg-type]
        session.settle()
    state = session.state()
    assert (state["skipped"], state["unsure"], state["none"], state["given"]) == (1, 1, 1, 84)
    assert len(label_some(session, 3)) == 3
    skipped = session.next_row("me")
    assert skipped is not None and session.journal.last[skipped].kind == "skip"  # what is left at the very end


def test_planted_errors_are_listed(start: Start) -> None:
    labels = {row: TRUTH[row] for row in range(0, 60)}
    labels[7], labels[30] = "oak", "elm"
    found = start(labels).issues()
    assert {each["row"] for each in found[:2]} == {7, 30}
    assert all(each["answer"] == TRUTH[each["row"]] for each in found[:2])


def test_the_table_comes_out_in_its_own_order_and_dialect(start: Start, tmp_path: Path) -> None:
    session = start({0: "ash", 3: "ash", 4: "elm"})
    session.act("me", 1, 0, "label", "bouleau à papier")
    session.act("me", 3, 0, "label", "oak; or not")
    session.act("me", 5, 0, "none")
    session.act("me", 6, 0, "label", "elm")
    session.undo("me")
    assert session.export(tmp_path / "out.csv") == 4
    before = (tmp_path / "trees.csv").read_bytes().decode("utf-8-sig").split("\r\n")
    content = (tmp_path / "out.csv").read_bytes()
    assert content.startswith(b"\xef\xbb\xbf")
    after = content.decode("utf-8-sig").split("\r\n")
    assert len(after) == len(before) == 92
    assert after[0] == "x;note;kind;y;kind_time;kind_before;kind_note"
    assert after[1] == before[1] + ";;;"
    assert after[7] == before[7] + ";;;"
    time = session.journal.last[1].time
    assert after[2] == before[2].replace(";;", ";bouleau à papier;") + f";{time};;"
    assert after[4].endswith(f";{session.journal.last[3].time};ash;")
    assert '"oak; or not"' in after[4]
    assert after[6].endswith(";;none of these")
    again = Rows.of(read_table(tmp_path / "out.csv"), "kind")
    assert (again.given[1], again.given[3], again.given[5]) == ("bouleau à papier", "oak; or not", "")
    # What an export says beside the labels is neither shown nor written twice, and stands until it is changed.
    assert [name for name, _ in again.look(3)["cells"]] == ["x", "note", "y"]
    journal = Journal(tmp_path / "again", again.about, len(again))
    journal.write(1, "label", "oak", "me")
    assert again.export(tmp_path / "twice.csv", journal) == 4
    twice = (tmp_path / "twice.csv").read_bytes().decode("utf-8-sig").split("\r\n")
    assert [*twice[:2], *twice[3:]] == [*after[:2], *after[3:]]
    assert twice[2].endswith(f";{journal.last[1].time};bouleau à papier;")
    journal.close()


def test_a_column_of_ones_own_is_never_written_over(tmp_path: Path) -> None:
    (tmp_path / "trees.csv").write_text("x,kind_note,kind\n1,old,\n2,tall,\n")
    rows = Rows.of(read_table(tmp_path / "trees.csv"), "kind")
    journal = Journal(tmp_path / "journal", rows.about, len(rows))
    journal.write(0, "unsure", "", "me")
    rows.export(tmp_path / "out.csv", journal)
    journal.close()
    lines = (tmp_path / "out.csv").read_text().splitlines()
    assert lines[0] == "x,kind_note,kind,kind_time,kind_before,kind_note_"
    assert lines[1].startswith("1,old,,")
    assert lines[1].endswith(",,not sure")


def test_what_cannot_be_a_label(start: Start, tmp_path: Path) -> None:
    session = start()
    for label, said in ((" ", "needs a name"), ("NaN", "no value"), ("x" * 201, "200 letters"), ("a\0b", "printable")):
        with pytest.raises(InvalidInputError, match=said):
            session.act("me", 0, 0, "label", label)
    with pytest.raises(InvalidInputError, match="no row 91"):
        session.act("me", 90, 0, "label", "ash")
    assert not session.journal.decisions
    write_table(tmp_path / "trees.csv")
    table = read_table(tmp_path / "trees.csv")
    with pytest.raises(InvalidInputError, match="holds values"):
        Rows.of(table, "x")
    with pytest.raises(InvalidInputError, match="did you mean 'kind'"):
        Rows.of(table, "kimd")
    assert not any(Rows.of(table, "another column altogether").given)


def test_a_model_that_fails_does_not_lose_labels(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    session = start()

    def broken(*_: object) -> None:
        raise RuntimeError("no memory left")

    monkeypatch.setattr(type(session.learner), "fit", broken)
    session.act("me", 0, 0, "label", "ash")
    session.settle()
    assert "no memory left" in session.state()["problem"]
    assert session.labels == {0: "ash"}
