"""Full-batch fits on graphs where neither activations nor the rows of the diffusion have room.

An epoch is three passes, none of which leaves a trace for autograd:

- the base networks' outputs ``u_0`` of all nodes, node batch by node batch, nothing else kept;
- the diffusion of all networks' columns at once, the loss at the labelled nodes, and its gradient sent back by the same
  products, because a symmetric Laplacian is its own adjoint: memory does not grow with the number of layers;
- the base networks again, batch by batch: activations are recomputed and gradients added up.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from condiff.bases import Residual
from condiff.diffusion import Diffusion
from condiff.graph import Laplacian, SparseLaplacian
from condiff.graph.ordering import locality_order, permuted
from condiff.graph.steps import runs_compiled
from condiff.kernels import available
from condiff.kernels.threads import one_torch_thread
from condiff.model import Head, apply_head
from condiff.training.descent import Networks, OnEpoch
from condiff.training.engine import (
    Engine,
    Fitted,
    descended,
    joined,
    refuses_diffusion,
    refuses_early_batch,
    refuses_extras,
    refuses_unlike,
    refuses_unshared,
    with_held_out,
)
from condiff.training.engines.projected import is_one_block
from condiff.training.optimiser import Optimiser
from condiff.training.problem import Problem, rows_of
from condiff.training.readout import (
    LARGEST_ROWS,
    Products,
    Readout,
    Rows,
    as_columns,
    by_network,
    diffusion_rows,
    rows_bytes,
)
from condiff.training.stopping import Snapshot

#: Points from which compiled loops over them win against one autograd step for all.
STREAMED_FROM = 16_384
#: Share of the machine's memory that the rows of the diffusion at the labels may take.
HELD_SHARE = 0.2
#: Nodes of a batch: the activations of 64 hidden units take 2 MB.
BATCH = 8192
# Parts of the nodes that compiled loops add up gradients over.
_PARTS = 16


class Streamed(Engine):
    """Networks of any kind that treats every node by itself, in batches of nodes."""

    name = "streamed"

    def refuses(self, problems: Sequence[Problem]) -> str | None:
        if not all(is_nodewise(each.model.convection) for each in problems):
            return "the base network does not treat every node by itself"
        return (
            refuses_diffusion(problems)
            or refuses_early_batch(problems)
            or refuses_extras(problems, validation=True, balance=True)
            or refuses_unlike(problems)
            or refuses_unshared(problems)
        )

    def declines(self, problems: Sequence[Problem]) -> str | None:
        many = problems[0].n_nodes >= STREAMED_FROM
        if _row_bytes(problems) > LARGEST_ROWS or (many and all(map(runs_in_loops, problems))):
            return None
        return "the graph is small enough for all nodes at once"

    def reason(self, problems: Sequence[Problem]) -> str:
        if (size := _row_bytes(problems)) > LARGEST_ROWS:
            why = f"the diffusion's rows at the labels would take {size / 1e9:.1f} GB"
            return f"{why}; nodes go through the network in batches, and nothing is kept of layers"
        return f"{problems[0].n_nodes:,} points go through compiled loops faster than through autograd"

    def fit(self, problems: Sequence[Problem], on_epoch: OnEpoch | None = None) -> list[Fitted]:
        first, (items, own) = problems[0], joined(problems)
        nodes, columns = with_held_out(items.nodes, first), len(problems) * first.n_outputs
        readout, order = _readout(first.model.diffusion, first.operator, nodes, columns, first.settings.epochs)
        compiled = all(map(runs_in_loops, problems))
        networks = (CompiledNetworks if compiled else BatchedNetworks)(problems, order)
        fitted = descended(problems, networks, readout, items, on_epoch)
        for each, here, answer in zip(fitted, own, readout.forward(networks.outputs()), strict=True):
            each.outputs = answer[here]
        return fitted


def is_nodewise(base: nn.Module) -> bool:
    """Whether a base network's output at a node depends on that node alone, and not on chance."""
    across = (nn.Dropout, nn.AlphaDropout, nn.modules.batchnorm._BatchNorm)
    return not any(isinstance(module, across) for module in base.modules())


