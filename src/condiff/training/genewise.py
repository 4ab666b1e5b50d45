"""The exact fast fit of gene-wise networks on sparse inputs, many networks at once: the engine of the prostate task.

It does what :func:`condiff.training.reference.fit` does, number for number up to rounding, with far less work an epoch:

- up to the hidden layer everything is linear, so the first layer's outputs are never formed: its weights and those of
  the layers that read it are multiplied into one matrix of a column per hidden unit and output, and an epoch is one
  sparse product with that matrix and one with the transpose of the inputs;
- only the rows of the diffusion that the loss reads are kept (:mod:`condiff.training.projected`), and only those
  patients are multiplied that these rows reach: without a diffusion, the training patients alone;
- networks of one shape that differ in their initialisation or in their training patients share the products.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from condiff.bases.genewise import GeneWise
from condiff.errors import InvalidInputError
from condiff.graph import laplacian
from condiff.graph.sparse import SparseMatrix
from condiff.model import COIN, apply_head
from condiff.training.descent import Descent
from condiff.training.losses import pointwise_loss
from condiff.training.projected import projected_rows
from condiff.training.reference import History
from condiff.training.settings import PROSTATE, Training


def fit_genewise(
    models: Sequence[COIN],
    x: sp.csr_array,
    graph: Any,
    target: Tensor,
    train: Tensor,
    *,
    settings: Training = PROSTATE,
    on_epoch: Callable[[int, float], None] | None = None,
) -> list[History]:
    """Fit networks of one shape in place, each as :func:`condiff.training.reference.fit` would on dense features.

    Parameters
    ----------
    models
        Networks whose base is a :class:`GeneWise`, with a fixed diffusion without dropout.
    x
        Features of all patients, (n, genes * kinds).
    graph
        A symmetric graph of all patients, in any form that the reference takes, or a list of one for each network;
        None for networks without diffusion layers.
    target
        Zeros and ones (or classes, or values, as the head needs) of all patients; only those at ``train`` are read.
    train
        Indices of the training patients: one list for all networks, or (networks, items).
    settings
        Optimiser and schedule; all epochs are run.
    on_epoch
        Called with the epoch and the mean of the networks' losses.

    Returns
    -------
    One history for each network.
    """
    _check(models, x, train)
    train = train.expand(len(models), -1)
    rows = _rows(models, graph, train, x.shape[0])
    reached = torch.nonzero(rows.any(0).any(0))[:, 0]
    networks = _Networks(models, x[reached.numpy()])
    rows, truth, head = rows[..., reached], target[train], models[0].head
    descent = Descent(networks.parameters, settings)
    histories = [History(best_epoch=settings.epochs - 1) for _ in models]
    for epoch in range(settings.epochs):
        u = apply_head(networks.forward(), head)
        losses = pointwise_loss(rows @ u, truth, head).mean(-1)
        losses.sum().backward()
        descent.step()
        for history, loss in zip(histories, losses.tolist(), strict=True):
            history.losses.append(loss)
        if on_epoch is not None:
            on_epoch(epoch, float(np.mean([history.losses[-1] for history in histories])))
    networks.give_to(models)
    return histories


def _check(models: Sequence[COIN], x: sp.csr_array, train: Tensor) -> None:
    if not models or train.shape[-1] == 0:
        raise InvalidInputError("the gene-wise fit needs at least one network and one training patient")
    if train.ndim == 2 and len(train) != len(models):
        raise InvalidInputError(f"there are {len(models)} networks but training patients for {len(train)}")
    for model in models:
        if not isinstance(model.convection, GeneWise):
            raise InvalidInputError("the gene-wise fit takes networks whose base is GeneWise")
        if model.diffusion.dropout.p or model.diffusion.log_strength is not None:
            raise InvalidInputError("the gene-wise fit takes a fixed diffusion without dropout")
        model.convection.check_width(x.shape[1])
    shapes = [(model.head, [(weight.shape, weight.dtype) for weight in model.parameters()]) for model in models]
    if any(shape != shapes[0] for shape in shapes):
        raise InvalidInputError("the gene-wise fit takes networks of one shape, one precision and one head")


def _rows(models: Sequence[COIN], graph: Any, train: Tensor, n_patients: int) -> Tensor:
    """For each network the rows of its diffusion at its training patients, (networks, items, n)."""
    dtype = next(models[0].parameters()).dtype
    if graph is None:
        if any(model.diffusion.layers for model in models):
            raise InvalidInputError("networks with diffusion layers need a graph")
        return torch.nn.functional.one_hot(train, n_patients).to(dtype)
    if isinstance(graph, list):
        operators = [laplacian(one, dtype) for one in graph]
    else:
        operators = [laplacian(graph, dtype)] * len(models)
    if len(operators) != len(models) or any(operator.n_nodes != n_patients for operator in operators):
        raise InvalidInputError(f"give one graph of all {n_patients} patients, or a list of one for each network")
    return torch.stack([projected_rows(m.diffusion, o, t) for m, o, t in zip(models, operators, train, strict=True)])


class _Networks:
    """The base networks side by side, the network being the last axis of every weight, and inputs to run them on."""

    def __init__(self, models: Sequence[COIN], x: sp.csr_array) -> None:
        bases = [_base(model) for model in models]
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
        self.parameters = [self.weight, self.bias, self.readers, self.offsets, self.outer, self.outer_bias]

    def forward(self) -> Tensor:
        """The outputs before the head, (networks, patients, outputs)."""
        combined = self.weight.index_select(0, self.present)[:, None] * self.readers.index_select(0, self.genes)
        constant = (self.bias[:, None] * self.readers).sum(0) + self.offsets
        units = (self.x @ combined.flatten(1)).view(-1, *constant.shape) + constant
        active = torch.relu(units[:, : self.hidden])
        out = (active[:, None] * self.outer).sum(2) + self.outer_bias
        if units.shape[1] > self.hidden:
            out = out + units[:, self.hidden :]
        return out.permute(2, 0, 1)

    @torch.no_grad()
    def give_to(self, models: Sequence[COIN]) -> None:
        """Write the weights back into the networks that they came from."""
        for position, model in enumerate(models):
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
