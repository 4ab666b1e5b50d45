"""The exact fast fit of one network on sparse inputs, with early stopping: the engine of node tasks.

It does what :func:`condiff.training.reference.fit` does, number for number up to rounding, with far less work an epoch:

- only the rows of the diffusion that the losses read are kept (:mod:`condiff.training.projected`);
- inputs stay sparse, forward and backward, and the shortcut ``x`` is never made dense;
- without dropout, the forward pass that validates an epoch is also the one that trains the next;
- the wide layer is cut into blocks of hidden units and of nodes that stay in the processor's cache, and a block is
  updated as soon as its gradient is known.

The blocks are worked on by loops that numba compiles (:mod:`condiff.training.compiled`) where it is installed and the
optimiser is Adam, and by torch's own operations elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Protocol

import torch
from torch import Tensor

from condiff.bases import Residual
from condiff.errors import InvalidInputError
from condiff.graph import Laplacian
from condiff.graph.sparse import Pattern, SparseMatrix
from condiff.kernels.threads import one_torch_thread
from condiff.model import COIN, apply_head
from condiff.training.compiled import CompiledBlocks, is_available
from condiff.training.descent import Descent
from condiff.training.losses import pointwise_loss, score
from condiff.training.projected import projection
from condiff.training.reference import History
from condiff.training.settings import Training
from condiff.training.stopping import EarlyStopping, Snapshot

# Hidden units and nodes of a block: its part of the weights (64 columns) and of the activations (256 KB) fit the
# second-level cache. Measured on the three citation graphs; half or double is within a few per cent.
_UNITS, _NODES = 64, 1024


class Blocks(Protocol):
    """The base network with its wide layer in blocks of hidden units; gradients are written out by hand."""

    def start(self) -> Tensor:
        """The outputs of all nodes before the head, (classes, nodes), as a leaf to differentiate by."""

    def step(self, to_z: Tensor) -> Tensor:
        """Update every weight, given the gradient of the loss by the outputs; returns the new outputs."""

    def keep(self) -> None:
        """Remember the present weights as the best."""

    def give_to(self, model: COIN) -> None:
        """Write the best weights, or the present ones if none were kept, into the network that they came from."""

    def close(self) -> None:
        """Let go of threads."""


def fit_blocked(
    model: COIN,
    x: SparseMatrix,
    operator: Laplacian,
    target: Tensor,
    train: Tensor,
    validation: Tensor,
    *,
    settings: Training,
    on_epoch: Callable[[int, float], None] | None = None,
) -> History:
    """Fit a COIN in place; the arguments are those of :func:`condiff.training.reference.fit`.

    Parameters
    ----------
    model
        A network whose base is a :class:`Residual` of one ReLU block, with a fixed diffusion without dropout.
    x
        Sparse features of all nodes.
    operator
        A symmetric Laplacian.
    """
    if settings.patience is None:
        raise InvalidInputError("the blocked fit stops early: give a patience")
    _check(model)
    network = blocks(model, x, settings)
    project = projection(model.diffusion, operator, torch.cat([train, validation]))
    truth, seen = target[torch.cat([train, validation])], train.numel()
    stopping, history = EarlyStopping(settings.patience, network.keep), History()

    # What torch has left to do is small; its idle threads would take the cores from the compiled loops.
    with one_torch_thread() if isinstance(network, CompiledBlocks) else nullcontext():
        z = network.start()
        read = project(apply_head(z, model.head, dim=0).mT)
        for epoch in range(settings.epochs):
            loss = pointwise_loss(read[:seen], truth[:seen], model.head).mean()
            (to_z,) = torch.autograd.grad(loss, z)
            z = network.step(to_z)
            history.losses.append(float(loss.detach()))
            if on_epoch is not None:
                on_epoch(epoch, history.losses[-1])
            read = project(apply_head(z, model.head, dim=0).mT)
            there = read[seen:].detach()
            loss_there = float(pointwise_loss(there, truth[seen:], model.head).mean())
            if stopping.should_stop(epoch, loss_there, score(there, truth[seen:], model.head)):
                break
    network.give_to(model)
    network.close()
    history.best_epoch = stopping.best_epoch
    model.eval()
    return history


def blocks(model: COIN, x: SparseMatrix, settings: Training) -> Blocks:
    """The fastest blocks that can train this network."""
    base = model.convection
    assert isinstance(base, Residual)
    if is_available() and settings.optimiser == "adam" and base.readout.out_features <= _UNITS:
        return CompiledBlocks(model, x, settings)
    return TorchBlocks(model, x, settings)


def _check(model: COIN) -> None:
    base = model.convection
    if not isinstance(base, Residual) or len(base.blocks) != 1 or not isinstance(base.activation, torch.nn.ReLU):
        raise InvalidInputError("the blocked fit takes networks of one residual block with ReLU")
    if base.width != base.blocks[0].in_features:
        raise InvalidInputError("the blocked fit takes networks whose block is as wide as the input")
    if model.diffusion.dropout.p or model.diffusion.log_strength is not None:
        raise InvalidInputError("the blocked fit takes a fixed diffusion without dropout")


class TorchBlocks(torch.nn.Module):
    """:class:`Blocks` by torch's own operations, for every optimiser."""

    def __init__(self, model: COIN, x: SparseMatrix, settings: Training) -> None:
        super().__init__()
        base = model.convection
        assert isinstance(base, Residual)
        inner, readout = base.blocks[0], base.readout
        assert isinstance(inner, torch.nn.Linear)
        self.x = x
        self.tiles = _tiles(x)
        # Transposed, so that a block of hidden units is a block of columns of what the inputs are multiplied with.
        units = inner.weight.detach().split(_UNITS)
        self.weights = torch.nn.ParameterList([unit.mT.contiguous() for unit in units])
        self.biases = torch.nn.ParameterList([part.clone() for part in inner.bias.detach().split(_UNITS)])
        self.readout = torch.nn.Parameter(readout.weight.detach().clone())
        self.readout_bias = torch.nn.Parameter(readout.bias.detach().clone())
        self.active = [torch.empty(x.shape[0], unit.shape[0], dtype=unit.dtype) for unit in units]
        self.descent = [Descent(parameters, settings) for parameters in zip(self.weights, self.biases, strict=True)]
        self.readout_descent = Descent([self.readout, self.readout_bias], settings)
        self.snapshot = Snapshot(self)

    # Outputs are kept as (classes, nodes): BLAS is several times slower on a result of few columns than of few rows.

    @torch.no_grad()
    def start(self) -> Tensor:
        """The outputs of all nodes before the head, (classes, nodes), as a leaf to differentiate by."""
        z = (self.x @ self.readout.mT.contiguous()).mT.contiguous()
        z += self.readout_bias[:, None]
        for weight, bias, active, part in self._blocks():
            for tile in self.tiles:
                here = active[tile.nodes]
                torch.addmm(bias.expand(here.shape), tile.matrix, weight, out=here)
                here.relu_()
                z[:, tile.nodes].addmm_(part, here.mT)
        return z.requires_grad_()

    @torch.no_grad()
    def step(self, to_z: Tensor) -> Tensor:
        """Update every weight, given the gradient of the loss by the outputs; returns the new outputs."""
        to_readout = self.x.pattern.product(self.x.values, to_z.mT.contiguous(), transpose=True).mT.contiguous()
        for (weight, bias, active, part), to_part, descent in zip(
            self._blocks(), to_readout.split(_UNITS, dim=1), self.descent, strict=True
        ):
            weight.grad, bias.grad = torch.zeros_like(weight), torch.zeros_like(bias)
            for tile in self.tiles:
                here, pull = active[tile.nodes], to_z[:, tile.nodes]
                to_part.addmm_(pull, here)
                to_here = torch.ops.aten.threshold_backward(pull.mT @ part, here, 0.0)
                torch.addmm(weight.grad, tile.transposed, to_here, out=weight.grad)
                bias.grad += to_here.sum(0)
            descent.step()
        self.readout.grad, self.readout_bias.grad = to_readout, to_z.sum(1)
        self.readout_descent.step()
        return self.start()

    def _blocks(self) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:
        """Weight, bias, activations and read-out of every block of hidden units."""
        return zip(self.weights, self.biases, self.active, self.readout.split(_UNITS, dim=1), strict=True)

    def keep(self) -> None:
        """Remember the present weights as the best."""
        self.snapshot.take()

    @torch.no_grad()
    def give_to(self, model: COIN) -> None:
        """Write the best weights, or the present ones if none were kept, into the network that they came from."""
        self.snapshot.restore()
        base = model.convection
        assert isinstance(base, Residual)
        inner = base.blocks[0]
        assert isinstance(inner, torch.nn.Linear)
        inner.weight.copy_(torch.cat(list(self.weights), dim=1).mT)
        inner.bias.copy_(torch.cat(list(self.biases)))
        base.readout.weight.copy_(self.readout)
        base.readout.bias.copy_(self.readout_bias)

    def close(self) -> None:
        """Nothing to let go of."""


class _Tile:
    """Some rows of the sparse input, and their transpose, ready to multiply."""

    def __init__(self, x: SparseMatrix, start: int, stop: int) -> None:
        crow = x.pattern.crow_indices
        first, last = int(crow[start]), int(crow[stop])
        self.nodes = slice(start, stop)
        pattern = Pattern(crow[start : stop + 1] - first, x.pattern.col_indices[first:last], x.shape[1])
        values = x.values[first:last]
        self.matrix = _csr(pattern.crow_indices, pattern.col_indices, values, pattern.shape)
        crow, rows, order = pattern.mirror
        self.transposed = _csr(crow, rows, values[order], pattern.shape[::-1])


def _csr(crow: Tensor, col: Tensor, values: Tensor, shape: tuple[int, ...]) -> Tensor:
    return torch.sparse_csr_tensor(crow, col, values, shape, check_invariants=False)


def _tiles(x: SparseMatrix) -> list[_Tile]:
    n = x.shape[0]
    return [_Tile(x, start, min(start + _NODES, n)) for start in range(0, n, _NODES)]
