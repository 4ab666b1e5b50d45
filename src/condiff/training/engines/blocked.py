"""One network at a time on sparse inputs, with early stopping: the engine of node tasks.

It does what the reference does with far less work per epoch:

- only the rows of the diffusion that the losses read are kept;
- inputs stay sparse, forward and backward, and the shortcut ``x`` is never made dense;
- the wide layer is cut into blocks of hidden units and of nodes that stay in the processor's cache, and a block is
  updated as soon as its gradient is known.

The blocks are worked on by loops that numba compiles where it is installed and the optimiser is Adam, and by torch's
own operations elsewhere. Outputs are kept as (classes, nodes): BLAS is several times slower on a result of few columns
than on one of few rows.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, nullcontext
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from condiff.graph.sparse import Pattern, SparseMatrix
from condiff.kernels import available
from condiff.kernels.threads import one_torch_thread
from condiff.model import COIN, apply_head
from condiff.training.descent import Networks, OnEpoch
from condiff.training.engine import Engine, Fitted, descended, joined, refuses_diffusion, refuses_extras
from condiff.training.engines.projected import is_square, readout_of
from condiff.training.optimiser import Optimiser, adam_corrections
from condiff.training.problem import Problem
from condiff.training.settings import Training
from condiff.training.stopping import Snapshot

# Hidden units and nodes of a block: its part of the weights (64 columns) and of the activations (256 KB) fit the
# second-level cache. Measured on the three citation graphs; half or double is within a few per cent.
_UNITS, _NODES = 64, 1024


class Blocked(Engine):
    """Networks of one ReLU block as wide as its sparse input."""

    name = "blocked"

    def refuses(self, problems: Sequence[Problem]) -> str | None:
        if not all(is_square(each.model.convection) for each in problems):
            return "the base network is not one ReLU block as wide as its input"
        return refuses_diffusion(problems) or refuses_extras(problems, validation=True, balance=True)

    def declines(self, problems: Sequence[Problem]) -> str | None:
        if not all(each.mostly_zeros for each in problems):
            return "the features are dense"
        return None if all(each.held_out is not None for each in problems) else "the fit does not stop early"

    def reason(self, problems: Sequence[Problem]) -> str:
        by = "compiled blocks" if _runs_compiled(problems[0]) else "blocks of torch's operations"
        return f"features are sparse and the fit stops early; {by} of hidden units stay in cache"

    def fit(self, problems: Sequence[Problem], on_epoch: OnEpoch | None = None) -> list[Fitted]:
        return [_fit(problem, on_epoch) for problem in problems]


def _runs_compiled(problem: Problem) -> bool:
    return available() and problem.settings.optimiser == "adam" and problem.n_outputs <= _UNITS


def _fit(problem: Problem, on_epoch: OnEpoch | None) -> Fitted:
    items, _ = joined([problem])
    readout, networks = readout_of(problem, items.nodes), blocks_of(problem)
    # What torch has left to do is small; its idle threads would take the cores from the compiled loops.
    with closing(networks), one_torch_thread() if isinstance(networks, CompiledBlocks) else nullcontext():
        return descended([problem], networks, readout, items, on_epoch)[0]


def blocks_of(problem: Problem) -> Blocks:
    """The fastest blocks that can train this network."""
    kind = CompiledBlocks if _runs_compiled(problem) else TorchBlocks
    return kind(problem.model, problem.sparse_x, problem.settings)


class Blocks(Networks):
    """The base network with its wide layer in blocks of hidden units; gradients are written out by hand.

    Parameters
    ----------
    model
        The network that is trained.
    x
        Sparse features of all nodes.
    settings
        Optimiser and schedule.
    """

    def __init__(self, model: COIN, x: SparseMatrix, settings: Training) -> None:
        self.model, self.x, self.settings = model, x, settings
        self._z: Tensor | None = None

    @abstractmethod
    def start(self) -> Tensor:
        """The outputs of all nodes before the head, (classes, nodes)."""

    @abstractmethod
    def move(self, to_z: Tensor) -> Tensor:
        """Update every weight, given the gradient of the loss by the outputs; returns the new outputs."""

    def outputs(self) -> Tensor:
        if self._z is None:
            self._z = self.start().requires_grad_()
        self.u = apply_head(self._z, self.model.head, dim=0).mT[None]
        return self.u.detach()

    def backward(self, gradient: Tensor) -> None:
        assert self._z is not None
        (self._to_z,) = torch.autograd.grad(self.u, self._z, gradient)

    def step(self) -> None:
        self._z = self.move(self._to_z).requires_grad_()

    @torch.no_grad()
    def _give(self, *weights: Tensor) -> None:
        for own, trained in zip(self.model.convection.parameters(), weights, strict=True):
            own.copy_(trained)
        self.model.eval()

    def close(self) -> None:
        """Let go of threads, if there are any."""


class TorchBlocks(Blocks):
    """By torch's own operations, for every optimiser."""

    def __init__(self, model: COIN, x: SparseMatrix, settings: Training) -> None:
        super().__init__(model, x, settings)
        weight, bias, readout, readout_bias = (own.detach() for own in model.convection.parameters())
        self.tiles = _torch_tiles(x)
        # Transposed, so that a block of hidden units is a block of columns of what the inputs are multiplied with.
        units = weight.split(_UNITS)
        self.weights = nn.ParameterList([unit.mT.contiguous() for unit in units])
        self.biases = nn.ParameterList([part.clone() for part in bias.split(_UNITS)])
        self.readout = nn.ParameterList([readout.clone(), readout_bias.clone()])
        self.active = [torch.empty(x.shape[0], unit.shape[0], dtype=unit.dtype) for unit in units]
        self.optimisers = [Optimiser(pair, settings) for pair in zip(self.weights, self.biases, strict=True)]
        self.readout_optimiser = Optimiser(list(self.readout), settings)
        self.snapshot = Snapshot(nn.ModuleList([self.weights, self.biases, self.readout]))

    @torch.no_grad()
    def start(self) -> Tensor:
        readout, bias = self.readout
        z: Tensor = (self.x @ readout.mT.contiguous()).mT.contiguous()
        z += bias[:, None]
        for weight, bias, active, part in self._blocks():
            for tile in self.tiles:
                here = active[tile.nodes]
                torch.addmm(bias.expand(here.shape), tile.matrix, weight, out=here)
                here.relu_()
                z[:, tile.nodes].addmm_(part, here.mT)
        return z

    @torch.no_grad()
    def move(self, to_z: Tensor) -> Tensor:
        to_readout = self.x.pattern.product(self.x.values, to_z.mT.contiguous(), transpose=True).mT.contiguous()
        for (weight, bias, active, part), to_part, optimiser in zip(
            self._blocks(), to_readout.split(_UNITS, dim=1), self.optimisers, strict=True
        ):
            weight.grad, bias.grad = torch.zeros_like(weight), torch.zeros_like(bias)
            for tile in self.tiles:
                here, pull = active[tile.nodes], to_z[:, tile.nodes]
                to_part.addmm_(pull, here)
                to_here = torch.ops.aten.threshold_backward(pull.mT @ part, here, 0.0)
                torch.addmm(weight.grad, tile.transposed, to_here, out=weight.grad)
                bias.grad += to_here.sum(0)
            optimiser.step()
        self.readout[0].grad, self.readout[1].grad = to_readout, to_z.sum(1)
        self.readout_optimiser.step()
        return self.start()

    def _blocks(self) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:
        """Weight, bias, activations and read-out of every block of hidden units."""
        return zip(self.weights, self.biases, self.active, self.readout[0].split(_UNITS, dim=1), strict=True)

    def keep(self) -> None:
        self.snapshot.take()

    def give_back(self) -> None:
        self.snapshot.restore()
        inner = torch.cat(list(self.weights), dim=1).mT, torch.cat(list(self.biases))
        self._give(*inner, *self.readout)


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


