"""Reading tables as users bring them, and telling them what is wrong when they cannot be read."""

from __future__ import annotations

import builtins
import gzip
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

pd = pytest.importorskip("pandas")

from condiff.errors import InvalidFileError, InvalidInputError, MissingDependencyError  # noqa: E402
from condiff.readers.cells import id_like  # noqa: E402
from condiff.readers.columns import as_columns  # noqa: E402
from condiff.readers.tables import Table, read_table  # noqa: E402
from condiff.readers.targets import infer_task  # noqa: E402

PLAIN = "age,city,kind\n30,Oslo,cat\n41,Bergen,\n,Oslo,dog\n"


def save(path: Path, text: str, encoding: str = "utf-8") -> Path:
    path.write_bytes(text.encode(encoding))
    return path


def message(path: Path, error: type[Exception] = InvalidFileError) -> str:
    with pytest.raises(error) as caught:
        read_table(path)
    text = str(caught.value)
    assert "\n" not in text
    assert str(path) in text
    return text


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_csv_is_read_whatever_its_delimiter_mark_and_line_ends(
    tmp_path: Path, delimiter: str, encoding: str, newline: str
) -> None:
    text = PLAIN.replace(",", delimiter).replace("\n", newline)
    table = read_table(save(tmp_path / "pets.csv", text, encoding))
    assert table.columns == ("age", "city", "kind")
    assert table.n_rows == 3
    assert table.target("kind").tolist() == ["cat", None, "dog"]
    np.testing.assert_array_equal(table.target("age"), [30.0, 41.0, np.nan])


def test_a_packed_csv_and_a_tsv(tmp_path: Path) -> None:
    packed = tmp_path / "pets.csv.gz"
    packed.write_bytes(gzip.compress(PLAIN.encode()))
    assert read_table(packed).n_rows == 3
    assert read_table(save(tmp_path / "pets.TSV", PLAIN.replace(",", "\t"))).columns == ("age", "city", "kind")


@pytest.mark.parametrize("cell", ["", " ", "NA", "NaN", "nan", "null", "NULL", "N/A", '""'])
def test_missing_cells(tmp_path: Path, cell: str) -> None:
    table = read_table(save(tmp_path / "t.csv", f"a,b,y\n1,x,u\n{cell},{cell},{cell}\n3,z,v\n"))
    assert table.n_rows == 3
    assert np.isnan(table.target("a")[1])
    assert table.target("b")[1] is None
    assert table.target("y").tolist() == ["u", None, "v"]


def test_none_is_a_value_and_spaces_around_values_are_not(tmp_path: Path) -> None:
    table = read_table(save(tmp_path / "t.csv", "a, alley \n1, None\n2,None \n3,Gravel\n"))
    assert table.target("alley").tolist() == ["None", "None", "Gravel"]


def test_quoted_cells_hold_delimiters_and_line_ends(tmp_path: Path) -> None:
    table = read_table(save(tmp_path / "t.csv", 'a,note\n1,"x, y"\n2,"two\nlines"\n'))
    assert table.target("note").tolist() == ["x, y", "two\nlines"]


def test_decimal_commas_do_not_confuse_the_delimiter(tmp_path: Path) -> None:
    assert read_table(save(tmp_path / "t.csv", "a;b\n1,5;2,5\n3,5;4,5\n")).columns == ("a", "b")


def test_blank_lines_and_blank_columns_are_forgiven(tmp_path: Path) -> None:
    table = read_table(save(tmp_path / "t.csv", "\na,b,\n1,2,\n\n3,4,\n"))
    assert table.columns == ("a", "b")
    assert table.n_rows == 2


def test_the_index_that_pandas_saves_gets_a_name(tmp_path: Path) -> None:
    pd.DataFrame({"a": [1, 2]}).to_csv(tmp_path / "t.csv")
    assert read_table(tmp_path / "t.csv").columns == ("index", "a")


