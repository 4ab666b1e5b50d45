"""The input of node classification methods."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from condiff.graph import Graph
from condiff.graph.sparse import SparseMatrix

if TYPE_CHECKING:
    import scipy.sparse as sp


@dataclass(frozen=True, eq=False)
class NodeProblem:
    """One graph and one split of it, as a method sees them: the labels of test nodes are not in it.

    Parameters
    ----------
    dataset
        Its name, for hyper-parameters that a method's authors recommend for it.
    graph
        Undirected 0/1 or weighted edges, without self-loops and not normalised.
    features
        (n, p), already scaled as the protocol says.
    labels
        (n,) classes counted from 0; -1 for every node outside of ``train`` and ``validation``.
    n_classes
        The number of classes.
    train, validation
        Indices of nodes, as int64.
    """

    dataset: str
    graph: Graph
    features: sp.csr_array
    labels: Tensor
    n_classes: int
    train: Tensor
    validation: Tensor

    @property
    def n_nodes(self) -> int:
        """The number of nodes."""
        return self.graph.n_nodes

    @property
    def n_features(self) -> int:
        """The number of features of a node."""
        return int(self.features.shape[1])

    @cached_property
    def x(self) -> SparseMatrix:
        """The features as a differentiable sparse matrix, float32."""
        return SparseMatrix.of(self.features)

    @cached_property
    def x_csr(self) -> Tensor:
        """The features as torch's own CSR tensor, for a network that reads it without gradient."""
        pattern = self.x.pattern
        return torch.sparse_csr_tensor(
            pattern.crow_indices, pattern.col_indices, self.x.values, self.x.shape, check_invariants=False
        )

    @cached_property
    def x_dense(self) -> Tensor:
        """The features as a dense float32 tensor."""
        return torch.from_numpy(self.features.toarray()).float()

    @cached_property
    def propagation(self) -> SparseMatrix:
        """``D^-1/2 (A + I) D^-1/2``, the matrix of GCN and many after it."""
        return SparseMatrix.of(self.graph.normalised("symmetric", self_loops="add").weights)