def runs_in_loops(problem: Problem) -> bool:
    """Whether there are compiled loops for a network: one residual block with ReLU on dense features."""
    base = problem.model.convection
    return (
        available()
        and isinstance(problem.x, Tensor)
        and problem.device.type == "cpu"
        and isinstance(base, Residual)
        and is_one_block(base)
        and isinstance(base.activation, nn.ReLU)
    )


def _row_bytes(problems: Sequence[Problem]) -> int:
    nodes = with_held_out(joined(problems)[0].nodes, problems[0])
    return rows_bytes(problems[0].operator, len(nodes))


# ---- the diffusion -----------------------------------------------------------------------------------------------


def _readout(
    diffusion: Diffusion, operator: Laplacian, nodes: Tensor, columns: int, epochs: int
) -> tuple[Readout, Tensor | None]:
    """The faster readout that has room, and the order in which it wants the nodes."""
    made = _made.get(operator)
    if made is not None and made.serves(diffusion, operator, nodes):
        return made.rows, made.order
    given, order, asked = operator, None, nodes
    if isinstance(operator, SparseLaplacian) and runs_compiled(operator.detach(), operator.weights.detach()):
        order = locality_order(operator)
        place = torch.empty_like(order)
        place[order] = torch.arange(len(order))
        operator, nodes = permuted(operator, order), place[nodes]
    room = HELD_SHARE * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    # A row costs as many products to make as one column does in half an epoch.
    worth = nodes.numel() <= epochs * columns
    if not worth or rows_bytes(operator, nodes.numel()) > room:
        return Products(diffusion, operator, nodes), order
    _made.pop(given, None)  # before the new ones take their room
    rows = Rows(diffusion_rows(diffusion, operator, nodes))
    _made[given] = _Made(diffusion, given.version, asked, rows, order)
    return rows, order


@dataclass(frozen=True)
class _Made:
    """Rows of a diffusion, and what they were made for."""

    diffusion: Diffusion
    version: int
    nodes: Tensor
    rows: Rows
    order: Tensor | None

    def serves(self, diffusion: Diffusion, operator: Laplacian, nodes: Tensor) -> bool:
        """Whether another fit would make the same rows."""
        return self.diffusion is diffusion and self.version == operator.version and torch.equal(self.nodes, nodes)


# The rows of the last fit on an operator, for as long as that lives: an estimator fits held-out folds, then all labels.
_made: weakref.WeakKeyDictionary[Laplacian, _Made] = weakref.WeakKeyDictionary()


# ---- the networks ------------------------------------------------------------------------------------------------


class BatchedNetworks(Networks):
    """Networks of any kind, one after another, under autograd for a batch of nodes at a time.

    Parameters
    ----------
    problems
        They share features and settings.
    order
        The nodes in the order in which outputs are wanted; None for that of the features.
    """

    def __init__(self, problems: Sequence[Problem], order: Tensor | None) -> None:
        first = problems[0]
        self.models, self.x, self.order = [each.model for each in problems], first.x, order
        self.n_outputs, self.dtype, self.head = first.n_outputs, first.dtype, first.head
        self.optimiser = Optimiser([own for model in self.models for own in model.parameters()], first.settings)
        self.snapshot = Snapshot(self.models[0])

    @torch.no_grad()
    def outputs(self) -> Tensor:
        # One row holds all networks' outputs at a node, which the diffusion takes as columns.
        values = self.x if isinstance(self.x, Tensor) else self.x.values
        self.u = values.new_empty(self.x.shape[0], len(self.models) * self.n_outputs)
        self.fill(self.u)
        return by_network(self.u, len(self.models))

    def fill(self, out: Tensor) -> None:
        """Write the outputs."""
        for here, inputs in self._batches():
            for model, part in zip(self.models, out[here].split(self.n_outputs, dim=1), strict=True):
                part.copy_(model.base(inputs))

    def backward(self, gradient: Tensor) -> None:
        to_u = as_columns(gradient)
        for here, inputs in self._batches():
            for model, part in zip(self.models, to_u[here].split(self.n_outputs, dim=1), strict=True):
                model.base(inputs).backward(part)

    def keep(self) -> None:
        self.snapshot.take()

    def give_back(self) -> None:
        self.snapshot.restore()
        for model in self.models:
            model.eval()

    def _batches(self) -> Iterator[tuple[slice, Tensor]]:
        n = self.x.shape[0]
        for start in range(0, n, BATCH):
            here = slice(start, min(start + BATCH, n))
            yield here, rows_of(self.x, here if self.order is None else self.order[here])


