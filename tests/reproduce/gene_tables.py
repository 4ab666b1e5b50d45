"""A made-up table of patients for the protocol and what is drawn from it."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from condiff.reproduce.datasets.gene_table import GeneTable, PublishedSplit


def small_table(n: int = 210, genes: int = 10, seed: int = 0) -> GeneTable:
    """Two thirds of the patients are of class 0; in the others the first gene is often amplified."""
    generator = np.random.default_rng(seed)
    labels = (np.arange(n) % 3 == 0).astype(np.int64)
    chance = np.full((n, genes * 3), 0.1)
    chance[labels == 1, 2] = 0.9
    features = sp.csr_array((generator.random(chance.shape) < chance).astype(float))
    order = generator.permutation(n)
    splits = tuple(
        PublishedSplit(*(np.sort(part) for part in np.split(np.roll(order, 30 * number), (15, 45))))
        for number in (0, 1)
    )
    names = tuple(f"G{number}" for number in range(genes))
    patients = tuple(f"P{number}" for number in range(n))
    return GeneTable(features, labels, patients, names, ("mutation", "deep deletion", "high amplification"), splits)
