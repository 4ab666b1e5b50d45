"""Encodings, delimiters and archives: detected, and reported where they are unusual."""

from __future__ import annotations

import gzip
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from condiff.encoders import TableEncoder
from condiff.errors import InvalidFileError
from condiff.readers.delimited import read_delimited, read_records
from condiff.readers.tables import read_table

PLAIN = "height,città,kind\n1.5,Åre,cat\n2.5,Bergen,\n,Åre,dog\n"


@pytest.mark.parametrize(
    ("encoding", "note"),
    [
        ("utf-8", ()),
        ("utf-8-sig", ()),
        ("utf-16", ("read as UTF-16",)),
        ("latin-1", ("read as Latin-1 (Windows-1252)",)),
        ("cp1252", ("read as Latin-1 (Windows-1252)",)),
    ],
)
def test_encodings(tmp_path: Path, encoding: str, note: tuple[str, ...]) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(PLAIN.encode(encoding))
    table = read_table(path)
    assert table.columns == ("height", "città", "kind")
    assert table.column("città").words().tolist() == ["Åre", "Bergen", "Åre"]
    assert table.notes == note


def test_a_letter_of_latin_1_far_into_the_file(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"a,b\n" + b"1,x\n" * 700_000 + b"2,\xe5\n")
    table = read_table(path)
    assert table.column("b").words()[-1] == "å"
    assert table.notes == ("read as Latin-1 (Windows-1252)",)


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".txt"])
def test_delimiters(tmp_path: Path, delimiter: str, suffix: str) -> None:
    path = tmp_path / f"t{suffix}"
    path.write_text(PLAIN.replace(",", delimiter), encoding="utf-8")
    table = read_table(path)
    assert table.columns == ("height", "città", "kind")
    assert bool(table.notes) is (delimiter in ";|")


def test_blanks_separate_cells_only_where_nothing_else_does(tmp_path: Path) -> None:
    path = tmp_path / "t.txt"
    path.write_text("x   y  kind\n1.5 2.5  a\n2.5   3.5 b\n")
    assert read_table(path).columns == ("x", "y", "kind")
    path.write_text("first name\nAnn Lee\nJo Ray\n")
    assert read_table(path).columns == ("first", "name")
    path.write_text("name\nAnn Lee\nJo\n")
    assert read_table(path).columns == ("name",)


def test_an_empty_cell_of_a_single_column_is_a_row_where_it_is_quoted(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text('text\na card\n""\n\na rate\n')
    assert read_table(path).column("text").words().tolist() == ["a card", "", "a rate"]


def test_excel_says_its_delimiter_itself(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("sep=;\na;b\n1;2\n1;2;3\n")
    with pytest.raises(InvalidFileError, match="line 4: 3 cells where the header has 2"):
        read_table(path)


def test_a_semicolon_table_with_decimal_commas_keeps_its_numbers(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    rows = "".join(f"{i % 7},{i % 10};1.{i:03},5;{i % 5},25\n" for i in range(40))
    path.write_text("height;pay;weight\n" + rows)
    table = read_table(path)
    encoder = TableEncoder().fit(table)
    assert list(encoder.get_feature_names_out()) == ["height", "pay", "weight"]
    pay = encoder._columns[1].read(table.column("pay"), "")  # type: ignore[attr-defined]
    np.testing.assert_allclose(pay, [1000.5 + i for i in range(40)])


def test_archives(tmp_path: Path) -> None:
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(PLAIN.encode()))
    with zipfile.ZipFile(tmp_path / "t.zip", "w") as archive:
        archive.writestr("folder/t.tsv", PLAIN.replace(",", "\t"))
        archive.writestr("__MACOSX/folder/._t.tsv", "junk")
    for name in ("t.csv.gz", "t.zip"):
        assert read_table(tmp_path / name).n_rows == 3
    for names, message in (((), "holds nothing"), (("a.csv", "b.csv"), "holds 'a.csv', 'b.csv': unpack it")):
        with zipfile.ZipFile(tmp_path / "t.zip", "w") as archive:
            for name in names:
                archive.writestr(name, PLAIN)
        with pytest.raises(InvalidFileError, match=message):
            read_table(tmp_path / "t.zip")
    with zipfile.ZipFile(tmp_path / "t.zip", "w") as archive:
        archive.writestr("t.parquet", "x")
    with pytest.raises(InvalidFileError, match="unpack it first"):
        read_table(tmp_path / "t.zip")
    raw = bytearray((tmp_path / "t.zip").read_bytes())
    (tmp_path / "t.zip").write_bytes(raw[:-8])
    with pytest.raises(InvalidFileError, match="cannot be unpacked"):
        read_table(tmp_path / "t.zip")


def test_a_checksum_that_is_wrong(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "t.zip", "w") as archive:
        archive.writestr("t.csv", PLAIN)
    raw = (tmp_path / "t.zip").read_bytes()
    (tmp_path / "t.zip").write_bytes(raw.replace(b"Bergen", b"Barren"))
    with pytest.raises(InvalidFileError, match="cannot be unpacked"):
        read_table(tmp_path / "t.zip")


def test_what_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b"a,b\n1,\0\n")
    with pytest.raises(InvalidFileError, match="is not text"):
        read_table(path)


def test_many_batches_are_one_column(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("n,word\n" + "".join(f"{i},w{i % 3}\n" for i in range(40_000)))
    columns, _ = read_delimited(path)
    assert columns.n_rows == 40_000
    assert columns.column("n").values.astype(float).tolist() == list(range(40_000))


names = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1, max_size=6)
cells = st.text(st.characters(codec="utf-8", exclude_characters="\0\r", exclude_categories=["Cs"]), max_size=8)


@settings(max_examples=60, deadline=None)
@given(data=st.data(), delimiter=st.sampled_from(",;\t"), encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]))
def test_whatever_is_quoted_comes_back(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, delimiter: str, encoding: str
) -> None:
    import csv
    import io

    width = data.draw(st.integers(2, 4))
    rows = data.draw(st.lists(st.lists(cells, min_size=width, max_size=width), min_size=1, max_size=6))
    header = [f"column {i}" for i in range(width)]
    stream = io.StringIO()
    csv.writer(stream, delimiter=delimiter, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows([header, *rows])
    path = tmp_path_factory.mktemp("t") / "t.csv"
    path.write_bytes(stream.getvalue().encode(encoding))
    read = [row for _, row in read_records(path)]
    assert read == [header, *rows]


@settings(max_examples=100, deadline=None)
@given(content=st.binary(max_size=200))
@example(b"\xef\xbb")
@example(b"\xff\xfea")
@example(b'""')
def test_any_bytes_are_a_table_or_one_clear_line(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.mktemp("t") / "t.csv"
    path.write_bytes(content)
    for suffix in (".csv", ".json", ".jsonl", ".csv.gz", ".zip", ".parquet", ".feather", ".npz", ".npy", ".xlsx"):
        file = path.rename(path.with_name(f"t{suffix}"))
        try:
            assert read_table(file).n_rows > 0
        except InvalidFileError as error:
            assert str(file) in str(error)
            assert "\n" not in str(error)
        path = file
