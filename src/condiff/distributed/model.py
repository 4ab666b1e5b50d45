"""The network of a sharded fit: the base network over own nodes in blocks, then the diffusion over all ranks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from condiff.bases import residual_network
from condiff.diffusion import Certificate, Euler
from condiff.distributed.group import Ranks
from condiff.distributed.shards import TRAIN, VALIDATION, Description, Shard
from condiff.errors import InvalidInputError
from condiff.model import apply_head
from condiff.training.descent import Networks


@dataclass(frozen=True)
class Network:
    """A COIN by its settings.

    Attributes
    ----------
    layers, strength
        Explicit diffusion layers and their strength; ``auto`` is the largest that keeps probabilities ones.
    hidden_features
        Hidden width of the base network; ``input`` keeps the input's.
    activation
        A name of :data:`condiff.bases.residual.ACTIVATIONS`.
    seed
        Of the first weights: those of ``COIN.build`` under ``torch.manual_seed``.
    dtype
        Precision of the fit, ``float32`` or ``float64``.
    """

    layers: int = 20
    strength: float | Literal["auto"] = "auto"
    hidden_features: int | Literal["input"] = "input"
    activation: str = "relu"
    seed: int = 0
    dtype: str = "float32"

    def __post_init__(self) -> None:
        if self.layers < 0:
            raise InvalidInputError(f"layers must be a whole number, 0 or more, not {self.layers}")
        if self.strength != "auto" and not 0 < self.strength < float("inf"):
            raise InvalidInputError(f"strength must be 'auto' or positive and finite, not {self.strength!r}")
        if self.dtype not in ("float32", "float64"):
            raise InvalidInputError(f"dtype must be 'float32' or 'float64', not {self.dtype!r}")

    @property
    def torch_dtype(self) -> torch.dtype:
        """The precision as torch has it."""
        return torch.float64 if self.dtype == "float64" else torch.float32

    def build(self, problem: Description) -> nn.Module:
        """The base network with its first weights, the same on every rank."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            base = residual_network(
                problem.n_features,
                problem.n_classes,
                hidden_features=self.hidden_features,
                activation=self.activation,
            )
        return base.to(self.torch_dtype)

    def strength_on(self, problem: Description) -> float:
        """The strength as a number."""
        if self.strength != "auto":
            return float(self.strength)
        return 1.0 / problem.max_diagonal if problem.max_diagonal > 0 else 1.0

    def certificate(self, problem: Description) -> Certificate:
        """Step-size limits of the graph, from the diagonal alone: no eigenvalue is worth a pass over all ranks."""
        evidence = "gershgorin" if problem.symmetric else "directed"
        largest = problem.max_diagonal
        return Certificate(problem.n_nodes, largest, float("nan"), 2 * largest, evidence)


class ShardedCOIN(Networks):
    """A COIN of which this rank holds some nodes: the networks of the descent, and its readout.

    Blocks of rows go through the base network one after another, forwards without a trace and, for gradients, once
    more: memory holds the activations of one block, and a few matrices of own nodes times classes. Every rank must call
    :meth:`forward` and :meth:`adjoint` together.

    Parameters
    ----------
    network
        The settings.
    shard
        What this rank holds.
    ranks
        The job.
    block_rows
        Rows that go through the base network at a time.
    """

    def __init__(self, network: Network, shard: Shard, ranks: Ranks, *, block_rows: int = 16_384) -> None:
        if block_rows < 1:
            raise InvalidInputError(f"block_rows must be at least 1, not {block_rows}")
        self.network, self.shard, self.ranks, self.block_rows = network, shard, ranks, block_rows
        self.base = network.build(shard.description)
        self.strength = network.strength_on(shard.description)
        self.read_nodes = torch.cat([shard.with_role(TRAIN), shard.with_role(VALIDATION)])
        #: The best weights so far.
        self.best: dict[str, Tensor] = {}

    @torch.no_grad()
    def outputs(self) -> Tensor:
        """``u`` of own nodes before any diffusion, (1, n, c)."""
        u = torch.empty(self.shard.n_nodes, self.shard.description.n_classes, dtype=self.network.torch_dtype)
        for rows in self._blocks():
            u[rows] = self._forward(rows)
        return u[None]

    def diffuse(self, u: Tensor) -> Tensor:
        """``u`` of own nodes after all layers."""
        return Euler()(self.shard.operator, u, self.strength, self.network.layers)

    def forward(self, u: Tensor) -> Tensor:
        """The diffused output at own items."""
        self._u = u[0].requires_grad_()
        self._diffused = self.diffuse(self._u)
        return self._diffused.detach()[self.read_nodes][None]

    def adjoint(self, gradient: Tensor) -> Tensor:
        """The gradient by own nodes' ``u``, which rows on other ranks add to."""
        whole = torch.zeros_like(self._diffused).index_add_(0, self.read_nodes[: gradient.shape[1]], gradient[0])
        return torch.autograd.grad(self._diffused, self._u, whole)[0][None]

    def backward(self, gradient: Tensor) -> None:
        """The gradients of the base network's weights, by one sum over ranks for all of them."""
        self.base.zero_grad(set_to_none=True)
        for rows in self._blocks():
            self._forward(rows).backward(gradient[0, rows])
        gradients = [parameter.grad for parameter in self.base.parameters() if parameter.grad is not None]
        flat = self.ranks.add_up(torch.cat([own.flatten() for own in gradients]))
        for own, part in zip(gradients, flat.split([own.numel() for own in gradients]), strict=True):
            own.copy_(part.view_as(own))

    def keep(self) -> None:
        """Remember the present weights as the best."""
        self.best.update({name: value.detach().clone() for name, value in self.base.state_dict().items()})

    def give_back(self) -> None:
        """Put the best weights back, if there are any."""
        self.base.load_state_dict(self.best or self.base.state_dict())

    def _forward(self, rows: slice) -> Tensor:
        z: Any = self.base(self.shard.features.block(rows.start, rows.stop))
        return apply_head(z, "softmax")

    def _blocks(self) -> Iterator[slice]:
        n_nodes = self.shard.n_nodes
        for start in range(0, n_nodes, self.block_rows):
            yield slice(start, min(start + self.block_rows, n_nodes))
