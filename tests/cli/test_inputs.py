from __future__ import annotations

from pathlib import Path

import pytest

from condiff.cli.inputs import choice_or_shares, id_columns, open_data, row_index
from condiff.errors import InvalidFileError, InvalidInputError
from condiff.readers.tables import read_table


def test_choices_and_shares() -> None:
    assert choice_or_shares(None, ["balanced"], "--w") is None
    assert choice_or_shares("balanced", ["balanced"], "--w") == "balanced"
    assert choice_or_shares("a=1, b = b=0.5", [], "--w") == {"a": 1.0, "b = b": 0.5}
    for text in ("a", "a=", "a=x", "a=-1", "a=nan", "a=inf", "a=1,,b=2", ""):
        with pytest.raises(InvalidInputError, match="is not CLASS=NUMBER"):
            choice_or_shares(text, ["balanced"], "--w")


def test_rows_by_their_ids(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("name,store_id,a\nx,1,5\ny,1,6\n,2,7\n")
    table = read_table(path)
    assert id_columns(table, []) == []
    assert id_columns(table, ["a"]) == ["a"]
    assert row_index(table, ["a"]) == {"5": 0, "6": 1, "7": 2}
    wrong = {(): "name it with --id", ("name",): "is empty in row 3", ("store_id",): "'1' in 'store_id' appears twice"}
    for ids, message in wrong.items():
        with pytest.raises(InvalidInputError, match=message):
            row_index(table, ids)


def test_folders(tmp_path: Path) -> None:
    with pytest.raises(InvalidFileError, match=r"has no nodes\.csv"):
        open_data(tmp_path, None)
    (tmp_path / "nodes.csv").write_text("id,label\n1,a\n")
    with pytest.raises(InvalidFileError, match=r"has no edges\.csv"):
        open_data(tmp_path, None)
    other = tmp_path / "other.csv"
    assert open_data(tmp_path, other)[1] == other
    (tmp_path / "edges.csv").write_text("source,target\n1,1\n")
    assert open_data(tmp_path, None)[1] == tmp_path / "edges.csv"
