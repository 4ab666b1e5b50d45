"""The base networks over all nodes of a large graph: batch by batch, with nothing kept but outputs and gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from condiff.bases import Residual
from condiff.graph.sparse import SparseMatrix
from condiff.kernels.threads import one_torch_thread
from condiff.model import COIN, Head, apply_head
from condiff.training.compiled import is_available
from condiff.training.gram import in_blocks

#: Nodes of a batch: the activations of 64 hidden units take 2 MB.
BATCH = 8192
# Parts of the nodes that compiled loops add up gradients over.
_PARTS = 16


class Bases:
    """Networks of any kind, one after another.

    Parameters
    ----------
    models
        Their heads are one and the same.
    x
        Features of all nodes.
    dtype
        Of the outputs.

    Attributes
    ----------
    order
        The nodes in the order in which outputs are wanted; None for that of ``x``.
    n_outputs
        Of one network.
    """

    def __init__(self, models: Sequence[COIN], x: Tensor | SparseMatrix, dtype: torch.dtype) -> None:
        self.models, self.x, self.dtype = models, x, dtype
        self.order: Tensor | None = None
        with torch.no_grad():
            self.n_outputs = int(models[0].base(rows_of(x, slice(0, 1), None)).shape[1])

    @torch.no_grad()
    def outputs(self) -> Tensor:
        """``u_0``, of shape (n, networks * c)."""
        device = self.x.device if isinstance(self.x, Tensor) else self.x.values.device
        out = torch.empty(self.x.shape[0], len(self.models) * self.n_outputs, dtype=self.dtype, device=device)
        self._fill(out)
        return out

    def backward(self, to_u: Tensor, u: Tensor) -> None:
        """Set every network's gradient, given that of ``u_0`` and ``u_0``; activations are computed again."""
        for here, inputs in self._batches():
            for model, part in zip(self.models, to_u[here].split(self.n_outputs, dim=1), strict=True):
                model.base(inputs).backward(part)

    def _fill(self, out: Tensor) -> None:
        for here, inputs in self._batches():
            for model, part in zip(self.models, out[here].split(self.n_outputs, dim=1), strict=True):
                part.copy_(model.base(inputs))

    def _batches(self) -> Iterator[tuple[slice, Tensor]]:
        n = self.x.shape[0]
        for start in range(0, n, BATCH):
            here = slice(start, min(start + BATCH, n))
            yield here, rows_of(self.x, here, self.order)


class CompiledBases(Bases):
    """Networks of one ReLU block in compiled loops; gradients are sums over fixed parts, whatever the threads are.

    Parameters are those of :class:`Bases`; see :func:`bases_of`.
    """

    def __init__(self, models: Sequence[COIN], x: Tensor | SparseMatrix, dtype: torch.dtype) -> None:
        from condiff.kernels.vectors import WIDTH

        super().__init__(models, x, dtype)
        assert isinstance(x, Tensor)
        self.n_nodes, self.width = len(x), WIDTH
        missing = -x.shape[1] % WIDTH
        padded = nn.functional.pad(x, (0, missing)) if missing else x.contiguous()
        self._blocks = padded.reshape(-1, WIDTH).numpy()
        bounds = np.linspace(0, self.n_nodes, _PARTS + 1).astype(int).tolist()
        self._parts = list(pairwise(bounds))

    def _fill(self, out: Tensor) -> None:
        from condiff.kernels.bases import outputs

        order, weights = self._order(), self._weights()
        biases = torch.stack([own[-1] for own in self._own()]).detach()

        def work(part: tuple[int, int]) -> None:
            outputs(*part, order, self._blocks, *weights, out.numpy())
            here = out[slice(*part)].unflatten(1, biases.shape)
            here.copy_(apply_head(here + biases, self.models[0].head))

        self._share(work)

    @torch.no_grad()
    def backward(self, to_u: Tensor, u: Tensor) -> None:
        from condiff.kernels.bases import add_gradients

        order, weights = self._order(), self._weights()

        def work(part: tuple[int, int]) -> list[Tensor]:
            shape = (len(self.models), self.n_outputs)
            behind, there = (each[slice(*part)].unflatten(1, shape) for each in (to_u, u))
            to_z = _through_head(behind, there, self.models[0].head)
            found = [np.zeros_like(each) for each in weights]
            add_gradients(*part, order, self._blocks, *weights, to_z.flatten(1).contiguous().numpy(), *found)
            return [*map(torch.from_numpy, found), to_z.sum(0)]

        inner, inner_bias, outer, outer_bias = (
            torch.stack(each).sum(0) for each in zip(*self._share(work), strict=True)
        )
        for number, own in enumerate(self._own()):
            found = [inner[number], inner_bias[number], outer[number]]
            # From blocks of units to rows of them, without those that only fill up the last block.
            wide = [each.movedim(0, 1).flatten(1) for each in found]
            width = own[0].shape[0]
            gradients = [wide[0][:, :width].mT, wide[1][0, :width], wide[2][:, :width], outer_bias[number]]
            for parameter, gradient in zip(own, gradients, strict=True):
                parameter.grad = gradient.contiguous()

    def _own(self) -> list[list[nn.Parameter]]:
        """Weight and bias of the block, then of the read-out, of every network."""
        return [list(model.convection.parameters()) for model in self.models]

    def _order(self) -> NDArray[np.int64]:
        return np.arange(self.n_nodes) if self.order is None else self.order.numpy()

    def _weights(self) -> tuple[NDArray[Any], ...]:
        """All weights in blocks of units, as the loops want them."""
        packed = [
            [in_blocks(each.detach(), self.width) for each in (weight.mT, bias[None], readout)]
            for weight, bias, readout, _ in self._own()
        ]
        return tuple(np.stack(each) for each in zip(*packed, strict=True))

    def _share(self, work: Callable[[tuple[int, int]], Any]) -> list[Any]:
        threads = torch.get_num_threads()
        with one_torch_thread(), ThreadPoolExecutor(threads) as pool:
            return list(pool.map(work, self._parts))


def bases_of(models: Sequence[COIN], x: Tensor | SparseMatrix, dtype: torch.dtype) -> Bases:
    """The faster kind that serves these networks."""
    dense = isinstance(x, Tensor) and x.dtype == dtype
    compiled = dense and all(runs_in_loops(model.convection) for model in models)
    return (CompiledBases if compiled else Bases)(models, x, dtype)


def runs_in_loops(base: nn.Module) -> bool:
    """Whether there are compiled loops for a network: one residual block with ReLU on the CPU, and numba installed."""
    return (
        is_available()
        and isinstance(base, Residual)
        and len(base.blocks) == 1
        and isinstance(base.activation, nn.ReLU)
        and base.readout.weight.device.type == "cpu"
    )


def _through_head(behind: Tensor, u: Tensor, head: Head) -> Tensor:
    """The gradient by the outputs before the head, given that behind it."""
    if head == "identity":
        return behind
    if head == "sigmoid":
        return behind * u * (1 - u)
    return u * (behind - (u * behind).sum(-1, keepdim=True))


def rows_of(x: Tensor | SparseMatrix, here: slice, order: Tensor | None) -> Tensor:
    """Some rows of the features, dense."""
    if isinstance(x, Tensor):
        return x[here] if order is None else x[order[here]]
    parts = (x.values, x.pattern.col_indices, x.pattern.crow_indices)
    matrix = sp.csr_array(tuple(part.detach().numpy() for part in parts), shape=x.shape)
    return torch.from_numpy(np.asarray(matrix[here if order is None else order[here].numpy()].toarray()))
