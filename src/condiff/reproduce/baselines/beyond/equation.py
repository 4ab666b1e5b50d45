r"""The equation as a regulariser of a perceptron, in place of diffusion layers or beside them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from condiff.errors import InvalidInputError
from condiff.reproduce.baselines.method import check_counts
from condiff.reproduce.baselines.node.method import HiddenLayerMethod, NodeNetwork
from condiff.reproduce.baselines.node.problem import NodeProblem
from condiff.reproduce.baselines.node.products import symmetric_product

# The paper's strength of a layer on Cora.
_STRENGTH = 0.35
_TINY = 1e-9


@dataclass(frozen=True)
class Equation(HiddenLayerMethod):
    r"""A perceptron :math:`u(x, t)` whose loss adds the residual of :math:`u_t = -\sigma^2 L u`, as PINNs do.

    :math:`u(x, t) = \mathrm{softmax}(W_2 \tanh(W_1 x + t w + b_1) + b_2)` is fitted to the labels at time 1. The
    mean square of :math:`u_t + \sigma^2 L u` over all nodes, at a time drawn anew in each epoch, is added. What the
    diffusion layers do exactly is thus only asked for, of a network that sees one node at a time.

    Parameters
    ----------
    strength
        All the diffusion up to time 1; the paper's 20 layers of 0.35 have 7.
    weight
        Of the residual in the loss; 0 leaves a perceptron.
    """

    hidden: int = 64
    dropout: float = 0.0
    strength: float = 7.0
    weight: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.strength < 0 or self.weight < 0:
            raise InvalidInputError(
                f"strength and weight must not be negative, but are {self.strength!r} and {self.weight!r}"
            )

    def network(self, problem: NodeProblem) -> NodeNetwork:
        return _Network(problem, self)


@dataclass(frozen=True)
class EquationCOIN(Equation):
    """The same perceptron with diffusion layers after it: the residual stands beside them, not in their place.

    Parameters
    ----------
    layers
        Explicit layers, of the strength 0.35 each, that the output at time 1 passes; the paper's are 20.
    """

    layers: int = 20

    def __post_init__(self) -> None:
        super().__post_init__()
        check_counts(layers=self.layers)

    def network(self, problem: NodeProblem) -> NodeNetwork:
        return _Diffused(problem, self)


class _Network(NodeNetwork):
    def __init__(self, problem: NodeProblem, settings: Equation) -> None:
        super().__init__()
        self.settings, self.x, self.walk = settings, problem.x, problem.propagation
        self.degree = self.walk @ torch.ones(problem.n_nodes, 1)
        self.first = nn.Linear(problem.n_features, settings.hidden)
        self.speed = nn.Parameter(torch.zeros(settings.hidden))
        self.second = nn.Linear(settings.hidden, problem.n_classes)

    def forward(self) -> Tensor:
        return torch.log_softmax(self.second(self.hidden(1.0)), dim=-1)

    def hidden(self, time: float) -> Tensor:
        inputs = self.x.dropped(self.settings.dropout, self.training) @ self.first.weight.T + self.first.bias
        return torch.tanh(inputs + time * self.speed)

    def residual(self, time: float) -> Tensor:
        """``u_t + strength L u`` at every node."""
        hidden = self.hidden(time)
        u = torch.softmax(self.second(hidden), dim=-1)
        rise = ((1 - hidden.square()) * self.speed) @ self.second.weight.T
        change = u * (rise - (u * rise).sum(-1, keepdim=True))
        return change + self.settings.strength * (self.degree * u - symmetric_product(self.walk, u))

    def penalty(self) -> Tensor | float:
        if not self.settings.weight:
            return 0.0
        return self.settings.weight * self.residual(float(torch.rand(()))).square().sum(-1).mean()


class _Diffused(_Network):
    def __init__(self, problem: NodeProblem, settings: EquationCOIN) -> None:
        super().__init__(problem, settings)
        self.layers = settings.layers

    def forward(self) -> Tensor:
        u = super().forward().exp()
        for _ in range(self.layers):
            u = u - _STRENGTH * (self.degree * u - symmetric_product(self.walk, u))
        # Past the positivity limit, as the paper's strength is on these graphs, an entry may fall below zero.
        return u.clamp_min(_TINY).log()
