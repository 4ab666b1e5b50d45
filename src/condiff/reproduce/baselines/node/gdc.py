r"""Graph diffusion convolution (Gasteiger, Weissenberger and Günnemann, NeurIPS 2019) before a GCN."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Literal, Self

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from condiff.errors import InvalidInputError
from condiff.graph import Graph
from condiff.graph.sparse import dropout
from condiff.reproduce.baselines.node.field import Field, FieldNetwork
from condiff.reproduce.baselines.node.method import HiddenLayerMethod, NodeNetwork
from condiff.reproduce.baselines.node.problem import NodeProblem
from condiff.reproduce.baselines.node.spectral import Filter, once_per_graph
from condiff.reproduce.runs import NO_CONDITION, Condition
from condiff.training.settings import NODE, Training

Kernel = Literal["pagerank", "heat"]

#: Teleport probability, neighbours or threshold, and weight decay for personalised PageRank before a GCN. The authors
#: do not scale the features. Rows that were divided by their sum r call for weights r times as large, so that their
#: decays of 0.096 and 10 are divided by the squared mean of r, 18.3 for Cora and 31.9 for Citeseer. For Pubmed, whose
#: words they weigh and the protocol does not, this gives no answer: its decay did best on validation nodes.
_AUTHORS: dict[str, tuple[float, int | None, float, float]] = {
    "cora": (0.05, 128, 0.0, 2.867e-4),
    "citeseer": (0.05, None, 0.0009, 9.818e-3),
    "pubmed": (0.10, 64, 0.0, 5e-4),
}


@dataclass(frozen=True)
class GDC(HiddenLayerMethod):
    r"""A GCN on the graph of :math:`\alpha (I - (1 - \alpha) S)^{-1}` or :math:`e^{-t (I - S)}`, made sparse.

    :math:`S = D^{-1/2}(A + I)D^{-1/2}`. Of every column the largest entries stay, are divided by their sum, and
    make the edges along which a GCN with its usual normalisation averages. Settings of the authors' configuration file
    for Cora: 64 hidden units, dropout 0.5 on those only, and weight decay on the first layer only. Teleport and
    sparsity for the other two are believed to be those of their appendix, but were not checked against it.

    Parameters
    ----------
    kernel
        ``pagerank`` or ``heat``.
    teleport
        :math:`\alpha` of personalised PageRank.
    heat_time
        :math:`t` of the heat kernel.
    neighbours
        Entries of a column that stay; None keeps all from ``threshold`` on.
    threshold
        The least entry that stays; without effect where ``neighbours`` are counted.
    hidden
        Hidden units.
    dropout
        Probability with which hidden units are dropped in training.
    """

    kernel: Kernel = "pagerank"
    teleport: float = 0.05
    heat_time: float = 5.0
    neighbours: int | None = 128
    threshold: float = 0.0
    hidden: int = 64
    training: Training = field(default=replace(NODE, weight_decay=2.867e-4))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.kernel not in ("pagerank", "heat"):
            raise InvalidInputError(f"GDC's kernel must be 'pagerank' or 'heat', not {self.kernel!r}")
        if not 0 < self.teleport <= 1:
            raise InvalidInputError(f"GDC's teleport must be above 0 and at most 1, not {self.teleport}")
        if not 0 <= self.heat_time < math.inf:
            raise InvalidInputError(f"GDC's heat_time must be finite and not negative, not {self.heat_time}")
        if self.neighbours is None and not self.threshold > 0:
            raise InvalidInputError("GDC needs a number of neighbours or a positive threshold, or nothing is dropped")
        if self.neighbours is not None and self.neighbours < 1:
            raise InvalidInputError(f"GDC's neighbours must be at least 1, not {self.neighbours}")

    @classmethod
    def recommended(cls, dataset: str, condition: Condition = NO_CONDITION) -> Self:
        if dataset not in _AUTHORS:
            return cls()
        teleport, neighbours, threshold, decay = _AUTHORS[dataset]
        training = replace(NODE, weight_decay=decay)
        return cls(teleport=teleport, neighbours=neighbours, threshold=threshold, training=training)

    def network(self, problem: NodeProblem) -> NodeNetwork:
        strength = self.teleport if self.kernel == "pagerank" else self.heat_time
        edges = diffusion_graph(problem.graph, self.kernel, strength, self.neighbours, self.threshold)
        return _Network(problem, edges, self.hidden, self.dropout)


@once_per_graph
def diffusion_graph(
    graph: Graph, kernel: Kernel, strength: float, neighbours: int | None, threshold: float
) -> sp.csr_array:
    """The matrix along which the GCN averages: row i holds what is left of column i of the diffusion kernel."""

    def response(eigenvalues: NDArray[np.float64]) -> NDArray[np.float64]:
        if kernel == "pagerank":
            return np.asarray(strength / (1 - (1 - strength) * eigenvalues))
        return np.exp(-strength * (1 - eigenvalues))

    adjacency = graph.normalised("symmetric", self_loops="add").weights
    rows = [_sparse(block.T, neighbours, threshold) for _, block in Filter(adjacency, response).columns()]
    kept = sp.csr_array(sp.vstack(rows))
    kept = _scaled(kept, 1 / _positive(kept.sum(axis=1)))
    # The GCN's normalisation of a directed graph, by how much leaves a node, as the authors' code has it.
    leaves = _positive(kept.sum(axis=0)) ** -0.5
    return sp.csr_array(_scaled(sp.csr_array(_scaled(kept, leaves).T), leaves).T)


def _sparse(rows: Tensor, neighbours: int | None, threshold: float) -> sp.csr_array:
    if neighbours is None:
        return sp.csr_array(torch.where(rows >= threshold, rows, 0.0).numpy())
    values, columns = rows.topk(min(neighbours, rows.shape[1]), dim=1)
    starts = np.arange(rows.shape[0] + 1) * values.shape[1]
    data = values.clamp(min=0.0).numpy().ravel()
    return sp.csr_array((data, columns.numpy().ravel(), starts), shape=tuple(rows.shape))


def _scaled(matrix: sp.csr_array, rows: NDArray[np.float64]) -> sp.csr_array:
    return sp.csr_array(sp.diags_array(rows) @ matrix)


def _positive(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sums to divide by: a node that lost all its entries keeps its zeros."""
    return np.where(sums > 0, sums, 1.0)


class _Network(FieldNetwork):
    def __init__(self, problem: NodeProblem, edges: sp.csr_array, hidden: int, dropout: float) -> None:
        super().__init__(problem, edges)
        self.dropout = dropout
        self.first = nn.Parameter(nn.init.xavier_uniform_(torch.empty(problem.n_features, hidden)))
        self.first_bias = nn.Parameter(torch.zeros(hidden))
        self.second = nn.Parameter(nn.init.xavier_uniform_(torch.empty(hidden, problem.n_classes)))
        self.second_bias = nn.Parameter(torch.zeros(problem.n_classes))

    def decayed(self) -> Iterable[nn.Parameter]:
        return (self.first, self.first_bias)

    def scores(self, field: Field) -> Tensor:
        inner, outer = (step.matrix for step in field.steps)
        hidden = torch.relu(inner @ (field.x @ self.first) + self.first_bias)
        hidden = dropout(hidden, self.dropout, self.training)
        return torch.log_softmax(outer @ (hidden @ self.second) + self.second_bias, dim=-1)
