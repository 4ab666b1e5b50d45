r"""Decoupled graph convolution (Wang, Wang, Yang and Lin, NeurIPS 2021)."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from condiff.errors import InvalidInputError
from condiff.graph import Graph
from condiff.reproduce.baselines.method import check_counts
from condiff.reproduce.baselines.node.field import PerPart
from condiff.reproduce.baselines.node.method import NetworkMethod, NodeNetwork
from condiff.reproduce.baselines.node.problem import NodeProblem
from condiff.reproduce.baselines.node.spectral import Filter, once_per_graph
from condiff.reproduce.runs import NO_CONDITION, Condition
from condiff.training.settings import NODE, Training

#: Terminal time, steps, learning rate and weight decay of the authors' script.
_AUTHORS = {
    "cora": (5.27, 250, 0.156, 3.544e-5),
    "citeseer": (3.78, 300, 1.39, 2e-4),
    "pubmed": (6.0498, 900, 0.627, 9.38e-6),
}


@dataclass(frozen=True)
class DGC(NetworkMethod):
    r"""Logistic regression on diffused features, :math:`((1 - T/K) I + (T/K) S)^K X`.

    :math:`S = D^{-1/2}(A + I)D^{-1/2}`. Time, steps, learning rate and weight decay are those of the authors'
    repository (``run_citation.sh``); weight and bias both decay, and there is no dropout.

    Parameters
    ----------
    terminal_time
        :math:`T`, how long the features diffuse.
    steps
        :math:`K`, the steps of Euler's scheme.
    """

    terminal_time: float = 5.27
    steps: int = 250
    training: Training = field(default=replace(NODE, learning_rate=0.156, weight_decay=3.544e-5))

    def __post_init__(self) -> None:
        check_counts(steps=self.steps)
        if not 0 <= self.terminal_time < math.inf:
            raise InvalidInputError(f"terminal_time must be finite and not negative, not {self.terminal_time}")
        if self.terminal_time > self.steps:
            raise InvalidInputError(
                f"{self.steps} steps of DGC are unstable for a terminal_time of {self.terminal_time}: "
                f"take at least {math.ceil(self.terminal_time)}"
            )

    @classmethod
    def recommended(cls, dataset: str, condition: Condition = NO_CONDITION) -> Self:
        if dataset not in _AUTHORS:
            return cls()
        terminal_time, steps, rate, decay = _AUTHORS[dataset]
        training = replace(NODE, learning_rate=rate, weight_decay=decay)
        return cls(terminal_time=terminal_time, steps=steps, training=training)

    def network(self, problem: NodeProblem) -> NodeNetwork:
        return _Network(diffused(problem.graph, problem.features, self.terminal_time, self.steps), problem.n_classes)


@once_per_graph
def diffused(graph: Graph, features: sp.csr_array, terminal_time: float, steps: int) -> Tensor:
    """The features after the diffusion, (n, p); a polynomial of degree ``steps``, of which far fewer terms matter."""

    def response(eigenvalues: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray((1 - terminal_time / steps * (1 - eigenvalues)) ** steps)

    return Filter(graph.normalised("symmetric", self_loops="add").weights, response).of_sparse(features)


class _Network(NodeNetwork):
    def __init__(self, x: Tensor, n_classes: int) -> None:
        super().__init__()
        self.x = x
        # Nodes do not meet any more after the diffusion, so training need only see those with a label.
        self.parts = PerPart(lambda nodes: x[nodes])
        self.linear = nn.Linear(x.shape[1], n_classes)

    def forward(self) -> Tensor:
        return torch.log_softmax(self.linear(self.x), dim=-1)

    def at(self, nodes: Tensor) -> Tensor:
        return torch.log_softmax(self.linear(self.parts.of(nodes)), dim=-1)
