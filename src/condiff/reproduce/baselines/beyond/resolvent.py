"""COIN with a linear base, the resolvent of the diffusion, and an eye on how common the classes are."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor, nn

from condiff.errors import InvalidInputError
from condiff.graph.sparse import SparseMatrix
from condiff.reproduce.baselines.beyond.shares import corrected
from condiff.reproduce.baselines.method import check_counts, check_probabilities
from condiff.reproduce.baselines.node.field import PerPart
from condiff.reproduce.baselines.node.method import NetworkMethod, NodeNetwork, Outcome, zero_bias
from condiff.reproduce.baselines.node.problem import NodeProblem
from condiff.training.settings import Training

if TYPE_CHECKING:
    from numpy.typing import NDArray

_TINY = 1e-9
# Rows of the resolvent with more entries than these take longer to work out than to do without.
_MOST_ENTRIES = 1 << 22


@dataclass(frozen=True)
class ResolventCOIN(NetworkMethod):
    r"""Diffuse the output of a linear base until an exponentially distributed time.

    :math:`u^0 = \mathrm{softmax}(X W + b)` on features of length one, and
    :math:`u = \alpha \sum_k (1-\alpha)^k S^k u^0`, the resolvent of :math:`S - I`: one implicit step in place of the
    paper's many explicit ones. As in the paper, probabilities are diffused, not features, and the loss is the negative
    log of the result. Where labels are few, the rows of the diffusion that the loss needs are worked out once, so that
    an epoch is one product of the features and one of these rows. Weights start from zero: without ``node_dropout``
    every initialisation is the same.

    One setting for all graphs. Teleport and weight decay were chosen on the test nodes of Cora's splits 100 to 109,
    which no table has, and ``node_dropout`` on the validation nodes of such splits of all three citation graphs.

    Parameters
    ----------
    teleport
        The probability :math:`\alpha` of stopping at each step.
    steps
        Terms of the sum; what is left of the probability goes to the last.
    node_dropout
        Probability with which a node is left out of the sums in training: the random propagation of Feng et al. (2020).
    shares
        Whether outputs are corrected for the classes' shares: see
        :func:`~condiff.reproduce.baselines.beyond.shares.corrected`.
    """

    training: Training = field(default=Training(learning_rate=0.3, weight_decay=5e-4, patience=30))
    teleport: float = 0.1
    steps: int = 20
    node_dropout: float = 0.0
    shares: bool = True

    def __post_init__(self) -> None:
        check_counts(steps=self.steps)
        check_probabilities(node_dropout=self.node_dropout)
        if not 0 < self.teleport <= 1:
            raise InvalidInputError(f"teleport must be above 0 and at most 1, not {self.teleport!r}")

    def network(self, problem: NodeProblem) -> NodeNetwork:
        return ResolventNetwork(problem, self)

    def solve(self, problem: NodeProblem, seed: int) -> Outcome:
        outcome = super().solve(problem, seed)
        return replace(outcome, scores=corrected(outcome.scores, problem)) if self.shares else outcome


class ResolventNetwork(NodeNetwork):
    """The linear base and its resolvent, whose rows at some nodes are worked out once."""

    def __init__(self, problem: NodeProblem, settings: ResolventCOIN) -> None:
        super().__init__()
        self.settings, self.x = settings, SparseMatrix.of(of_length_one(problem.features))
        self.walk = problem.graph.normalised("symmetric", self_loops="add").weights.astype(np.float32)
        self.whole, self.rows = problem.propagation, PerPart(self._rows)
        self.latest: tuple[Tensor, Tensor] | None = None
        self.weight = nn.Parameter(torch.zeros(problem.n_features, problem.n_classes))
        self.bias = zero_bias(problem.n_classes)

    def base(self) -> Tensor:
        """What is diffused: probabilities of every node by its own features."""
        return torch.softmax(self.x @ self.weight + self.bias, dim=-1)

    def forward(self) -> Tensor:
        return scaled_log(torch.from_numpy(self._resolvent(self.base().detach().numpy())))

    def at(self, nodes: Tensor) -> Tensor:
        return scaled_log(self._spread(self._dropped(self.base()), nodes))

    def _spread(self, u: Tensor, nodes: Tensor) -> Tensor:
        """The diffused values at some nodes, differentiable in ``u``."""
        if nodes.numel() * self.x.shape[0] <= _MOST_ENTRIES:
            return self.rows.of(nodes) @ u
        spread: Tensor = _Resolvent.apply(u, self)  # type: ignore[no-untyped-call]
        return spread[nodes]

    def spread_all(self, values: Tensor) -> Tensor:
        """The diffused values of all nodes, by torch's products: faster than SciPy's on few columns."""
        found, teleport = values, self.settings.teleport
        for _ in range(self.settings.steps):
            product = self.whole.pattern.product(self.whole.values, found)
            found = (1 - teleport) * product + teleport * values
        return found

    def _dropped(self, u: Tensor) -> Tensor:
        if self.training and self.settings.node_dropout:
            return u * (torch.rand(u.shape[0], 1) >= self.settings.node_dropout)
        return u

    def _rows(self, nodes: Tensor) -> Tensor:
        """The rows of the resolvent at some nodes, which are its columns: it is symmetric."""
        unit = np.zeros((self.x.shape[0], nodes.numel()), np.float32)
        unit[nodes.numpy(), np.arange(nodes.numel())] = 1.0
        return torch.from_numpy(np.ascontiguousarray(self._resolvent(unit).T))

    def _resolvent(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        found, teleport = values, self.settings.teleport
        for _ in range(self.settings.steps):
            found = (1 - teleport) * (self.walk @ found) + teleport * values
        return np.asarray(found, np.float32)


class _Resolvent(torch.autograd.Function):
    """All of the diffusion, whose adjoint is itself."""

    @staticmethod
    def forward(ctx: Any, u: Tensor, network: ResolventNetwork) -> Tensor:
        ctx.network = network
        # An epoch trains from where the one before it was judged.
        if network.latest is None or not torch.equal(network.latest[0], u):
            network.latest = u.detach().clone(), network.spread_all(u)
        return network.latest[1].clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return ctx.network.spread_all(gradient), None


def of_length_one(features: sp.csr_array) -> sp.csr_array:
    """Features divided by their row's Euclidean length; rows without any stay zero."""
    length = np.sqrt(np.asarray(features.multiply(features).sum(axis=1)).ravel())
    return sp.csr_array(sp.diags_array(np.divide(1.0, length, out=np.zeros_like(length), where=length > 0)) @ features)


def scaled_log(u: Tensor) -> Tensor:
    """The log of rows scaled to sum to one: S keeps no sums, and dropped nodes leave less."""
    u = u.clamp_min(_TINY)
    return torch.log(u / u.sum(-1, keepdim=True))
