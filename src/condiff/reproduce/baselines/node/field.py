"""What a network must compute to score some nodes only: their receptive field, cut out of graph and features.

Two graph convolutions at 60 nodes of Pubmed see a seventh of its 19,717 nodes. The scores are those of the whole graph.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from condiff.graph.sparse import SparseMatrix
from condiff.reproduce.baselines.node.method import NodeNetwork
from condiff.reproduce.baselines.node.problem import NodeProblem

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Step:
    """One layer's view of the graph.

    Parameters
    ----------
    matrix
        (outputs, inputs), the rows and columns that this layer needs.
    own
        Where each output node stands among the inputs.
    """

    matrix: SparseMatrix
    own: Tensor | slice


@dataclass(frozen=True, eq=False)
class Field:
    """The features that the first layer needs, and the steps of all layers in their order."""

    x: SparseMatrix
    steps: tuple[Step, ...]


def whole_field(x: SparseMatrix, matrix: SparseMatrix, layers: int) -> Field:
    """The field of all nodes."""
    return Field(x, (Step(matrix, slice(None)),) * layers)


def receptive_field(features: sp.csr_array, matrix: sp.csr_array, nodes: Tensor, layers: int) -> Field:
    """The field of some nodes, for a network that applies the matrix once per layer."""
    outputs, steps = nodes.numpy(), []
    for _ in range(layers):
        rows = matrix[outputs]
        inputs = np.union1d(outputs, rows.indices)
        steps.append(Step(SparseMatrix.of(rows[:, inputs]), torch.from_numpy(np.searchsorted(inputs, outputs))))
        outputs = inputs
    return Field(SparseMatrix.of(features[outputs]), tuple(reversed(steps)))


class FieldNetwork(NodeNetwork):
    """A network that applies one matrix of the graph once per layer, and computes no more than what is asked for.

    Parameters
    ----------
    problem
        Whose features it reads.
    matrix
        That of a layer, (nodes, nodes).
    layers
        How many there are.
    """

    def __init__(self, problem: NodeProblem, matrix: sp.csr_array, layers: int = 2) -> None:
        super().__init__()
        self.whole = whole_field(problem.x, SparseMatrix.of(matrix), layers)
        self.fields = PerPart(lambda nodes: receptive_field(problem.features, matrix, nodes, layers))

    @abstractmethod
    def scores(self, field: Field) -> Tensor:
        """Log-probabilities of a field's nodes."""

    def forward(self) -> Tensor:
        return self.scores(self.whole)

    def at(self, nodes: Tensor) -> Tensor:
        return self.scores(self.fields.of(nodes))


class PerPart(Generic[T]):
    """Something worked out once for each tensor of nodes that is asked for, of which there are but a few.

    Parameters
    ----------
    make
        Works it out for the indices of some nodes.
    """

    def __init__(self, make: Callable[[Tensor], T]) -> None:
        self._make = make
        self._known: list[tuple[Tensor, T]] = []

    def of(self, nodes: Tensor) -> T:
        """That of these nodes; the same tensor is recognised, an equal one is not."""
        for known, made in self._known:
            if known is nodes:
                return made
        self._known.append((nodes, self._make(nodes)))
        return self._known[-1][1]
