r"""GraphHeat: graph convolution with the heat kernel (Xu, Shen, Cao, Cen and Cheng, IJCAI 2019)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from condiff.errors import InvalidInputError
from condiff.graph import Graph
from condiff.graph.sparse import SparseMatrix, dropout
from condiff.reproduce.baselines.node.field import PerPart
from condiff.reproduce.baselines.node.method import HiddenLayerMethod, NodeNetwork
from condiff.reproduce.baselines.node.problem import NodeProblem
from condiff.reproduce.baselines.node.products import symmetric_product
from condiff.reproduce.baselines.node.spectral import Filter, once_per_graph
from condiff.reproduce.runs import NO_CONDITION, Condition

#: Heat time and threshold.
_AUTHORS = {"cora": (3.5, 1e-4), "citeseer": (4.5, 1e-5), "pubmed": (3.0, 1e-5)}


@dataclass(frozen=True)
class GraphHeat(HiddenLayerMethod):
    r"""Two layers :math:`H X W + X V`, where :math:`H` is the heat kernel :math:`e^{-s L}` without small entries.

    :math:`L = I - D^{-1/2} A D^{-1/2}`. As in the authors' code, :math:`H` has no diagonal, because a node's own
    features have the weights :math:`V`, and there is no bias; relu, 16 hidden units, dropout 0.5 before both layers,
    and weight decay 5e-4 on the first layer only. Pubmed's time and threshold are the code's
    defaults; the other two are believed to be the paper's, but were not checked against it.

    Parameters
    ----------
    heat_time
        :math:`s`.
    threshold
        The least entry of the kernel that stays.
    hidden
        Hidden units.
    dropout
        Probability with which inputs of a layer are dropped in training.
    """

    heat_time: float = 3.5
    threshold: float = 1e-4

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.heat_time < math.inf:
            raise InvalidInputError(f"GraphHeat's heat_time must be finite and not negative, not {self.heat_time}")
        if not 0 < self.threshold < math.inf:
            raise InvalidInputError(f"GraphHeat's threshold must be positive, not {self.threshold}")

    @classmethod
    def recommended(cls, dataset: str, condition: Condition = NO_CONDITION) -> Self:
        if dataset not in _AUTHORS:
            return cls()
        heat_time, threshold = _AUTHORS[dataset]
        return cls(heat_time=heat_time, threshold=threshold)

    def network(self, problem: NodeProblem) -> NodeNetwork:
        return _Network(problem, self)


@once_per_graph
def heat_kernel(graph: Graph, heat_time: float, threshold: float) -> tuple[sp.csr_array, SparseMatrix]:
    """The heat kernel without its diagonal and without entries below the threshold, for two ways of using it."""

    def response(eigenvalues: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.exp(-heat_time * (1 - eigenvalues))

    rows = []
    for block, columns in Filter(graph.normalised("symmetric", self_loops="remove").weights, response).columns():
        columns[torch.arange(block.start, block.stop), torch.arange(columns.shape[1])] = 0.0
        rows.append(sp.csr_array(torch.where(columns >= threshold, columns, 0.0).T.numpy()))
    kernel = sp.csr_array(sp.vstack(rows))
    # Rounding may leave one of two mirrored entries on either side of the threshold.
    kernel = sp.csr_array((kernel + kernel.T) * np.float32(0.5))
    return kernel, SparseMatrix.of(kernel)


class _Network(NodeNetwork):
    def __init__(self, problem: NodeProblem, settings: GraphHeat) -> None:
        super().__init__()
        rows, self.kernel = heat_kernel(problem.graph, settings.heat_time, settings.threshold)
        # The kernel reaches far, so that the first layer is needed almost everywhere, but the second one is not.
        self.parts = PerPart(lambda nodes: SparseMatrix.of(rows[nodes.numpy()]))
        self.x, self.dropout = problem.x, settings.dropout
        # Weights for what comes over the kernel and for the node itself, side by side: one product makes both.
        self.first = nn.Parameter(_glorot(problem.n_features, settings.hidden))
        self.second = nn.Parameter(_glorot(settings.hidden, problem.n_classes))

    def decayed(self) -> Iterable[nn.Parameter]:
        return (self.first,)

    def forward(self) -> Tensor:
        over_kernel, own = self._hidden()
        return torch.log_softmax(symmetric_product(self.kernel, over_kernel) + own, dim=-1)

    def at(self, nodes: Tensor) -> Tensor:
        over_kernel, own = self._hidden()
        return torch.log_softmax(self.parts.of(nodes) @ over_kernel + own[nodes], dim=-1)

    def _hidden(self) -> tuple[Tensor, Tensor]:
        over_kernel, own = _halves(self.x.dropped(self.dropout, self.training) @ self.first)
        hidden = torch.relu(symmetric_product(self.kernel, over_kernel) + own)
        return _halves(dropout(hidden, self.dropout, self.training) @ self.second)


def _halves(both: Tensor) -> tuple[Tensor, Tensor]:
    first, second = both.chunk(2, dim=1)
    return first.contiguous(), second


def _glorot(inputs: int, outputs: int) -> Tensor:
    return torch.cat([nn.init.xavier_uniform_(torch.empty(inputs, outputs)) for _ in range(2)], dim=1)
