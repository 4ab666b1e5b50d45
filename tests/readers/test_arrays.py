from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from condiff.errors import InvalidFileError
from condiff.readers.arrays import read_npy
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