def _torch_tiles(x: SparseMatrix) -> list[_Tile]:
    n = x.shape[0]
    return [_Tile(x, start, min(start + _NODES, n)) for start in range(0, n, _NODES)]


class CompiledBlocks(Blocks):
    """By compiled loops, under Adam: a block's rows are its weights from each feature, its biases and its read-out."""

    def __init__(self, model: COIN, x: SparseMatrix, settings: Training) -> None:
        from condiff.kernels import blocks as kernels
        from condiff.kernels.vectors import LANE, WIDTH

        super().__init__(model, x, settings)
        self._kernels, self._lane, self.epoch = kernels, LANE, 0
        self.n_nodes, self.n_features = x.shape
        weights = _packed(list(model.convection.parameters()), WIDTH)
        kind, self.n_blocks = weights.dtype, len(weights)
        self.n_classes = weights.shape[1] - self.n_features - 2
        self._forward_inputs = tuple(each.numpy() for each in (x.pattern.crow_indices, x.pattern.col_indices, x.values))
        self._tiles = _compiled_tiles(x)
        crow, rows, order = x.pattern.mirror
        self._backward_inputs = (crow.numpy(), rows.numpy(), x.values[order].numpy())
        # While the present weights are the best, the next ones are written elsewhere: nothing is ever copied.
        self._buffers = [weights, np.empty_like(weights)]
        self._now, self._best = 0, -1
        self._means, self._squares = np.zeros_like(weights), np.zeros_like(weights)
        self._active = np.empty((self.n_blocks, self.n_nodes, WIDTH), kind)
        self._parts = np.empty((self.n_blocks, self.n_classes, self.n_nodes), kind)
        self._gradients = np.zeros((self.n_blocks, self.n_classes + 1, WIDTH), kind)
        self._threads = torch.get_num_threads()
        self._rooms = [
            (np.empty((_NODES, WIDTH), kind), np.empty((weights.shape[1], WIDTH), kind)) for _ in range(self._threads)
        ]
        self._pool = ThreadPoolExecutor(self._threads) if self._threads > 1 else None

    def start(self) -> Tensor:
        inputs, weights = self._forward_inputs, self._buffers[self._now]
        self._share(
            self.n_blocks,
            lambda first, last, _: self._kernels.forward(first, last, *inputs, weights, self._active, self._parts),
        )
        return self._summed()

    def move(self, to_z: Tensor) -> Tensor:
        back = np.ascontiguousarray(to_z.numpy().T)
        straight = self._narrow(self._backward_inputs, back)
        padded = np.zeros((self.n_blocks * self._gradients.shape[2], self.n_classes), straight.dtype)
        padded[: self.n_features] = straight
        self._gradients[:, :-1] = padded.reshape(self.n_blocks, -1, self.n_classes).transpose(0, 2, 1)
        self._gradients[0, -1, : self.n_classes] = back.sum(0)
        rate, root = adam_corrections(self.settings.learning_rate_at(self.epoch), self.epoch)
        self.epoch += 1
        # In place, unless the present weights are the best so far.
        following = 1 - self._now if self._now == self._best else self._now
        now, new = self._buffers[self._now], self._buffers[following]
        self._share(
            self.n_blocks,
            lambda first, last, worker: self._kernels.step(
                first,
                last,
                *self._forward_inputs,
                *self._tiles,
                back,
                self._gradients,
                *self._rooms[worker],
                self._active,
                self._parts,
                now,
                new,
                self._means,
                self._squares,
                rate,
                root,
                self.settings.weight_decay,
            ),
        )
        self._now = following
        return self._summed()

    def keep(self) -> None:
        self._best = self._now

    def give_back(self) -> None:
        weights = torch.from_numpy(self._buffers[self._now if self._best < 0 else self._best])
        n, first = self.n_features, self.n_features + 1
        readout = weights[:, first : first + self.n_classes].permute(1, 0, 2).reshape(self.n_classes, -1)
        inner = weights[:, :n].permute(0, 2, 1).reshape(-1, n)[:n], weights[:, n].reshape(-1)[:n]
        self._give(*inner, readout[:, :n], weights[0, -1, : self.n_classes])

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()

    def _summed(self) -> Tensor:
        """The outputs, from what each block gives to them, the shortcut and the biases."""
        weights, first = self._buffers[self._now], self.n_features + 1
        rows = weights[:, first : first + self.n_classes]
        readout = np.ascontiguousarray(rows.transpose(0, 2, 1).reshape(-1, self.n_classes))[: self.n_features]
        straight = self._narrow(self._forward_inputs, readout)
        # Always in the order of the blocks: the sum does not depend on the number of threads.
        z = self._parts.sum(0) + straight.T + weights[0, -1, : self.n_classes, None]
        return torch.from_numpy(np.ascontiguousarray(z))

    def _narrow(self, inputs: tuple[Any, ...], dense: NDArray[Any]) -> NDArray[Any]:
        """The inputs, or their transpose, times a matrix with a column per class."""
        padded = np.zeros((len(dense), -(-dense.shape[1] // self._lane) * self._lane), dense.dtype)
        padded[:, : dense.shape[1]] = dense
        out = np.empty((len(inputs[0]) - 1, padded.shape[1]), dense.dtype)
        self._share(len(out), lambda first, last, _: self._kernels.narrow_product(first, last, *inputs, padded, out))
        return out[:, : dense.shape[1]]

    def _share(self, count: int, work: Callable[[int, int, int], None]) -> None:
        """Cut a range into one part for each thread."""
        if self._pool is None:
            work(0, count, 0)
            return
        bounds = [count * worker // self._threads for worker in range(self._threads + 1)]
        list(self._pool.map(work, bounds[:-1], bounds[1:], range(self._threads)))


def _packed(parameters: Sequence[Tensor], width: int) -> NDArray[Any]:
    """The weights as (blocks, rows, width); units beyond the network's are zero, and stay so."""
    weight, bias, readout, readout_bias = (own.detach() for own in parameters)
    n, n_classes = weight.shape[1], len(readout)
    n_blocks = -(-n // width)
    rows = torch.zeros(n + n_classes + 2, n_blocks * width, dtype=weight.dtype)
    rows[:n, :n], rows[n, :n] = weight.mT, bias
    rows[n + 1 : n + 1 + n_classes, :n] = readout
    rows[-1, :n_classes] = readout_bias
    return np.ascontiguousarray(rows.reshape(-1, n_blocks, width).transpose(0, 1).numpy())


def _compiled_tiles(x: SparseMatrix) -> tuple[NDArray[Any], ...]:
    """The transposed inputs in tiles of nodes, for :func:`condiff.kernels.blocks.step`."""
    nodes, features, values = x.pattern.rows.numpy(), x.pattern.columns.numpy(), x.values.numpy()
    bounds = np.append(np.arange(0, x.shape[0], _NODES), x.shape[0])
    tile = nodes // _NODES
    order = np.lexsort((nodes, features, tile))
    counts = np.bincount(tile * x.shape[1] + features, minlength=(len(bounds) - 1) * x.shape[1])
    ends = np.cumsum(counts).reshape(-1, x.shape[1])
    starts = np.concatenate([np.append(0, ends[:-1, -1])[:, None], ends], axis=1)
    return bounds, starts, (nodes % _NODES).astype(np.int32)[order], values[order]
