"""Continuous graph neural networks (Xhonneux, Qu and Tang, ICML 2020)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import scipy.sparse as sp
import torch
from torch import Tensor, nn

from condiff.errors import InvalidInputError
from condiff.graph import Graph
from condiff.graph.sparse import SparseMatrix
from condiff.reproduce.baselines.node.method import NetworkMethod, NodeNetwork
from condiff.reproduce.baselines.node.ode import Solver, chebyshev_sum, linear_weights
from condiff.reproduce.baselines.node.problem import NodeProblem
from condiff.reproduce.runs import NO_CONDITION, Condition
from condiff.training.settings import NODE, Training

_TRAINING = replace(NODE, optimiser="rmsprop", learning_rate=0.00147)


@dataclass(frozen=True)
class CGNN(NetworkMethod):
    r"""Encoded features that spread while they are fed in: :math:`h' = \frac12 \mathrm{diag}(\alpha)(S - I) h + h(0)`.

    :math:`h(0) = X W_1 + b_1`, :math:`S = D^{-1/2}(A + w I)D^{-1/2}`, a rate :math:`\alpha` in (0, 1) is learnt for
    each node, and :math:`\log\mathrm{softmax}(\mathrm{relu}(h(t)) W_2 + b_2)` is the output. This is the paper's first
    model, without weights in the equation. The authors' repository has the settings of Cora's fixed split only; those
    for random splits are taken from the comparison in GRAND's repository, ``CGNN.py``. As in both, no gradient goes
    through the source :math:`h(0)`; with it, Cora's accuracy falls by some three points.

    The equation is linear with constant coefficients and the spectrum of its matrix lies in [-1, 0], so its solution is
    a sum of Chebyshev polynomials, whose weights the solver finds once; see
    :func:`~condiff.reproduce.baselines.node.ode.linear_weights`.

    Parameters
    ----------
    hidden
        Width of the state.
    input_dropout, dropout
        Probability with which features, and entries of the state at the end, are dropped in training.
    self_weight
        The weight w of a node's loop.
    rate
        What the rates start from, before the sigmoid that keeps them in (0, 1).
    time
        The end of the integration.
    relative_tolerance, absolute_tolerance
        Of dopri5; these are torchdiffeq's own, as in the authors' code.
    """

    training: Training = _TRAINING
    hidden: int = 16
    input_dropout: float = 0.5
    dropout: float = 0.0
    self_weight: float = 0.595
    rate: float = 0.885
    time: float = 23.9
    relative_tolerance: float = 1e-7
    absolute_tolerance: float = 1e-9

    def __post_init__(self) -> None:
        if not self.self_weight > 0:
            raise InvalidInputError(f"self_weight must be positive, not {self.self_weight}")

    @classmethod
    def recommended(cls, dataset: str, condition: Condition = NO_CONDITION) -> CGNN:
        if dataset == "citeseer":
            training = replace(NODE, optimiser="rmsprop", learning_rate=0.00298)
            return cls(training, self_weight=0.459, rate=0.936, time=17.1)
        if dataset == "pubmed":
            return cls(replace(NODE, learning_rate=0.00551), self_weight=0.752, rate=0.947, time=22.0)
        return cls()

    def network(self, problem: NodeProblem) -> NodeNetwork:
        return _Network(problem, self)


class _Network(NodeNetwork):
    def __init__(self, problem: NodeProblem, settings: CGNN) -> None:
        super().__init__()
        self.x, self.settings = problem.x, settings
        loops = settings.self_weight * sp.eye_array(problem.n_nodes, format="csr")
        self.spread = SparseMatrix.of(Graph(problem.graph.weights + loops).normalised("symmetric").weights)
        self.encoder = nn.Linear(problem.n_features, settings.hidden)
        self.decoder = nn.Linear(settings.hidden, problem.n_classes)
        self.rates = nn.Parameter(torch.full((problem.n_nodes,), settings.rate))
        self.solver = Solver("dopri5", settings.relative_tolerance, settings.absolute_tolerance)
        start, source = linear_weights(_recurrence(settings.time), settings.time, self.solver)
        self.start, self.source = start.float(), source.float()

    def forward(self) -> Tensor:
        inputs = self.x.dropped(self.settings.input_dropout, self.training)
        state = inputs @ self.encoder.weight.T + self.encoder.bias
        rates = torch.sigmoid(self.rates).unsqueeze(-1)
        state = chebyshev_sum(self.spread, rates, state, self.start, self.source)
        state = nn.functional.dropout(torch.relu(state), self.settings.dropout, self.training)
        return torch.log_softmax(self.decoder(state), dim=-1)


def _recurrence(time: float) -> Tensor:
    """Multiplication by z of sums of ``T_k(2 z + 1)``, for more terms than any solution up to this time has."""
    terms = int(6 * time**0.5) + 20
    halves = torch.full((terms - 1,), 0.5, dtype=torch.float64)
    shifted = torch.diag(halves, 1) + torch.diag(halves, -1)
    shifted[1, 0] = 1.0
    return (shifted - torch.eye(terms)) / 2
