"""Gene-wise networks on sparse inputs, many at once: the engine of the prostate task.

It does what the reference does with far less work per epoch:

- up to the hidden layer everything is linear, so the first layer's outputs are never formed: its weights and those of
  the layers that read it are multiplied into one matrix of a column per hidden unit and output, and an epoch is one
  sparse product with that matrix and one with the transpose of the inputs;
- only the rows of the diffusion that the loss reads are kept, and only those patients are multiplied that these rows
  reach: without a diffusion, the training patients alone;
- networks of one shape that differ in their initialisation, graph or training patients share the products.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from condiff.bases.genewise import GeneWise
from condiff.graph.sparse import SparseMatrix
from condiff.model import COIN, apply_head
from condiff.training.descent import Networks, OnEpoch
from condiff.training.engine import Engine, Fitted, descended, refuses_diffusion, refuses_extras, refuses_unlike
from condiff.training.optimiser import Optimiser
from condiff.training.problem import Items, Problem
from condiff.training.readout import Rows, diffusion_rows
from condiff.training.settings import Training


class GeneWiseEngine(Engine):
    """Networks whose base is a :class:`GeneWise`."""

    name = "genewise"

    def refuses(self, problems: Sequence[Problem]) -> str | None:
        if not all(isinstance(each.model.convection, GeneWise) for each in problems):
            return "the base network is not gene-wise"
        if any(each.x is not problems[0].x for each in problems):
            return "the networks have different features"
        return refuses_diffusion(problems) or refuses_extras(problems) or refuses_unlike(problems, diffusion=False)

    def reason(self, problems: Sequence[Problem]) -> str:
        return "the first layer is linear: an epoch is a sparse product with a few columns"

    def fit(self, problems: Sequence[Problem], on_epoch: OnEpoch | None = None) -> list[Fitted]:
        first, items = problems[0], _padded([each.items for each in problems])
        rows = torch.stack(
            [
                diffusion_rows(each.model.diffusion, each.operator, nodes)
                for each, nodes in zip(problems, items.nodes, strict=True)
            ]
        )
        reached = torch.nonzero(rows.any(0).any(0))[:, 0]
        networks = _Networks([each.model for each in problems], _csr(first.sparse_x)[reached.numpy()], first.settings)
        return descended(problems, networks, Rows(rows[..., reached]), items, on_epoch)


def _padded(items: Sequence[Items]) -> Items:
    """The items of all networks side by side; networks with fewer have some again that do not count."""
    most = max(len(each.nodes) for each in items)

    def filled(values: Tensor, *, repeat: bool) -> Tensor:
        missing = values[:1].expand(most - len(values), *values.shape[1:])
        return torch.cat([values, missing if repeat else torch.zeros_like(missing)])

    nodes = torch.stack([filled(each.nodes, repeat=True) for each in items])
    target = torch.stack([filled(each.target, repeat=True) for each in items])
    weight = torch.stack([filled(each.weight, repeat=False) for each in items])
    return Items(nodes, target, weight, sum(each.n_known for each in items))


def _csr(x: SparseMatrix) -> sp.csr_array:
    parts = (x.values, x.pattern.col_indices, x.pattern.crow_indices)
    return sp.csr_array(tuple(each.numpy() for each in parts), shape=x.shape)


class _Networks(Networks):
    """The base networks side by side, the network being the last axis of every weight, and inputs to run them on."""

    def __init__(self, models: Sequence[COIN], x: sp.csr_array, settings: Training) -> None:
        self.models, bases = models, [_base(model) for model in models]
        self.hidden = bases[0].inner.out_features
        # Inputs that no patient here has take no part: their weights' gradient is zero.
        self.present = torch.from_numpy(np.unique(x.indices)).long()
        self.genes = self.present // bases[0].weight.shape[1]
        self.x = SparseMatrix.of(x[:, self.present.numpy()], bases[0].weight.dtype)
        self.weight = _side_by_side([base.weight.flatten() for base in bases])
        self.bias = _side_by_side([base.bias for base in bases])
        # What reads the first layer's output, by gene: the hidden units, then the outputs of the shortcut.
        self.readers = _side_by_side([torch.cat([layer.weight for layer in _readers(base)]).mT for base in bases])
        self.offsets = _side_by_side([torch.cat([layer.bias for layer in _readers(base)]) for base in bases])
        self.outer = _side_by_side([base.outer.weight for base in bases])
        self.outer_bias = _side_by_side([base.outer.bias for base in bases])
        parameters = [self.weight, self.bias, self.readers, self.offsets, self.outer, self.outer_bias]
        self.optimiser = Optimiser(parameters, settings)

    def outputs(self) -> Tensor:
        combined = self.weight.index_select(0, self.present)[:, None] * self.readers.index_select(0, self.genes)
        constant = (self.bias[:, None] * self.readers).sum(0) + self.offsets
        units = (self.x @ combined.flatten(1)).view(-1, *constant.shape) + constant
        active = torch.relu(units[:, : self.hidden])
        out = (active[:, None] * self.outer).sum(2) + self.outer_bias
        if units.shape[1] > self.hidden:
            out = out + units[:, self.hidden :]
        self.u = apply_head(out.permute(2, 0, 1), self.models[0].head)
        return self.u.detach()

    @torch.no_grad()
    def give_back(self) -> None:
        for position, model in enumerate(self.models):
            base = _base(model)
            base.weight.copy_(self.weight[..., position].view_as(base.weight))
            base.bias.copy_(self.bias[..., position])
            base.outer.weight.copy_(self.outer[..., position])
            base.outer.bias.copy_(self.outer_bias[..., position])
            sizes = [layer.out_features for layer in _readers(base)]
            weights = self.readers[..., position].mT.split(sizes)
            biases = self.offsets[..., position].split(sizes)
            for layer, weight, bias in zip(_readers(base), weights, biases, strict=True):
                layer.weight.copy_(weight)
                layer.bias.copy_(bias)
            model.eval()


def _base(model: COIN) -> GeneWise:
    assert isinstance(model.convection, GeneWise)
    return model.convection


def _readers(base: GeneWise) -> list[torch.nn.Linear]:
    return [base.inner] if base.shortcut is None else [base.inner, base.shortcut]


def _side_by_side(weights: Sequence[Tensor]) -> Tensor:
    return torch.stack([weight.detach() for weight in weights], dim=-1).requires_grad_()