def test_columns_that_are_counted_are_named(tmp_path: Path) -> None:
    pd.DataFrame([[1.5, 2.5], [3.5, 4.5]]).to_csv(tmp_path / "t.csv", index=False)
    assert read_table(tmp_path / "t.csv").columns == ("0", "1")


def test_cells_stay_as_they_are_written(tmp_path: Path) -> None:
    path = save(tmp_path / "t.csv", "patient_id,zip,n\n007,01234,1\n008,56789,2\n")
    table = read_table(path)
    assert table.column("patient_id").words().tolist() == ["007", "008"]
    assert table.column("zip").words().tolist() == ["01234", "56789"]
    assert table.target("n").tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("name", "expected"),
    [("id", True), ("ID", True), ("PassengerId", True), ("user_id", True), ("paid", False), ("humid", False)],
)
def test_id_like_names(name: str, expected: bool) -> None:
    assert id_like(name) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "is empty (0 bytes)"),
        (" \n\n", "is empty (only white space)"),
        ('""\n\n', "is empty (no line has a value)"),
        ("a,b\n", "has column names but no rows"),
        ("a,b,a\n1,2,3\n", "more than one column named 'a': give each its own name"),
        ("5.1,3.5,1\n4.9,3.0,0\n", "the first line looks like data ('5.1', '3.5', '1')"),
        ("a,b\n1,2\n\n3,4,5\n", "line 4: 3 cells where the header has 2"),
        ("a,b\n1,2\n3\n", "line 3: 1 cell where the header has 2"),
        ('a,b\n1,"2\n3,4\n5,6\n7\n', "is a quote left open?"),
        ("a,,c\n1,2,3\n", "column 2 has no name"),
        ("a,b\n1," + "x" * 140_000 + "\n", "line 2: field larger than field limit"),
    ],
)
def test_broken_csv(tmp_path: Path, text: str, expected: str) -> None:
    assert expected in message(save(tmp_path / "t.csv", text))


def test_an_open_quote_is_suspected(tmp_path: Path) -> None:
    assert "is a quote left open?" in message(save(tmp_path / "t.csv", 'a,b,c\n1,"2,3\n4,5,6\n7,8,9\n'))


