"""Several networks on a batch of graphs, the days of a panel: all graphs and all networks at once.

It does what the reference does for each network with far less work per epoch:

- a diffusion layer is one matrix per graph, ``I - strength L``, computed once; its product serves all networks;
- layers are linear, so that the backward pass is the same products with the transposes and keeps no intermediate;
- without dropout all layers are one matrix;
- what a network answers to equal inputs is computed once: with nine tenths of the values hidden, four in ten windows
  are empty.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from condiff.bases import Bottleneck
from condiff.graph import DenseLaplacian
from condiff.model import COIN
from condiff.training.descent import Networks, OnEpoch
from condiff.training.dropout import DropoutMasks
from condiff.training.engine import Engine, Fitted, descended, joined, refuses_extras, refuses_unlike, refuses_unshared
from condiff.training.optimiser import Optimiser
from condiff.training.problem import Problem
from condiff.training.readout import checked_strength


class Panel(Engine):
    """Networks with a :class:`Bottleneck` base on a batch of dense graphs, directed or not, with dropout or without."""

    name = "panel"

    def refuses(self, problems: Sequence[Problem]) -> str | None:
        if not all(each.is_batch for each in problems):
            return "there is no batch of graphs"
        if not all(isinstance(each.operator, DenseLaplacian) for each in problems):
            return "the graphs are sparse"
        for each in problems:
            if not isinstance(each.model.convection, Bottleneck) or each.head != "identity":
                return "the network does not have a Bottleneck base and the head 'identity'"
            if each.model.diffusion.log_strength is not None:
                return "the strength is learned"
        return refuses_extras(problems) or refuses_unlike(problems) or refuses_unshared(problems)

    def reason(self, problems: Sequence[Problem]) -> str:
        return "a layer is one matrix per graph, whose product serves all networks"

    def fit(self, problems: Sequence[Problem], on_epoch: OnEpoch | None = None) -> list[Fitted]:
        items, _ = joined(problems)
        return descended(problems, _Networks(problems), _Layers(problems, items.nodes), items, on_epoch)


class _Networks(Networks):
    """The base networks side by side, as one; outputs are (graphs, networks * outputs, nodes), which BLAS is fast on.

    Biases are the weights of one more input, which is always 1.
    """

    def __init__(self, problems: Sequence[Problem]) -> None:
        first, self.models = problems[0], [each.model for each in problems]
        bases = [_base(model) for model in self.models]
        self.activation = bases[0].activation
        self.shape = (first.n_graphs, len(bases), first.n_outputs, first.n_nodes)
        distinct, self.place = torch.unique(first.dense_x.flatten(0, 1), dim=0, return_inverse=True)
        self.x = torch.cat([distinct, distinct.new_ones(len(distinct), 1)], dim=1).mT.contiguous()
        self.shortcut, self.inner = (
            nn.Parameter(torch.cat([_with_bias(getattr(base, name)) for base in bases]))
            for name in ("shortcut", "inner")
        )
        self.outer = nn.Parameter(torch.stack([base.outer.weight.detach() for base in bases]))
        self.outer_bias = nn.Parameter(torch.stack([base.outer.bias.detach() for base in bases])[..., None])
        parameters = [self.shortcut, self.inner, self.outer, self.outer_bias]
        self.optimiser = Optimiser(parameters, first.settings)

    def outputs(self) -> Tensor:
        graphs, networks, outputs, nodes = self.shape
        hidden = self.activation(self.inner @ self.x).view(networks, -1, self.x.shape[1])
        shortcut = (self.shortcut @ self.x).view(networks, outputs, -1)
        rows = torch.baddbmm(shortcut + self.outer_bias, self.outer, hidden).flatten(0, 1)
        self.u = rows[:, self.place].view(-1, graphs, nodes).transpose(0, 1)
        return self.u.detach()

    @torch.no_grad()
    def give_back(self) -> None:
        for position, model in enumerate(self.models):
            base = _base(model)
            for layer, joint in ((base.shortcut, self.shortcut), (base.inner, self.inner)):
                own = joint.view(len(self.models), -1, joint.shape[1])[position]
                layer.weight.copy_(own[:, :-1])
                layer.bias.copy_(own[:, -1])
            base.outer.weight.copy_(self.outer[position])
            base.outer.bias.copy_(self.outer_bias[position, :, 0])
            model.eval()


class _Layers:
    """The readout: all layers of all networks' outputs, with new dropout masks in each forward pass."""

    def __init__(self, problems: Sequence[Problem], nodes: Tensor) -> None:
        first, diffusion = problems[0], problems[0].model.diffusion
        self.shape = (first.n_graphs, len(problems), first.n_outputs, first.n_nodes)
        self.graph, self.node = nodes // first.n_nodes, nodes % first.n_nodes
        self.masks: DropoutMasks | None = None
        self.kept: list[Tensor] = []
        layers, scale = diffusion.layers, 1.0
        if diffusion.dropout.p and layers:
            shape = (first.n_graphs, first.n_nodes, first.n_outputs)
            seeds = [each.seed_or_drawn for each in problems]
            self.masks = DropoutMasks(diffusion.dropout.p, layers, shape, seeds, first.operator.weights)
            layers, scale = 1, self.masks.scale
        strength = checked_strength(diffusion, first.operator)
        weights = first.operator.weights.detach().expand(first.n_graphs, first.n_nodes, first.n_nodes)
        operator = DenseLaplacian(weights, symmetric=first.operator.symmetric)
        unit = torch.eye(first.n_nodes, dtype=first.dtype, device=first.device)
        with torch.no_grad():
            self.matrix = scale * diffusion.solver(operator, unit.expand(weights.shape), strength, layers)

    def forward(self, u: Tensor) -> Tensor:
        self.kept = [] if self.masks is None else list(self.masks.draw().flatten(2, 3))
        if self.masks is None:
            u = torch.bmm(u, self.matrix.mT)
        for kept in self.kept:
            u = torch.bmm(u * kept, self.matrix.mT)
        # (items, networks, outputs) before the move
        return u.view(self.shape)[self.graph, :, :, self.node].movedim(0, 1)

    def adjoint(self, gradient: Tensor) -> Tensor:
        whole = gradient.new_zeros(self.shape)
        # A node may be read several times.
        whole.permute(0, 3, 1, 2).index_put_((self.graph, self.node), gradient.movedim(1, 0), accumulate=True)
        pull = whole.flatten(1, 2)
        if self.masks is None:
            return torch.bmm(pull, self.matrix)
        for kept in reversed(self.kept):
            pull = torch.bmm(pull, self.matrix).mul_(kept)
        return pull


def _base(model: COIN) -> Bottleneck:
    assert isinstance(model.convection, Bottleneck)
    return model.convection


def _with_bias(layer: nn.Linear) -> Tensor:
    return torch.cat([layer.weight.detach(), layer.bias.detach()[:, None]], dim=1)
