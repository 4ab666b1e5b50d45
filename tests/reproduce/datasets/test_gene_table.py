from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from condiff.errors import InvalidFileError
from condiff.reproduce.datasets.gene_table import GeneTable, PublishedSplit, load_gene_table, save_gene_table


def table(splits: int = 2) -> GeneTable:
    rng = np.random.default_rng(0)
    features = sp.csr_array(rng.random((6, 8)) < 0.4, dtype=np.float64)
    parts = [np.split(np.sort(rng.permutation(6)), [2, 3]) for _ in range(splits)]
    return GeneTable(
        features,
        np.array([0, 1, 1, 0, 0, 1]),
        tuple("abcdef"),
        ("TP53", "AR", "PTEN", "FOXA1"),
        ("mutation", "deletion"),
        tuple(PublishedSplit(*part) for part in parts),
    )


def assert_same(one: GeneTable, two: GeneTable) -> None:
    assert (one.features != two.features).nnz == 0
    assert one.features.shape == two.features.shape
    assert one.features.dtype == two.features.dtype
    assert one.features.indices.dtype == two.features.indices.dtype
    np.testing.assert_array_equal(one.labels, two.labels)
    assert (one.patients, one.genes, one.kinds) == (two.patients, two.genes, two.kinds)
    assert len(one.splits) == len(two.splits)
    for left, right in zip(one.splits, two.splits, strict=True):
        for part, other in zip(left, right, strict=True):
            np.testing.assert_array_equal(part, other)


@pytest.mark.parametrize("splits", [0, 2, 12])
def test_a_table_comes_back_as_it_was(tmp_path: Path, splits: int) -> None:
    save_gene_table(table(splits), tmp_path / "below" / "table.npz")
    assert_same(load_gene_table(tmp_path / "below" / "table.npz"), table(splits))
    assert [path.name for path in (tmp_path / "below").iterdir()] == ["table.npz"]


def test_the_same_table_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one.npz", "two.npz"):
        save_gene_table(table(), tmp_path / name)
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "two.npz").read_bytes()


@pytest.mark.parametrize("position", [0, 30, 200, 700])
def test_a_changed_byte_is_noticed(tmp_path: Path, position: int) -> None:
    path = tmp_path / "table.npz"
    save_gene_table(table(), path)
    content = bytearray(path.read_bytes())
    content[position] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(InvalidFileError, match=r"table\.npz.*: delete it"):
        load_gene_table(path)


@pytest.mark.parametrize("content", [b"", b"nothing of the kind", None], ids=["empty", "foreign", "missing"])
def test_other_files_are_refused(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "table.npz"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InvalidFileError, match=r": delete it|never loaded"):
        load_gene_table(path)


def test_archives_without_the_parts_or_with_wrong_ones_are_refused(tmp_path: Path) -> None:
    save_gene_table(table(), tmp_path / "table.npz")
    with np.load(tmp_path / "table.npz") as archive:
        parts = dict(archive)
    for wrong in (
        {name: part for name, part in parts.items() if name != "genes"},
        parts | {"indices": parts["indices"] + 8},
        parts | {"patients": parts["patients"][1:]},
        parts | {"labels": np.array([{}], dtype=object)},
    ):
        np.savez(tmp_path / "wrong.npz", **wrong)
        with pytest.raises(InvalidFileError, match=r": delete it|never loaded"):
            load_gene_table(tmp_path / "wrong.npz")
