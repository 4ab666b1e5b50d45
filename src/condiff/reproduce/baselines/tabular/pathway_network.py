"""The network of P-NET: genes, then layers of pathways with sparse weights, and a head on each of them."""

from __future__ import annotations

import math
from typing import NamedTuple

import scipy.sparse as sp
import torch
from torch import Tensor, nn

from condiff.errors import InvalidInputError
from condiff.graph.sparse import SparseMatrix, dropout


class Inputs(NamedTuple):
    """The features of some patients that are not zero: of whom, which, and their values."""

    patients: Tensor
    columns: Tensor
    values: Tensor
    n_patients: int

    @classmethod
    def of(cls, features: sp.csr_array) -> Inputs:
        """Those of a table's rows."""
        entries = features.tocoo()
        rows, columns = (torch.from_numpy(each).long() for each in (entries.row, entries.col))
        return cls(rows, columns, torch.from_numpy(entries.data).float(), features.shape[0])


class PathwayNetwork(nn.Module):
    r"""The network of :class:`condiff.reproduce.baselines.tabular.pnet.PNet`.

    Weights start uniform within :math:`\sqrt{3 / f}`, with f the square root of their number in the layer, which is
    what the authors' Keras takes for a vector; those of a head within Glorot's limit; biases at zero.

    Parameters
    ----------
    genes, kinds
        Their numbers.
    pathways
        0/1 matrices (units below, pathways), the first from the genes.
    """

    def __init__(self, genes: int, kinds: int, pathways: tuple[sp.csr_array, ...]) -> None:
        super().__init__()
        below = genes
        for matrix in pathways:
            if matrix.shape[0] != below:
                raise InvalidInputError(f"a layer of pathways reads {matrix.shape[0]} units, but has {below} below it")
            below = matrix.shape[1]
        # A unit of a layer is a row: sparse times dense is one product.
        self.patterns = [SparseMatrix.of(matrix.T).pattern for matrix in pathways]
        sizes = [genes, *(matrix.shape[1] for matrix in pathways)]
        numbers = [genes * kinds, *(pattern.col_indices.shape[0] for pattern in self.patterns)]
        self.kernels = nn.ParameterList(_uniform(number, math.sqrt(3 / math.sqrt(number))) for number in numbers)
        self.biases = nn.ParameterList(nn.Parameter(torch.zeros(size)) for size in sizes)
        self.heads = nn.ParameterList(_uniform(size, math.sqrt(6 / (size + 1))) for size in sizes)
        self.head_biases = nn.Parameter(torch.zeros(len(sizes)))
        self.kinds = kinds

    def forward(self, x: Inputs, gene_dropout: float = 0.0, pathway_dropout: float = 0.0) -> Tensor:
        """The output of every head for some patients, before its sigmoid: (heads, patients)."""
        places = x.columns // self.kinds * x.n_patients + x.patients
        genes = self.biases[0].repeat_interleave(x.n_patients)
        genes = genes.index_add(0, places, self.kernels[0][x.columns] * x.values)
        h = torch.tanh(genes.view(-1, x.n_patients))
        logits = [self.heads[0] @ h]
        layers = zip(self.patterns, self.kernels[1:], self.biases[1:], self.heads[1:], strict=True)
        probability = gene_dropout
        for pattern, kernel, bias, head in layers:
            matrix = SparseMatrix(pattern, kernel)
            h = torch.tanh(matrix @ dropout(h, probability) + bias[:, None])
            logits.append(head @ h)
            probability = pathway_dropout
        return torch.stack(logits) + self.head_biases[:, None]

    @torch.no_grad()
    def scores(self, x: Inputs) -> Tensor:
        """The mean of the heads' probabilities, (n,)."""
        return torch.sigmoid(self(x)).mean(0)


def _uniform(number: int, limit: float) -> nn.Parameter:
    return nn.Parameter(torch.empty(number).uniform_(-limit, limit))
