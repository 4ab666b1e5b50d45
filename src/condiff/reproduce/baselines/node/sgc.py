r"""Simple graph convolution (Wu et al., ICML 2019)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import scipy.sparse as sp
import torch
from torch import Tensor, nn

from condiff.graph.sparse import SparseMatrix
from condiff.reproduce.baselines.method import check_counts
from condiff.reproduce.baselines.node.field import PerPart
from condiff.reproduce.baselines.node.method import NetworkMethod, NodeNetwork
from condiff.reproduce.baselines.node.problem import NodeProblem
from condiff.reproduce.runs import NO_CONDITION, Condition
from condiff.training.settings import NODE, Training

if TYPE_CHECKING:
    from typing import Self

# What the authors' search on the validation nodes found; 5e-6 is the default of their code.
_WEIGHT_DECAY = {"cora": 1.3026973714043257e-05, "citeseer": 2.3545587233182368e-05, "pubmed": 7.403929623323868e-05}


@dataclass(frozen=True)
class SGC(NetworkMethod):
    r"""Logistic regression on smoothed features: :math:`\log\mathrm{softmax}(S^K X W + b)`.

    :math:`S = D^{-1/2}(A + I)D^{-1/2}`. As in the paper and its code: two steps, learning rate 0.2, no dropout, and a
    weight decay of its own for every data set.

    Parameters
    ----------
    steps
        The power K.
    """

    training: Training = field(default=replace(NODE, learning_rate=0.2, weight_decay=5e-6))
    steps: int = 2

    def __post_init__(self) -> None:
        check_counts(steps=self.steps)

    @classmethod
    def recommended(cls, dataset: str, condition: Condition = NO_CONDITION) -> Self:
        method = cls()
        decay = _WEIGHT_DECAY.get(dataset, method.training.weight_decay)
        return replace(method, training=replace(method.training, weight_decay=decay))

    def network(self, problem: NodeProblem) -> NodeNetwork:
        return _Network(problem, self.steps)


class _Network(NodeNetwork):
    def __init__(self, problem: NodeProblem, steps: int) -> None:
        super().__init__()
        self.x, self.propagation, self.steps = problem.x, problem.propagation, steps
        # Training needs the smoothed features of the labelled nodes only: these rows of S^K X, from the left.
        self.parts = PerPart(lambda nodes: _smoothed(problem, nodes, steps))
        bound = 1 / math.sqrt(problem.n_features)
        self.weight = nn.Parameter(torch.empty(problem.n_features, problem.n_classes).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(problem.n_classes).uniform_(-bound, bound))

    def forward(self) -> Tensor:
        # For all nodes at once it is cheaper to smooth the few classes than the many features.
        scores = self.x @ self.weight
        for _ in range(self.steps):
            scores = self.propagation @ scores
        return torch.log_softmax(scores + self.bias, dim=-1)

    def at(self, nodes: Tensor) -> Tensor:
        return torch.log_softmax(self.parts.of(nodes) @ self.weight + self.bias, dim=-1)


def _smoothed(problem: NodeProblem, nodes: Tensor, steps: int) -> SparseMatrix:
    step = problem.graph.normalised("symmetric", self_loops="add").weights
    rows = sp.csr_array(sp.eye_array(problem.n_nodes, format="csr")[nodes.numpy()])
    for _ in range(steps):
        rows = rows @ step
    return SparseMatrix.of(rows @ problem.features)
