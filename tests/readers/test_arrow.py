"""Parquet and Feather files are tables like any other, and Parquet is never held as a whole."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

pd = pytest.importorskip("pandas", reason="pandas is not installed")
pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pq = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")

from condiff.encoders.table import TableEncoder, row_names  # noqa: E402
from condiff.errors import InvalidFileError, InvalidInputError  # noqa: E402
from condiff.readers import arrow  # noqa: E402
from condiff.readers.arrow import ArrowColumns, parquet_matrix  # noqa: E402
from condiff.readers.tables import read_table  # noqa: E402


def messy(n: int = 30) -> Any:
    """Scalar columns of every kind, with gaps."""
    rng = np.random.default_rng(0)
    age = rng.normal(40, 10, n)
    age[:5] = np.nan
    return pd.DataFrame(
        {
            "patient_id": [f"p{i:03}" for i in range(n)],
            "age": age,
            "visits": pd.array([None, *rng.integers(0, 9, n - 1)], dtype="Int64"),
            "smoker": rng.random(n) > 0.5,
            "city": pd.Categorical(np.repeat(["Oslo", "Bergen", "Bodø"], n // 3)),
            "seen": pd.date_range("2024-01-01", periods=n),
            "name": [f"person {i}" for i in range(n)],
            "kind": ["cat", "dog", None] * (n // 3),
        }
    )


@pytest.mark.parametrize("cells", [1, 120, 1 << 22])
def test_batches_are_encoded_as_the_whole_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cells: int) -> None:
    monkeypatch.setattr(arrow, "_CELLS", cells)
    frame = messy()
    vectors = np.random.default_rng(1).normal(size=(30, 9))
    vectors[3, 4] = np.nan
    lists = vectors.tolist()
    lists[7], vectors[7] = None, np.nan
    frame.assign(v=lists).to_parquet(tmp_path / "t.parquet", index=False, row_group_size=12)
    entries = pd.DataFrame(vectors, columns=[f"v[{i}]" for i in range(9)])
    whole = pd.concat([frame, entries], axis=1)
    table = read_table(tmp_path / "t.parquet")
    assert table.columns == tuple(whole.columns)
    assert table.n_rows == 30
    encoder, expected = (TableEncoder(drop=["kind"]).fit(each) for each in (table, whole))
    assert encoder.to_state() == expected.to_state()
    np.testing.assert_array_equal(encoder.transform(table), expected.transform(whole))
    assert row_names(table, "patient_id") == frame["patient_id"].tolist()
    assert table.target("kind").tolist() == ["cat", "dog", None] * 10
    frame.assign(v=lists).to_feather(tmp_path / "t.feather")
    feather = read_table(tmp_path / "t.feather")
    assert feather.columns == table.columns
    np.testing.assert_array_equal(encoder.transform(feather), encoder.transform(table))


@pytest.mark.parametrize("kind", ["float32", "float64", "int8", "int64", "bool"])
@pytest.mark.parametrize("fixed", [False, True])
def test_lists_of_every_kind_of_number(tmp_path: Path, kind: str, fixed: bool) -> None:
    values = (100 * np.random.default_rng(0).normal(size=(20, 9))).astype(kind)
    lists = [None, *values[1:].tolist()]
    entry = pa.from_numpy_dtype(values.dtype)
    column = pa.array(lists, type=pa.list_(entry, 9) if fixed else pa.list_(entry))
    pq.write_table(pa.table({"v": column}), tmp_path / "t.parquet")
    table = ArrowColumns(tmp_path / "t.parquet")
    assert table.columns == tuple(f"v[{i}]" for i in range(9))
    for i, name in enumerate(table.columns):
        read = table.column(name).values
        assert np.isnan(read[0])
        np.testing.assert_array_equal(read[1:], values[1:, i])


def test_a_sparse_encoding_is_put_together_from_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pd.DataFrame({"word": [f"w{i % 300}" for i in range(3000)], "size": np.arange(3000) % 7 + 0.5})
    frame.to_parquet(tmp_path / "t.parquet", index=False)
    table = read_table(tmp_path / "t.parquet")
    monkeypatch.setattr("condiff.encoders.table._LARGEST", 1000)
    encoder, expected = TableEncoder(keep=["word"]).fit(table), TableEncoder(keep=["word"]).fit(frame)
    monkeypatch.setattr(arrow, "_CELLS", 2500)
    found = encoder.transform(table)
    assert sp.issparse(found)
    np.testing.assert_array_equal(found.toarray(), expected.transform(frame).toarray())


# What it has given out must not outlive it.
POOL = pa.proxy_memory_pool(pa.default_memory_pool())


def peak_of_encoding(path: Path) -> tuple[int, np.ndarray]:
    """Bytes that numpy and pyarrow held at the most while a file became a matrix, and the matrix."""
    usual = pa.default_memory_pool()
    pa.set_memory_pool(POOL)
    tracemalloc.start()
    try:
        table = read_table(path)
        matrix = TableEncoder(drop=["kind"]).fit(table).transform(table)
        return tracemalloc.get_traced_memory()[1] + POOL.max_memory(), np.asarray(matrix)
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(usual)


def test_the_matrix_is_all_that_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow, "_CELLS", 1 << 15)
    rng = np.random.default_rng(0)
    n, width = 10_000, 48
    columns = {f"x{i}": rng.normal(size=n) for i in range(16)}
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(rng.normal(size=n * width).astype(np.float32)), width)
    path = tmp_path / "t.parquet"
    content = pa.table({**columns, "v": vectors, "kind": np.arange(n) % 2})
    pq.write_table(content, path, row_group_size=n, use_dictionary=False)
    del columns, vectors, content
    peak, matrix = peak_of_encoding(path)
    assert matrix.shape == (n, 64)
    # As a frame of pandas it was 3.8 times the matrix.
    assert peak < 2 * matrix.nbytes


def test_rows_in_messages_count_from_the_first_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow, "_CELLS", 4)
    encoder = TableEncoder().fit({"a": [0.5, 1.0, 2.0]})
    pq.write_table(pa.table({"a": ["1"] * 9 + ["many"]}), tmp_path / "t.parquet")
    with pytest.raises(InvalidInputError, match="column 'a', row 10: 'many' is not a number"):
        encoder.transform(read_table(tmp_path / "t.parquet"))


def test_an_index_with_a_name_is_a_column(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow, "_CELLS", 2)
    path, frame = tmp_path / "t.parquet", pd.DataFrame({"a": [0.5, 1.5, 2.5]})
    for index, names in (
        (pd.RangeIndex(3), ("a",)),
        (pd.RangeIndex(5, 8, name="row_id"), ("row_id", "a")),
        (pd.Index(["x", "y", "z"]), ("a",)),
        (pd.Index(["x", "y", "z"], name="row_id"), ("row_id", "a")),
    ):
        frame.set_axis(index).to_parquet(path)
        table = read_table(path)
        assert table.columns == names
        expected = [str(row) for row in index] if index.name else [1, 2, 3]
        assert row_names(table, table.id_column()) == expected
        read = [value for _, rows in table.batches([names[0]]) for value in rows[names[0]].values.tolist()]
        assert read == (list(index) if index.name else frame["a"].tolist())


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"v": [[1.0], [1.0, 2.0]]}, r"column 'v' holds list<.*number lists of one length"),
        ({"v": [["a"], ["b"]]}, "column 'v' holds list<.*: string>"),
        ({"v": [b"a", b"b"]}, "column 'v' holds binary"),
        ({"v": [{"a": 1}, {"a": 2}]}, "column 'v' holds struct"),
        ({"v": pa.array([None, None], type=pa.list_(pa.float32()))}, "number lists of one length"),
        ({"v": [[1.0], [2.0]], "v[0]": [1, 2]}, r"more than one column named 'v\[0\]'"),
    ],
)
def test_what_cannot_be_a_column_is_named(tmp_path: Path, columns: dict[str, Any], message: str) -> None:
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    with pytest.raises(InvalidFileError, match=message):
        read_table(tmp_path / "t.parquet")


def test_a_file_that_ends_early(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": np.random.default_rng(0).normal(size=50_000)}), path)
    raw = bytearray(path.read_bytes())
    raw[1000:200_000] = bytes(199_000)
    path.write_bytes(raw)
    table = read_table(path)
    with pytest.raises(InvalidFileError, match="not a readable Parquet file"):
        table.column("a")


def test_every_kind_of_column_in_words(tmp_path: Path) -> None:
    moments = pa.array([0, None, 86_400_000_000], type=pa.timestamp("us", "Europe/Oslo"))
    columns = {
        "big_id": pa.array([2**62 + 1, None, 7]),
        "price": pa.array([1, None, 3]).cast(pa.decimal128(22, 2)),
        "flag": pa.array([True, None, False]),
        "when": moments,
        "day": moments.cast(pa.date32()),
        "clock": pa.array([0, None, 3_600_000], type=pa.time32("ms")),
        "wait": pa.array([0, None, 1_500], type=pa.duration("ms")),
        "level": pa.array(["a", None, "b "]).dictionary_encode(),
        "half": pa.array(np.array([0.5, np.nan, 2], dtype=np.float16)),
        "none": pa.nulls(3),
    }
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    table = read_table(tmp_path / "t.parquet")
    words = {name: table.column(name).words().tolist() for name in table.columns}
    assert words == {
        "big_id": [str(2**62 + 1), "", "7"],
        "price": ["1", "", "3"],
        "flag": ["True", "", "False"],
        "when": ["1970-01-01", "", "1970-01-02"],
        "day": ["1970-01-01", "", "1970-01-02"],
        "clock": ["00:00:00.000000", "", "01:00:00.000000"],
        "wait": ["0", "", "1.5"],
        "level": ["a", "", "b"],
        "half": ["0.5", "", "2"],
        "none": ["", "", ""],
    }


@pytest.mark.parametrize("batch_rows", [1, 7, 1000])
def test_parquet_in_batches_is_the_table(tmp_path: Path, batch_rows: int) -> None:
    x = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
    table = pa.table(
        {
            "a": x[:, 0],
            "name": ["n"] * 50,
            "e": pa.array(x[:, 1:].tolist(), type=pa.list_(pa.float32())),
            "whole": np.arange(50),
        }
    )
    pq.write_table(table, tmp_path / "x.parquet", row_group_size=20)
    found = parquet_matrix(tmp_path / "x.parquet", ["e", "a", "whole"], batch_rows=batch_rows)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, np.column_stack([x[:, 1:], x[:, 0], np.arange(50)]))
    double = parquet_matrix(tmp_path / "x.parquet", ["a"], dtype=np.float64)
    assert double.dtype == np.float64
    with pytest.raises(InvalidFileError, match="column 'name' holds string, not numbers"):
        parquet_matrix(tmp_path / "x.parquet")
    with pytest.raises(InvalidInputError, match=r"no column 'b'"):
        parquet_matrix(tmp_path / "x.parquet", ["b"])


def test_what_parquet_lacks_is_said(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"a": [1.0, None]}), path)
    with pytest.raises(InvalidFileError, match="column 'a' is empty in row 2"):
        parquet_matrix(path)
    for lists in ([[1.0], [1.0, 2.0, 3.0]], [[1.0, None], [1.0, 2.0]], [["a"], ["b"]]):
        pq.write_table(pa.table({"a": lists}), path)
        with pytest.raises(InvalidFileError, match="must all hold the same number of values"):
            parquet_matrix(path)
    pq.write_table(pa.table({"a": pa.array([], type=pa.float32())}), path)
    with pytest.raises(InvalidFileError, match="has no rows"):
        parquet_matrix(path)
    path.write_bytes(b"PAR1")
    with pytest.raises(InvalidFileError, match="not a readable Parquet file"):
        parquet_matrix(path)


@pytest.mark.parametrize(
    "metadata",
    [b"{", b"\xff\xfe", b"[" * 2000, b'{"columns": [{"pandas_type": "categorical"}]}', b'{"index_columns": 3}', b"3"],
)
def test_notes_of_pandas_that_are_damaged_are_one_error(tmp_path: Path, metadata: bytes) -> None:
    table = pa.table({"a": [1, 2]}).replace_schema_metadata({b"pandas": metadata})
    pq.write_table(table, tmp_path / "t.parquet")
    with pytest.raises(InvalidFileError, match=r"t\.parquet is not a readable Parquet file"):
        read_table(tmp_path / "t.parquet")


def test_a_few_bytes_that_stand_for_billions_of_rows_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pq.write_table(pa.table({"a": pa.nulls(2_000_000, pa.int64())}), tmp_path / "t.parquet")
    assert (tmp_path / "t.parquet").stat().st_size < 10_000
    monkeypatch.setenv("CONDIFF_MEMORY", "8M")
    with pytest.raises(InvalidFileError, match=r"t\.parquet would take 16\.0 MB of memory.*split it"):
        read_table(tmp_path / "t.parquet")


def test_lists_become_no_more_columns_than_one_can_name(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [[0.0] * 100_001]}), tmp_path / "t.parquet")
    with pytest.raises(InvalidFileError, match="number lists"):
        read_table(tmp_path / "t.parquet")
