"""The exact full-batch fit on graphs where neither activations nor the rows of the diffusion have room.

An epoch is three passes, none of which leaves a trace for autograd:

- the base networks' outputs ``u_0`` of all nodes, node batch by node batch, nothing else kept;
- the diffusion of all networks' columns at once, the loss at the labelled nodes, and its gradient sent back by the same
  products, because a symmetric Laplacian is its own adjoint: memory does not grow with the number of layers;
- the base networks again, batch by batch: activations are recomputed and gradients added up.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from condiff.diffusion import Diffusion
from condiff.diffusion.stability import check_step
from condiff.errors import InvalidInputError
from condiff.graph import Laplacian, SparseLaplacian
from condiff.graph.ordering import locality_order, permuted
from condiff.graph.sparse import SparseMatrix
from condiff.graph.steps import runs_compiled
from condiff.model import COIN
from condiff.training.bases import bases_of
from condiff.training.descent import Descent
from condiff.training.losses import pointwise_loss, score
from condiff.training.reference import History
from condiff.training.settings import Training
from condiff.training.stopping import EarlyStopping, Snapshot

#: Share of the machine's memory that the rows of the diffusion at the labels may take.
HELD_SHARE = 0.2
# Columns that rows are made from together, as many as a product takes at once.
_COLUMNS = 64


def fit_streamed(
    models: Sequence[COIN],
    x: Tensor | SparseMatrix,
    operator: Laplacian,
    nodes: Tensor,
    target: Tensor,
    weight: Tensor,
    *,
    penalty: Callable[[Tensor], Tensor] | None = None,
    validation: tuple[Tensor, Tensor] | None = None,
    settings: Training,
    on_epoch: Callable[[int, float], None] | None = None,
) -> tuple[list[History], Tensor]:
    """Fit networks in place, each as the reference would; returns histories, and answers (networks, items, c).

    Parameters
    ----------
    models
        Networks with one and the same fixed diffusion, whose base treats every node by itself: no dropout, no
        normalisation over a batch.
    x
        Features of all nodes, dense or sparse.
    operator
        A symmetric Laplacian.
    nodes, target
        Node, and class or values, of every labelled item.
    weight
        (networks, items): how much each item counts for each network; rows are normalised to sum to one.
    penalty
        A function of ``u_0`` of shape (networks, n, c) that gives one number for each network, added to its loss.
    validation
        Nodes and targets that stop the fit of a single network early, with a ``patience`` in the settings.
    """
    _check(models, operator)
    stops = validation is not None and settings.patience is not None
    if stops and len(models) > 1:
        raise InvalidInputError("early stopping is for one network at a time")
    held_out, truth = validation if validation is not None and stops else (nodes[:0], target[:0])
    weight = weight / weight.sum(-1, keepdim=True)
    targets = target.expand(len(models), *target.shape)
    bases = bases_of(models, x, operator.dtype)
    columns = len(models) * bases.n_outputs
    reading, order = _reading(models[0].diffusion, operator, torch.cat([nodes, held_out]), columns, settings.epochs)
    bases.order = order
    descent = Descent([own for model in models for own in model.parameters()], settings)
    snapshot, head = Snapshot(models[0]), models[0].head
    stopping = EarlyStopping(settings.patience, snapshot.take) if stops and settings.patience else None
    course: list[Tensor] = []
    u = bases.outputs()
    read = _by_network(reading.read(u), len(models))
    for epoch in range(settings.epochs):
        leaf = read[:, : len(nodes)].detach().requires_grad_()
        losses = (weight * pointwise_loss(leaf, targets, head)).sum(-1)
        to_read = torch.zeros_like(read)
        to_read[:, : len(nodes)] = torch.autograd.grad(losses.sum(), leaf)[0]
        to_u = reading.spread(to_read.movedim(0, 1).reshape(read.shape[1], -1))
        losses = losses.detach()
        if penalty is not None:
            losses = losses + _add_penalty(penalty, u, to_u, len(models))
        bases.backward(to_u, u)
        descent.step()
        course.append(losses)
        if on_epoch is not None:
            on_epoch(epoch, float(losses.mean()))
        # Without dropout this pass validates the epoch, trains the next one, and after the last gives the answers.
        u = bases.outputs()
        read = _by_network(reading.read(u), len(models))
        if stopping is not None:
            there = read[0, len(nodes) :]
            if stopping.should_stop(epoch, float(pointwise_loss(there, truth, head).mean()), score(there, truth, head)):
                break
    if stopping is not None:
        snapshot.restore()
        read = _by_network(reading.read(bases.outputs()), len(models))
    for model in models:
        model.eval()
    best = len(course) - 1 if stopping is None else stopping.best_epoch
    return [History(own, best) for own in torch.stack(course, dim=1).tolist()], read[:, : len(nodes)]


class Reading(Protocol):
    """The linear map from ``u_0`` to the diffused output at some nodes, and its adjoint."""

    def read(self, u: Tensor) -> Tensor:
        """From (n, columns) to (items, columns)."""

    def spread(self, gradient: Tensor) -> Tensor:
        """From (items, columns) to (n, columns)."""


class Products:
    """The diffusion applied anew each time: as many products as it has layers, there and back.

    Parameters
    ----------
    diffusion
        Fixed, without dropout.
    operator
        A symmetric Laplacian.
    nodes
        Where the output is read; a node may occur several times.
    """

    def __init__(self, diffusion: Diffusion, operator: Laplacian, nodes: Tensor) -> None:
        self.diffusion, self.operator, self.nodes = diffusion, operator, nodes
        self.strength = float(diffusion.strength_on(operator))
        if diffusion.solver.limited and diffusion.strength != "auto" and diffusion.layers:
            check_step(operator, self.strength, strict=diffusion.strict)

    @torch.no_grad()
    def diffused(self, u: Tensor) -> Tensor:
        """All rows. The solvers are functions of L alone, so this is its own adjoint."""
        return self.diffusion.solver(self.operator, u, self.strength, self.diffusion.layers)

    def read(self, u: Tensor) -> Tensor:
        """From (n, columns) to (items, columns)."""
        return self.diffused(u)[self.nodes]

    def spread(self, gradient: Tensor) -> Tensor:
        """From (items, columns) to (n, columns)."""
        whole = gradient.new_zeros(self.operator.n_nodes, gradient.shape[1])
        return self.diffused(whole.index_add_(0, self.nodes, gradient))


class HeldRows:
    """The rows of the diffusion at the labels, made once, block by block: a dense product in place of all layers."""

    def __init__(self, products: Products) -> None:
        operator, nodes = products.operator, products.nodes
        self.rows = torch.empty(nodes.numel(), operator.n_nodes, dtype=operator.dtype, device=operator.device)
        for first in range(0, nodes.numel(), _COLUMNS):
            unit = torch.eye(min(_COLUMNS, nodes.numel() - first), dtype=operator.dtype, device=operator.device)
            part = Products(products.diffusion, operator, nodes[first : first + _COLUMNS])
            self.rows[first : first + _COLUMNS] = part.spread(unit).mT
        # Far from a node its row holds numbers that no sum can show but that processors are slow with.
        for row in self.rows:
            row.masked_fill_(row.abs() < torch.finfo(row.dtype).eps ** 2, 0.0)

    def read(self, u: Tensor) -> Tensor:
        """From (n, columns) to (items, columns)."""
        # Columns first: BLAS is several times slower on a result of few columns than on one of few rows.
        return (u.mT @ self.rows.mT).mT

    def spread(self, gradient: Tensor) -> Tensor:
        """From (items, columns) to (n, columns)."""
        return (gradient.mT @ self.rows).mT.contiguous()


def _reading(
    diffusion: Diffusion, operator: Laplacian, nodes: Tensor, columns: int, epochs: int
) -> tuple[Reading, Tensor | None]:
    """The faster reading that has room, and the order in which it wants the nodes."""
    made = _made.get(operator)
    if made is not None and made.serves(diffusion, operator, nodes):
        return made.rows, made.order
    given, order, asked = operator, None, nodes
    if isinstance(operator, SparseLaplacian) and runs_compiled(operator.detach(), operator.weights.detach()):
        order = locality_order(operator)
        place = torch.empty_like(order)
        place[order] = torch.arange(len(order))
        operator, nodes = permuted(operator, order), place[nodes]
    products = Products(diffusion, operator, nodes)
    room = HELD_SHARE * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    size = nodes.numel() * operator.n_nodes * torch.finfo(operator.dtype).bits // 8
    # A row costs as many products to make as one column does in half an epoch.
    worth = nodes.numel() <= epochs * columns
    if not worth or size > room:
        return products, order
    _made.pop(given, None)  # before the new ones take their room
    _made[given] = _Made(diffusion, given.version, asked, HeldRows(products), order)
    return _made[given].rows, order


@dataclass(frozen=True)
class _Made:
    """Held rows, and what they were made for."""

    diffusion: Diffusion
    version: int
    nodes: Tensor
    rows: HeldRows
    order: Tensor | None

    def serves(self, diffusion: Diffusion, operator: Laplacian, nodes: Tensor) -> bool:
        """Whether another fit would make the same rows."""
        return self.diffusion is diffusion and self.version == operator.version and torch.equal(self.nodes, nodes)


# The rows of the last fit on an operator, for as long as that lives: an estimator fits held-out folds, then all labels.
_made: weakref.WeakKeyDictionary[Laplacian, _Made] = weakref.WeakKeyDictionary()


def _add_penalty(penalty: Callable[[Tensor], Tensor], u: Tensor, to_u: Tensor, n_networks: int) -> Tensor:
    """Add the penalty's gradient by ``u_0`` to the loss's; returns its values."""
    leaf = _by_network(u, n_networks).detach().requires_grad_()
    values = penalty(leaf)
    _by_network(to_u, n_networks).add_(torch.autograd.grad(values.sum(), leaf)[0])
    return values.detach()


def _by_network(columns: Tensor, n_networks: int) -> Tensor:
    """(rows, networks * c) as (networks, rows, c), without a copy."""
    return columns.reshape(len(columns), n_networks, -1).movedim(1, 0)


def _check(models: Sequence[COIN], operator: Laplacian) -> None:
    if not operator.symmetric:
        raise InvalidInputError("the streamed fit needs a symmetric graph")
    for model in models:
        if model.diffusion.dropout.p or model.diffusion.log_strength is not None:
            raise InvalidInputError("the streamed fit takes a fixed diffusion without dropout")
        if not is_nodewise(model.convection):
            raise InvalidInputError("the streamed fit takes base networks that treat every node by itself")


def is_nodewise(base: nn.Module) -> bool:
    """Whether a base network's output at a node depends on that node alone, and not on chance."""
    across = (nn.Dropout, nn.AlphaDropout, nn.modules.batchnorm._BatchNorm)
    return not any(isinstance(module, across) for module in base.modules())
