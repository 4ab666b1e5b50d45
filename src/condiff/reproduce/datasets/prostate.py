"""The P1000 prostate cancers: primary or metastatic, by the genes that are mutated, deleted or amplified.

Armenia et al. (2018) published the alterations, Elmarakeby et al. (2021) chose the genes and the three kinds, and the
paper's authors drew the splits.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from condiff.errors import InvalidFileError, InvalidInputError, MissingDependencyError
from condiff.files import cache_folder
from condiff.reproduce.datasets.gene_files import (
    Alterations,
    read_alterations,
    read_column,
    read_coordinates,
    read_response,
    read_splits,
)
from condiff.reproduce.datasets.gene_table import GeneTable, load_gene_table, save_gene_table
from condiff.reproduce.datasets.sources import DATASETS, fetch

if TYPE_CHECKING:
    from numpy.typing import NDArray

KINDS = ("mutation", "deep deletion", "high amplification")
MUTATIONS = "P1000_final_analysis_set_cross_important_only.csv.gz"
COPY_NUMBERS = "P1000_data_CNA_paper.csv.gz"
RESPONSE = "response_paper.csv"
EXPRESSED = "tcga_prostate_expressed_genes_and_cancer_genes.csv"
CODING = "protein-coding_gene_with_coordinate_minimal.txt"

_PATIENTS, _GENES, _SPLITS = 1_011, 9_229, 10
# Part of the cached file's name: raise it whenever `read_tables` gives another table for the same files.
_VERSION = 1


def load() -> GeneTable:
    """Load the 1,011 patients with their 9,229 genes, 27,687 features and the paper's ten splits.

    The published text files take seconds to parse, so the result is kept in the cache folder under the checksums of
    those files.
    """
    paths = fetch("prostate")
    kept = _kept()
    if kept is not None:
        # Whatever is wrong with the cached file, the published ones are still there.
        with contextlib.suppress(InvalidFileError):
            return _checked(load_gene_table(kept))
    table = _checked(read_tables(paths))
    if kept is not None:
        # A cache that cannot be written only costs time at the next load.
        with contextlib.suppress(OSError):
            save_gene_table(table, kept)
    return table


def read_tables(paths: Iterable[Path]) -> GeneTable:
    """Put the published text files together; they are recognised by their names.

    - Patients are those with a row of mutations, a row of copy numbers and a response.
    - Genes are those of either table that are in the list of expressed and cancer genes and in the list of coding
      genes; where one table lacks a gene, no patient has that alteration. They stand in the order of the paper's code,
      the alphabetical one shuffled with the seed 0: only so does a seed give a network the paper's initial weights.
    - A gene counts as mutated with at least one mutation, as deeply deleted at the copy number -2, and as highly
    amplified
      at 2; single losses and gains do not count.
    - A patient of a split without a row in both tables is left out of it.
    """
    files = {path.name: path for path in paths}
    for name in (MUTATIONS, COPY_NUMBERS, RESPONSE, EXPRESSED, CODING):
        if name not in files:
            raise InvalidInputError(f"there is no {name} among the files: give all of the data set")
    mutations = read_alterations(files[MUTATIONS], 0, np.inf)
    copies = read_alterations(files[COPY_NUMBERS], -2, 2)
    response = read_response(files[RESPONSE])

    listed = read_column(files[EXPRESSED], "genes") & read_coordinates(files[CODING])
    genes = sorted(listed.intersection([*mutations.genes, *copies.genes]))
    if not genes:
        raise InvalidInputError(f"no gene of the tables is in both {EXPRESSED} and {CODING}: check their names")
    genes = [genes[place] for place in np.random.RandomState(0).permutation(len(genes))]
    complete = set(copies.patients) & response.keys()
    patients = [patient for patient in mutations.patients if patient in complete]
    if not patients:
        raise InvalidInputError(f"no patient is in {MUTATIONS}, {COPY_NUMBERS} and {RESPONSE}: check their names")

    cells = [
        _cells(mutations, mutations.entries.data > 0, patients, genes, 0),
        _cells(copies, copies.entries.data == -2, patients, genes, 1),
        _cells(copies, copies.entries.data == 2, patients, genes, 2),
    ]
    # Narrow indices, because scikit-learn takes no others.
    rows, columns = (np.concatenate(parts).astype(np.int32) for parts in zip(*cells, strict=True))
    features = sp.csr_array((np.ones(rows.size), (rows, columns)), shape=(len(patients), len(genes) * len(KINDS)))
    features.sort_indices()
    labels = np.array([response[patient] for patient in patients], dtype=np.int64)
    splits = read_splits(files, patients, response)
    return GeneTable(features, labels, tuple(patients), tuple(genes), KINDS, splits)


def _cells(
    table: Alterations, altered: NDArray[np.bool_], patients: Sequence[str], genes: Sequence[str], kind: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows and columns of the features that are one, for one kind of alteration."""
    rows = _places(table.patients, patients)[table.entries.row]
    columns = _places(table.genes, genes)[table.entries.col]
    kept = altered & (rows >= 0) & (columns >= 0)
    return rows[kept], columns[kept] * len(KINDS) + kind


def _places(names: Iterable[str], among: Sequence[str]) -> NDArray[np.int64]:
    """Where each name stands among the others, -1 where it does not."""
    place = {name: index for index, name in enumerate(among)}
    return np.array([place.get(name, -1) for name in names], dtype=np.int64)


def _kept() -> Path | None:
    """Where the parsed table is kept, or None where there is no cache folder."""
    digest = hashlib.sha256(f"gene table {_VERSION}".encode())
    for file in DATASETS["prostate"].files:
        digest.update(f" {file.name} {file.sha256}".encode())
    try:
        return cache_folder() / "parsed" / f"prostate-{digest.hexdigest()[:16]}.npz"
    except MissingDependencyError:
        return None


def _checked(table: GeneTable) -> GeneTable:
    found = (*table.features.shape, *table.labels.shape, len(table.splits))
    if found != (_PATIENTS, _GENES * len(KINDS), _PATIENTS, _SPLITS):
        raise InvalidFileError(f"the prostate tables gave {found} patients, features, labels and splits")
    return table
