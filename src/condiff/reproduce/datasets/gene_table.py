"""Patients described by their altered genes, and the file that keeps them parsed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy.sparse as sp

from condiff.files import atomic_path, refusing
from condiff.readers.arrays import NpzArrays

if TYPE_CHECKING:
    from numpy.typing import NDArray

_PARTS = ("train", "validation", "test")


class PublishedSplit(NamedTuple):
    """Ascending indices of the patients that train, that validate, and that test."""

    train: NDArray[np.int64]
    validation: NDArray[np.int64]
    test: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class GeneTable:
    """Patients, each with 0/1 features for every gene and kind of alteration.

    Parameters
    ----------
    features
        (patients, genes * kinds), 0/1; the kinds of a gene stand side by side.
    labels
        (patients,): 0 for a primary cancer, 1 for a metastatic one.
    patients, genes, kinds
        What rows and columns are called.
    splits
        The splits that were published with the table.
    """

    features: sp.csr_array
    labels: NDArray[np.int64]
    patients: tuple[str, ...]
    genes: tuple[str, ...]
    kinds: tuple[str, ...]
    splits: tuple[PublishedSplit, ...]


def save_gene_table(table: GeneTable, path: Path) -> None:
    """Write a table as an NPZ file of plain arrays, atomically."""
    arrays = {
        "indices": table.features.indices,
        "indptr": table.features.indptr,
        "labels": table.labels,
        "patients": np.array(table.patients),
        "genes": np.array(table.genes),
        "kinds": np.array(table.kinds),
    }
    for number, split in enumerate(table.splits):
        arrays |= {f"{part}_{number}": getattr(split, part) for part in _PARTS}
    with atomic_path(path) as temporary, temporary.open("wb") as stream:
        np.savez_compressed(stream, **arrays)


def load_gene_table(path: Path) -> GeneTable:
    """Read what :func:`save_gene_table` wrote."""
    with refusing(path, "a readable gene table", "delete it"):
        with NpzArrays(path, "delete it") as archive:
            arrays = dict(archive)
        patients, genes, kinds = (tuple(arrays[name].tolist()) for name in ("patients", "genes", "kinds"))
        ones = np.ones(len(arrays["indices"]))
        shape = (len(patients), len(genes) * len(kinds))
        features = sp.csr_array((ones, arrays["indices"], arrays["indptr"]), shape=shape)
        features.check_format(full_check=True)
        number = sum(key.startswith(f"{_PARTS[0]}_") for key in arrays)
        splits = tuple(PublishedSplit(*(arrays[f"{part}_{i}"] for part in _PARTS)) for i in range(number))
        return GeneTable(features, arrays["labels"], patients, genes, kinds, splits)