@pytest.mark.parametrize("content", [b"not gzip", gzip.compress(b"a,b\n1,2\n" * 1000)[:-20]], ids=["text", "cut off"])
def test_broken_gzip(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "t.csv.gz"
    path.write_bytes(content)
    assert "cannot be unpacked" in message(path)


def test_a_missing_file_suggests_its_neighbour(tmp_path: Path) -> None:
    save(tmp_path / "patients.csv", PLAIN)
    assert "does not exist (did you mean 'patients.csv'?)" in message(tmp_path / "pateints.csv")
    assert message(tmp_path / "nowhere" / "x.csv").endswith("does not exist: check the path")


def test_what_is_not_a_table(tmp_path: Path) -> None:
    assert ".csv, .tsv, .txt" in message(save(tmp_path / "t.docx", "PK"))
    (tmp_path / "folder.csv").mkdir()
    assert "is not a file" in message(tmp_path / "folder.csv")


def test_an_unknown_column_lists_and_suggests(tmp_path: Path) -> None:
    table = read_table(save(tmp_path / "t.csv", PLAIN))
    with pytest.raises(InvalidInputError, match=r"no target column 'Kinds' \(did you mean 'kind'\?\); it has 'age'"):
        table.target("Kinds")
    with pytest.raises(InvalidInputError, match="no column 'zzz'; it has"):
        table.column("zzz")


def test_targets_that_teach_nothing(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {"a": [1, 2], "none": [None, None], "inf": [1.0, np.inf], "day": pd.to_datetime(["2024-01-01"] * 2)}
    )
    table = Table(tmp_path / "t.csv", as_columns(frame))
    with pytest.raises(InvalidInputError, match=r"'none' of .* is empty in every row"):
        table.target("none")
    with pytest.raises(InvalidInputError, match="infinite in row 2"):
        table.target("inf")
    with pytest.raises(InvalidInputError, match="holds dates"):
        table.target("day")


def test_parquet_round_trip_with_every_type(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    frame = pd.DataFrame(
        {
            "whole": pd.array([1, None, 3], dtype="Int64"),
            "flag": pd.array([True, None, False], dtype="boolean"),
            "level": pd.Categorical(["a", None, "b"]),
            "day": pd.to_datetime(["2024-01-01", None, "2024-01-03"]),
            "vector": [[1.0, 2.0], None, [3.0, 4.0]],
            "text": ["", " x ", "y"],
        },
        index=pd.Index(["p", "q", "r"], name="row_id"),
    )
    frame.to_parquet(tmp_path / "t.parquet")
    table = read_table(tmp_path / "t.parquet")
    assert table.columns == ("row_id", "whole", "flag", "level", "day", "vector[0]", "vector[1]", "text")
    np.testing.assert_array_equal(table.target("whole"), [1, np.nan, 3])
    assert table.target("flag").tolist() == [True, None, False]
    assert table.target("level").tolist() == ["a", None, "b"]
    assert table.target("text").tolist() == [None, "x", "y"]
    np.testing.assert_array_equal(table.target("vector[1]"), [2.0, np.nan, 4.0])


def test_broken_parquet(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    assert "is not a readable Parquet file" in message(save(tmp_path / "t.parquet", "certainly not parquet"))
    pd.DataFrame({"a": [1], "deep": [{"b": 1}]}).to_parquet(tmp_path / "deep.parquet")
    assert "column 'deep' holds struct" in message(tmp_path / "deep.parquet")
    pd.DataFrame({"v": [[1.0], [1.0, 2.0]]}).to_parquet(tmp_path / "ragged.parquet")
    assert "number lists of one length" in message(tmp_path / "ragged.parquet")
    pd.DataFrame({"a": []}).to_parquet(tmp_path / "none.parquet")
    assert "no rows" in message(tmp_path / "none.parquet")


def test_dense_npz(tmp_path: Path) -> None:
    path = tmp_path / "t.npz"
    np.savez(path, X=np.arange(6).reshape(3, 2), y=np.array([1.0, np.nan, 2.0]), ids=np.array(["a", "b", "c"]))
    table = read_table(path)
    assert table.columns == ("y", "ids")
    assert table.matrix.dtype == np.float64
    np.testing.assert_array_equal(table.target("y"), [1.0, np.nan, 2.0])


@pytest.mark.parametrize("prefix", ["X", "attr"])
def test_sparse_npz_stays_sparse(tmp_path: Path, prefix: str) -> None:
    wide = sp.random_array((1000, 30_000), density=0.001, format="csr", rng=np.random.default_rng(0))
    path = tmp_path / "t.npz"
    parts = {"data": wide.data, "indices": wide.indices, "indptr": wide.indptr, "shape": wide.shape}
    arrays: dict[str, Any] = {f"{prefix}_{key}": value for key, value in parts.items()}
    np.savez(path, **arrays, labels=np.arange(1000) % 3)
    table = read_table(path)
    assert sp.issparse(table.matrix)
    assert (table.matrix != wide).nnz == 0
    assert infer_task(table.target("labels")) == "classification"


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (np.array([-1, 0, 1]), [None, 0.0, 1.0]),
        (np.array([-1, 1, 1]), [-1.0, 1.0, 1.0]),
        (np.array([-2, -1, 0]), [-2.0, -1.0, 0.0]),
        (np.array(["", "a", "b "]), [None, "a", "b"]),
        (np.array([b"", b"a", b"b"]), [None, "a", "b"]),
        (np.array([True, False, True]), [True, False, True]),
    ],
)
def test_unlabelled_rows_of_an_npz(tmp_path: Path, labels: np.ndarray, expected: list[Any]) -> None:
    np.savez(tmp_path / "t.npz", X=np.eye(3), y=labels)
    found = read_table(tmp_path / "t.npz").target("y").tolist()
    assert [None if v != v else v for v in found] == expected


@pytest.mark.parametrize(
    ("arrays", "expected"),
    [
        ({"Z": np.eye(2)}, "has no features: it has 'Z', but needs 'X'"),
        ({"X": np.array(["a", "b"])}, "'X' must hold numbers"),
        ({"X": np.zeros(3)}, "'X' has shape (3,): save rows x features"),
        ({"X": np.array([[1.0, 2.0], [np.nan, 1.0]])}, "'X' is NaN or infinite in row 2"),
        ({"X": np.eye(3), "y": np.zeros(2)}, "'y' has shape 2 but there are 3 rows"),
        ({"X": np.eye(3), "feature_names": np.array(["a"])}, "1 feature_names for 3 features"),
        (
            {
                "X_data": np.ones(1),
                "X_indices": np.array([9]),
                "X_indptr": np.array([0, 1]),
                "X_shape": np.array([1, 3]),
            },
            "X_* is not a CSR matrix",
        ),
        (
            {"X_data": np.full(1, np.inf), "X_indices": [0], "X_indptr": [0, 0, 1], "X_shape": [2, 3]},
            "infinite in row 2",
        ),
        ({"X": np.zeros((0, 3))}, "no rows"),
        ({"X": np.array([[{}]], dtype=object)}, "holds pickled Python objects, which are never loaded"),
    ],
)
def test_broken_npz(tmp_path: Path, arrays: dict[str, Any], expected: str) -> None:
    np.savez(tmp_path / "t.npz", **arrays)
    assert expected in message(tmp_path / "t.npz")


def test_not_an_npz(tmp_path: Path) -> None:
    assert "is not a readable NPZ file" in message(save(tmp_path / "t.npz", "hello there"))
    with (tmp_path / "array.npz").open("wb") as stream:
        np.save(stream, np.eye(2))
    assert "is not a readable NPZ file" in message(tmp_path / "array.npz")
    np.savez(tmp_path / "cut.npz", X=np.eye(30))
    (tmp_path / "cut.npz").write_bytes((tmp_path / "cut.npz").read_bytes()[:-200])
    assert "is not a readable NPZ file" in message(tmp_path / "cut.npz")


@pytest.mark.parametrize(
    ("name", "missing"), [("t.parquet", "pyarrow"), ("t.feather", "pyarrow"), ("t.xlsx", "python_calamine")]
)
def test_what_is_not_installed_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, missing: str
) -> None:
    path = save(tmp_path / name, "anything")
    real = builtins.__import__

    def blocked(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.split(".")[0] in (missing, "pandas"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", blocked)
    with pytest.raises(MissingDependencyError, match=r"pip install 'condiff\[data\]'"):
        read_table(path)
    assert read_table(save(tmp_path / "t.csv", PLAIN)).n_rows == 3
    np.savez(tmp_path / "t.npz", X=np.eye(2))
    assert read_table(tmp_path / "t.npz").n_rows == 2


def test_the_id_column_is_one_in_which_no_value_repeats(tmp_path: Path) -> None:
    path = save(tmp_path / "t.csv", "store_id,a,case_id,b_id\n1,5,x,\n1,6,y,k\n2,7,z,l\n")
    assert read_table(path).id_column() == "case_id"
    assert read_table(path).id_column(["case_id"]) is None
    np.savez(tmp_path / "t.npz", X=np.eye(2), ids=np.array(["p", "q"]))
    assert read_table(tmp_path / "t.npz").id_column() == "ids"


@pytest.mark.parametrize("name", ["t.csv.gz", "t.zip"])
def test_text_that_unpacks_without_end_is_refused(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("condiff.files", "condiff.readers.delimited"):
        monkeypatch.setattr(f"{module}.FREE", 1000)
    text = b"a,b\n" + b"0,0\n" * 500_000
    path = tmp_path / name
    if name.endswith(".gz"):
        path.write_bytes(gzip.compress(text))
    else:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("t.csv", text)
    with pytest.raises(InvalidFileError, match=r"unpacks to .* from .*: unpack it yourself if you trust it"):
        read_table(path)