class CompiledNetworks(BatchedNetworks):
    """Networks of one ReLU block in compiled loops; gradients are sums over fixed parts, whatever the threads are."""

    def __init__(self, problems: Sequence[Problem], order: Tensor | None) -> None:
        from condiff.kernels.vectors import WIDTH

        super().__init__(problems, order)
        assert isinstance(self.x, Tensor)
        self.n_nodes, self.width = len(self.x), WIDTH
        missing = -self.x.shape[1] % WIDTH
        padded = nn.functional.pad(self.x, (0, missing)) if missing else self.x.contiguous()
        self._blocks = padded.reshape(-1, WIDTH).numpy()
        bounds = np.linspace(0, self.n_nodes, _PARTS + 1).astype(int).tolist()
        self._parts = list(pairwise(bounds))

    def fill(self, out: Tensor) -> None:
        from condiff.kernels.bases import outputs

        order, weights = self._order(), self._weights()
        biases = torch.stack([own[-1] for own in self._own()]).detach()

        def work(part: tuple[int, int]) -> None:
            outputs(*part, order, self._blocks, *weights, out.numpy())
            here = out[slice(*part)].unflatten(1, biases.shape)
            here.copy_(apply_head(here + biases, self.head))

        self._share(work)

    @torch.no_grad()
    def backward(self, gradient: Tensor) -> None:
        from condiff.kernels.bases import add_gradients

        order, weights, to_u = self._order(), self._weights(), as_columns(gradient)

        def work(part: tuple[int, int]) -> list[Tensor]:
            shape = (len(self.models), self.n_outputs)
            behind, there = (each[slice(*part)].unflatten(1, shape) for each in (to_u, self.u))
            to_z = _through_head(behind, there, self.head)
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
            for parameter, found_gradient in zip(own, gradients, strict=True):
                parameter.grad = found_gradient.contiguous()

    def _own(self) -> list[list[nn.Parameter]]:
        """Weight and bias of the block, then of the read-out, of every network."""
        return [list(model.convection.parameters()) for model in self.models]

    def _order(self) -> NDArray[np.int64]:
        return np.arange(self.n_nodes) if self.order is None else self.order.numpy()

    def _weights(self) -> tuple[NDArray[Any], ...]:
        """All weights in blocks of units, as the loops want them."""
        from condiff.kernels.layout import in_blocks

        packed = [
            [in_blocks(each.detach()) for each in (weight.mT, bias[None], readout)]
            for weight, bias, readout, _ in self._own()
        ]
        return tuple(np.stack(each) for each in zip(*packed, strict=True))

    def _share(self, work: Callable[[tuple[int, int]], Any]) -> list[Any]:
        threads = torch.get_num_threads()
        with one_torch_thread(), ThreadPoolExecutor(threads) as pool:
            return list(pool.map(work, self._parts))


def _through_head(behind: Tensor, u: Tensor, head: Head) -> Tensor:
    """The gradient by the outputs before the head, given that behind it."""
    if head == "identity":
        return behind
    if head == "sigmoid":
        return behind * u * (1 - u)
    return u * (behind - (u * behind).sum(-1, keepdim=True))
