from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from condiff.errors import InvalidFileError, InvalidInputError
from condiff.readers.large import parquet_matrix, read_npy
from condiff.readers.tables import read_table


def rows(n: int = 50, d: int = 3) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(n, d)).astype(np.float32)


def test_npy_is_mapped_and_keeps_its_precision(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", rows())
    np.save(tmp_path / "kind.npy", np.arange(50) % 2)
    np.save(tmp_path / "short.npy", np.arange(3))
    (tmp_path / "broken.npy").write_bytes(b"no")
    matrix, named = read_npy(tmp_path / "x.npy")
    assert isinstance(matrix, np.memmap)
    assert matrix.dtype == np.float32
    assert list(named) == ["kind"]
    table = read_table(tmp_path / "x.npy")
    assert table.columns == ("kind",)
    assert table.target("kind").tolist() == (np.arange(50) % 2).tolist()


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.arange(4), r"int64 of shape \(4,\): save rows x features"),
        (np.array([["a"]]), "save rows x features"),
        (np.array([[1.0], [np.nan]]), "NaN or infinite in row 2"),
        (np.array([[None]], dtype=object), "Python objects, which are never loaded"),
    ],
)
def test_what_npy_cannot_be_is_said(tmp_path: Path, array: np.ndarray, message: str) -> None:
    np.save(tmp_path / "x.npy", array, allow_pickle=True)
    with pytest.raises(InvalidFileError, match=message):
        read_npy(tmp_path / "x.npy")


def test_whole_numbers_become_floats(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(6).reshape(3, 2))
    assert read_npy(tmp_path / "x.npy")[0].dtype == np.float64


@pytest.mark.parametrize("batch_rows", [1, 7, 1000])
def test_parquet_in_batches_is_the_table(tmp_path: Path, batch_rows: int) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    x = rows()
    table = pyarrow.table(
        {
            "a": x[:, 0],
            "name": ["n"] * 50,
            "e": pyarrow.array(x[:, 1:].tolist(), type=pyarrow.list_(pyarrow.float32())),
            "whole": np.arange(50),
        }
    )
    parquet.write_table(table, tmp_path / "x.parquet", row_group_size=20)
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
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    path = tmp_path / "x.parquet"
    parquet.write_table(pyarrow.table({"a": [1.0, None]}), path)
    with pytest.raises(InvalidFileError, match="column 'a' is empty in row 2"):
        parquet_matrix(path)
    for lists in ([[1.0], [1.0, 2.0, 3.0]], [[1.0, None], [1.0, 2.0]], [["a"], ["b"]]):
        parquet.write_table(pyarrow.table({"a": lists}), path)
        with pytest.raises(InvalidFileError, match="must hold equally many numbers"):
            parquet_matrix(path)
    parquet.write_table(pyarrow.table({"a": pyarrow.array([], type=pyarrow.float32())}), path)
    with pytest.raises(InvalidFileError, match="has no rows"):
        parquet_matrix(path)
    path.write_bytes(b"PAR1")
    with pytest.raises(InvalidFileError, match="not a readable Parquet file"):
        parquet_matrix(path)
