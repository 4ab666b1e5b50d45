"""The input of methods for tables of patients."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    import scipy.sparse as sp


@dataclass(frozen=True, eq=False)
class TabularProblem:
    """One table and one split of it, as a method sees them: the labels of test patients are not in it.

    Parameters
    ----------
    dataset
        Its name, for hyper-parameters that a method's authors recommend for it.
    features
        (n, genes * kinds), 0/1; the kinds of a gene stand side by side.
    kinds
        Features of a gene.
    labels
        (n,), 0 or 1; -1 for every patient outside of ``train`` and ``validation``.
    train, validation, test
        Indices of patients, as int64.
    pathways
        For P-NET: 0/1 matrices (units below, pathways), the first from the genes, each next one from the layer before.
    """

    dataset: str
    features: sp.csr_array
    kinds: int
    labels: Tensor
    train: Tensor
    validation: Tensor
    test: Tensor
    pathways: tuple[sp.csr_array, ...] = ()

    @property
    def n_patients(self) -> int:
        """The number of patients."""
        return int(self.features.shape[0])

    @property
    def n_genes(self) -> int:
        """The number of genes."""
        return int(self.features.shape[1]) // self.kinds

    @cached_property
    def seen(self) -> sp.csr_array:
        """The features of all patients, without the columns that are zero for every training patient."""
        return self.features[:, np.unique(self.features[self.train.numpy()].indices)]

    @cached_property
    def x_csr(self) -> Tensor:
        """The features as torch's own CSR tensor, for a network that reads it without gradient."""
        parts = (self.features.indptr, self.features.indices, self.features.data)
        crow, columns, values = map(torch.from_numpy, parts)
        return torch.sparse_csr_tensor(crow, columns, values.float(), self.features.shape, check_invariants=False)
