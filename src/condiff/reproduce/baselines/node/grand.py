"""Graph neural diffusion with attention that is constant in time, GRAND-l (Chamberlain et al., ICML 2021)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from condiff.graph.sparse import SparseMatrix
from condiff.reproduce.baselines.node.attention import Comparison, Normalised, SoftAdjacency, check_attention
from condiff.reproduce.baselines.node.method import NetworkMethod, NodeNetwork
from condiff.reproduce.baselines.node.ode import Solver, linear_weights, power_sum
from condiff.reproduce.baselines.node.problem import NodeProblem
from condiff.reproduce.runs import NO_CONDITION, Condition
from condiff.training.settings import NODE, Training

_TRAINING = replace(NODE, optimiser="adamax", learning_rate=0.0229, weight_decay=0.00508)


@dataclass(frozen=True)
class GRAND(NetworkMethod):
    r"""Diffusion of encoded features: :math:`h' = \alpha (\bar A - I) h + \beta h(0)`.

    :math:`h(0) = X W_1 + b_1`, and :math:`\log\mathrm{softmax}(\mathrm{relu}(h(t)) W_2 + b_2)` is the output. The
    attention :math:`\bar A`, on the edges and a loop at each node, is computed once from :math:`h(0)`. The linear
    version is the one that the paper reports first and best on these graphs. Settings, initialisation, the squareplus
    in place of a softmax, and that no gradient goes through the source :math:`\beta h(0)` are those of the authors'
    repository, ``best_params.py``; its choice of an integration time by validation accuracy is left out.

    The equation is linear with constant coefficients, so its solution is :math:`\sum_k w_k \bar A^k h(0)`, where the
    solver finds the weights; see :func:`~condiff.reproduce.baselines.node.ode.linear_weights`.

    Parameters
    ----------
    hidden
        Width of the diffused state.
    heads, attention_width
        Heads of the attention, whose mean is taken, and the width of queries and keys of all of them together.
    attention
        How a query and a key are compared: ``scaled_dot``, ``cosine`` or ``exponential`` of their distance.
    normalise
        Whether ``rows`` or ``columns`` of the attention add up to one.
    rescale
        Divide the features of each node by their largest, which turns row-normalised 0/1 features back into 0/1. The
        authors' code does not normalise them, and the settings do not suit features so small.
    input_dropout, dropout
        Probability with which features, and entries of the state at the end, are dropped in training.
    time
        The end of the integration.
    tolerance
        Absolute tolerance of dopri5; the relative one is a hundredth of it.
    """

    training: Training = _TRAINING
    hidden: int = 80
    heads: int = 8
    attention_width: int = 128
    attention: Comparison = "scaled_dot"
    normalise: Normalised = "columns"
    rescale: bool = True
    input_dropout: float = 0.5
    dropout: float = 0.0469
    time: float = 18.29
    tolerance: float = 8.22e-5

    def __post_init__(self) -> None:
        check_attention(self.attention, self.normalise, self.heads, self.attention_width)

    @classmethod
    def recommended(cls, dataset: str, condition: Condition = NO_CONDITION) -> GRAND:
        if dataset == "citeseer":
            return cls(
                Training("adam", 0.00864, weight_decay=0.1),
                attention_width=32,
                attention="exponential",
                input_dropout=0.680,
                dropout=0.749,
                time=7.874,
                tolerance=2.90e-7,
            )
        if dataset == "pubmed":
            return cls(
                Training("adamax", 0.0147, weight_decay=0.00182),
                hidden=128,
                heads=1,
                attention_width=16,
                attention="cosine",
                normalise="rows",
                # Its features are small by themselves, weights of words rather than 0 or 1.
                rescale=False,
                dropout=0.0719,
                time=12.94,
                tolerance=1.99e-4,
            )
        return cls()

    def network(self, problem: NodeProblem) -> NodeNetwork:
        return _Network(problem, self)


class _Network(NodeNetwork):
    def __init__(self, problem: NodeProblem, settings: GRAND) -> None:
        super().__init__()
        self.x, self.settings = rescaled(problem) if settings.rescale else problem.x, settings
        loops = sp.eye_array(problem.n_nodes, format="csr")
        self.pattern = SparseMatrix.of(problem.graph.weights + loops).pattern
        self.encoder = nn.Linear(problem.n_features, settings.hidden)
        self.decoder = nn.Linear(settings.hidden, problem.n_classes)
        self.attention = SoftAdjacency(
            self.pattern,
            settings.hidden,
            settings.attention_width,
            settings.heads,
            settings.attention,
            settings.normalise,
        )
        self.diffusivity = nn.Parameter(torch.zeros(()))
        self.source = nn.Parameter(torch.zeros(()))
        self.solver = Solver("dopri5", settings.tolerance / 100, settings.tolerance)
        self._solved: tuple[float, Tensor, Tensor] | None = None

    def forward(self) -> Tensor:
        inputs = self.x.dropped(self.settings.input_dropout, self.training)
        start = inputs @ self.encoder.weight.T + self.encoder.bias
        alpha = torch.sigmoid(self.diffusivity)
        stretch, source = self._weights(alpha * self.settings.time)
        attention = self.attention(start)
        end = power_sum(SparseMatrix(self.pattern, attention), start, stretch, source * (self.source / alpha))
        end = nn.functional.dropout(torch.relu(end), self.settings.dropout, self.training)
        return torch.log_softmax(self.decoder(end), dim=-1)

    def _weights(self, time: Tensor) -> tuple[Tensor, Tensor]:
        """The weights of the powers for a diffusivity of one and this time, differentiable in it."""
        until = float(time.detach())
        if self._solved is None or self._solved[0] != until:
            # At a diffusivity of one the weights are those of a Poisson distribution and its tail, so that the largest
            # power that counts is known beforehand.
            terms = int(self.settings.time + 8 * self.settings.time**0.5) + 12
            recurrence = torch.diag(torch.ones(terms - 1, dtype=torch.float64), -1) - torch.eye(terms)
            self._solved = (until, *linear_weights(recurrence, until, self.solver))
        _, stretch, source = self._solved
        # The slope in time is the vector field itself.
        moved = torch.cat((stretch.new_zeros(1), stretch[:-1])) - stretch
        change = (time - time.detach()).double()
        return (stretch + moved * change).float(), (source + stretch * change).float()


def rescaled(problem: NodeProblem) -> SparseMatrix:
    """The features of each node divided by the largest of them."""
    largest = abs(problem.features).max(axis=1).toarray().ravel()
    scale = np.divide(1.0, largest, out=np.zeros_like(largest), where=largest > 0)
    return SparseMatrix.of(sp.diags_array(scale) @ problem.features)
