"""The node engine's network in compiled loops: hidden units in blocks of 64, updated while they are in cache."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from condiff.bases import Residual
from condiff.graph.sparse import SparseMatrix
from condiff.kernels.constants import FIRST_MOMENT, SECOND_MOMENT
from condiff.model import COIN
from condiff.training.settings import Training

# Nodes of a tile: what their hidden units send back (256 KB) stays in the second-level cache.
_TILE = 1024


def is_available() -> bool:
    """Whether numba is installed; it is part of the extra ``fast``."""
    return importlib.util.find_spec("numba") is not None


class CompiledBlocks:
    """A :class:`Residual` of one ReLU block, as wide as its input, under Adam.

    Parameters
    ----------
    model
        The network that is trained; it gets its weights back by :meth:`give_to`.
    x
        Sparse features of all nodes.
    settings
        Learning rate, weight decay and schedule of Adam.
    """

    def __init__(self, model: COIN, x: SparseMatrix, settings: Training) -> None:
        from condiff.kernels import blocks as kernels
        from condiff.kernels.vectors import WIDTH

        self._kernels = kernels
        base = model.convection
        assert isinstance(base, Residual)
        self.settings, self.epoch = settings, 0
        self.n_nodes, self.n_features = x.shape
        self.n_classes = base.readout.out_features
        self.n_blocks = -(-self.n_features // WIDTH)
        self._forward_inputs = _csr(x)
        self._tiles = _tiles(x)
        transposed = x.pattern.mirror
        self._backward_inputs = (transposed[0].numpy(), transposed[1].numpy(), x.values[transposed[2]].numpy())

        weights = _blocks(base, WIDTH)
        kind = weights.dtype
        # While the present weights are the best, the next ones are written elsewhere: nothing is ever copied.
        self._buffers = [weights, np.empty_like(weights)]
        self._now, self._best = 0, -1
        self._means, self._squares = np.zeros_like(weights), np.zeros_like(weights)
        self._active = np.empty((self.n_blocks, self.n_nodes, WIDTH), kind)
        self._parts = np.empty((self.n_blocks, self.n_classes, self.n_nodes), kind)
        self._gradients = np.zeros((self.n_blocks, self.n_classes + 1, WIDTH), kind)
        self._threads = torch.get_num_threads()
        self._rooms = [
            (np.empty((_TILE, WIDTH), kind), np.empty((weights.shape[1], WIDTH), kind)) for _ in range(self._threads)
        ]
        self._pool = ThreadPoolExecutor(self._threads) if self._threads > 1 else None

    def start(self) -> Tensor:
        """The outputs of all nodes before the head, (classes, nodes), as a leaf to differentiate by."""
        inputs, weights = self._forward_inputs, self._buffers[self._now]
        self._share(
            self.n_blocks,
            lambda first, last, _: self._kernels.forward(first, last, *inputs, weights, self._active, self._parts),
        )
        return self._outputs()

    def step(self, to_z: Tensor) -> Tensor:
        """Update every weight, given the gradient of the loss by the outputs; returns the new outputs."""
        back = np.ascontiguousarray(to_z.numpy().T)
        straight = self._narrow(self._backward_inputs, back)
        padded = np.zeros((self.n_blocks * self._gradients.shape[2], self.n_classes), straight.dtype)
        padded[: self.n_features] = straight
        self._gradients[:, :-1] = padded.reshape(self.n_blocks, -1, self.n_classes).transpose(0, 2, 1)
        self._gradients[0, -1, : self.n_classes] = back.sum(0)
        self.epoch += 1
        rate = self.settings.learning_rate_at(self.epoch - 1) / (1 - FIRST_MOMENT**self.epoch)
        root = 1 / math.sqrt(1 - SECOND_MOMENT**self.epoch)
        now, following = self._buffers[self._now], self._next()
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
                self._buffers[following],
                self._means,
                self._squares,
                rate,
                root,
                self.settings.weight_decay,
            ),
        )
        self._now = following
        return self._outputs()

    def keep(self) -> None:
        """Remember the present weights as the best."""
        self._best = self._now

    def give_to(self, model: COIN) -> None:
        """Write the best weights, or the present ones if none were kept, into the network that they came from."""
        weights = torch.from_numpy(self._buffers[self._now if self._best < 0 else self._best])
        base, n = model.convection, self.n_features
        assert isinstance(base, Residual)
        inner = base.blocks[0]
        assert isinstance(inner, torch.nn.Linear)
        first = n + 1
        with torch.no_grad():
            inner.weight.copy_(weights[:, :n].permute(0, 2, 1).reshape(-1, n)[:n])
            inner.bias.copy_(weights[:, n].reshape(-1)[:n])
            readout = weights[:, first : first + self.n_classes].permute(1, 0, 2).reshape(self.n_classes, -1)
            base.readout.weight.copy_(readout[:, :n])
            base.readout.bias.copy_(weights[0, -1, : self.n_classes])

    def close(self) -> None:
        """End the threads."""
        if self._pool is not None:
            self._pool.shutdown()

    def _outputs(self) -> Tensor:
        weights, first = self._buffers[self._now], self.n_features + 1
        readout = _units_first(weights[:, first : first + self.n_classes])[: self.n_features]
        straight = self._narrow(self._forward_inputs, readout)
        # Always in the order of the blocks: the sum does not depend on the number of threads.
        z = self._parts.sum(0) + straight.T + weights[0, -1, : self.n_classes, None]
        return torch.from_numpy(np.ascontiguousarray(z)).requires_grad_()

    def _next(self) -> int:
        """Where the coming weights go: in place, unless the present ones are the best so far."""
        return 1 - self._now if self._now == self._best else self._now

    def _narrow(self, inputs: tuple[Any, ...], dense: NDArray[Any]) -> NDArray[Any]:
        out = np.empty((len(inputs[0]) - 1, dense.shape[1]), dense.dtype)
        self._share(len(out), lambda first, last, _: self._kernels.narrow_product(first, last, *inputs, dense, out))
        return out

    def _share(self, count: int, work: Callable[[int, int, int], None]) -> None:
        """Cut a range into one part for each thread."""
        if self._pool is None:
            work(0, count, 0)
            return
        bounds = [count * worker // self._threads for worker in range(self._threads + 1)]
        list(self._pool.map(work, bounds[:-1], bounds[1:], range(self._threads)))


def _blocks(base: Residual, width: int) -> NDArray[Any]:
    """The weights as (blocks, rows, width); units beyond the network's are zero, and stay so."""
    inner = base.blocks[0]
    assert isinstance(inner, torch.nn.Linear)
    n, n_classes = inner.in_features, base.readout.out_features
    n_blocks = -(-n // width)
    with torch.no_grad():
        rows = torch.zeros(n + n_classes + 2, n_blocks * width, dtype=inner.weight.dtype)
        rows[:n, :n], rows[n, :n] = inner.weight.mT, inner.bias
        rows[n + 1 : n + 1 + n_classes, :n] = base.readout.weight
        rows[-1, :n_classes] = base.readout.bias
        return np.ascontiguousarray(rows.reshape(-1, n_blocks, width).transpose(0, 1).numpy())


def _units_first(rows: NDArray[Any]) -> NDArray[Any]:
    """(blocks, rows, width) as (units, rows)."""
    return np.ascontiguousarray(rows.transpose(0, 2, 1).reshape(-1, rows.shape[1]))


def _csr(x: SparseMatrix) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    return x.pattern.crow_indices.numpy(), x.pattern.col_indices.numpy(), x.values.numpy()


def _tiles(x: SparseMatrix) -> tuple[NDArray[Any], ...]:
    """The transposed inputs in tiles of nodes, for :func:`condiff.kernels.blocks.step`."""
    nodes, features, values = x.pattern.rows.numpy(), x.pattern.columns.numpy(), x.values.numpy()
    bounds = np.append(np.arange(0, x.shape[0], _TILE), x.shape[0])
    tile = nodes // _TILE
    order = np.lexsort((nodes, features, tile))
    counts = np.bincount(tile * x.shape[1] + features, minlength=(len(bounds) - 1) * x.shape[1])
    ends = np.cumsum(counts).reshape(-1, x.shape[1])
    starts = np.concatenate([np.append(0, ends[:-1, -1])[:, None], ends], axis=1)
    return bounds, starts, (nodes % _TILE).astype(np.int32)[order], values[order]
