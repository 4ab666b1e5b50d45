from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest

from condiff.errors import InvalidFileError
from condiff.readers.arrays import read_npy, read_npz
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


def member(name: str, header: bytes, body: bytes = b"", path: Path | None = None) -> None:
    """Add an array with any header to an archive."""
    assert path is not None
    magic = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little")
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(f"{name}.npy", magic + header + body)


def test_arrays_that_nothing_reads_are_not_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    np.savez(path, X=rows(), kind=np.arange(50) % 2)
    member("bomb", b"{'descr': '<f8', 'fortran_order': False, 'shape': (10, 1000000000000), }\n", path=path)
    matrix, named, _ = read_npz(path)
    assert matrix.shape == (50, 3)
    assert list(named) == ["kind"]


@pytest.mark.parametrize("name", ["X", "kind"])
@pytest.mark.parametrize(
    ("header", "problem"),
    [
        (b"{'descr': '<f8', 'fortran_order': False, 'shape': (50, 1000000000000), }", "cut off or too long"),
        (b"{'descr': '<f8', 'fortran_order': False, 'shape': (50, -1), }", "which no array has"),
        (b"{'descr': '<f8', 'fortran_order': False, 'shape': (50,", "not a readable array"),
        (b"{'descr': ('<f8', 'fortran_order'", "not a readable array"),
        (b"{'descr': '|V0', 'fortran_order': False, 'shape': (50,), }", "neither numbers nor text|must hold"),
        (b"\xff\xff", "not a readable array"),
    ],
)
def test_headers_that_lie_are_refused(tmp_path: Path, name: str, header: bytes, problem: str) -> None:
    path = tmp_path / "x.npz"
    np.savez(path, **({"kind": np.arange(50)} if name == "X" else {"X": rows()}))
    header = header.replace(b"(50, 1000000000000)", b"(50,)") if name == "kind" else header
    member(name, header + b"\n", path=path)
    with pytest.raises(InvalidFileError, match=problem):
        read_npz(path)


def test_a_small_file_of_two_gigabytes_of_zeros_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (268435, 1000), }\n"
    magic = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("X.npy", "w") as stream:
        stream.write(magic + header + bytes(1000))
    # The directory says what unpacking would give, which is all that is looked at.
    content = path.read_bytes()
    size = (len(magic) + len(header) + 1000).to_bytes(4, "little")
    path.write_bytes(content.replace(size, (len(magic) + len(header) + 268435 * 8000).to_bytes(4, "little")))
    with pytest.raises(InvalidFileError, match=r"X unpacks to 2\.1 GB from .* save it as CSR parts"):
        read_npz(path)


def test_a_csr_shape_that_no_machine_can_hold_is_refused(tmp_path: Path) -> None:
    parts = {"X_data": np.ones(1), "X_indices": np.zeros(1, int), "X_indptr": np.array([0, 1])}
    np.savez(tmp_path / "x.npz", **parts, X_shape=np.array([1, 10**15]))
    with pytest.raises(InvalidFileError, match="X_shape would take"):
        read_npz(tmp_path / "x.npz")


@pytest.mark.parametrize("code", [0x110000, 0xD800, 2**31])
@pytest.mark.parametrize("order", ["<", ">"])
def test_texts_of_no_characters_are_refused(tmp_path: Path, code: int, order: str) -> None:
    broken = np.full(50, code, np.uint32).astype(f"{order}u4").view(f"{order}U1")
    np.savez(tmp_path / "x.npz", X=rows(), kind=broken)
    with pytest.raises(
        InvalidFileError, match=r"x\.npz: kind is not a readable array \(it holds texts of no characters"
    ):
        read_npz(tmp_path / "x.npz")
    np.save(tmp_path / "x.npy", rows())
    np.save(tmp_path / "kind.npy", broken)
    with pytest.raises(InvalidFileError, match=r"kind\.npy is not a readable NPY file"):
        read_npy(tmp_path / "x.npy")


def test_texts_of_any_byte_order_are_read(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", X=rows(), kind=np.array(["é"] * 50).astype(">U3"))
    assert read_npz(tmp_path / "x.npz")[1]["kind"].tolist() == ["é"] * 50
