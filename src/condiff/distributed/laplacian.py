"""The rows of a Laplacian that one rank holds, and the border rows of ``u`` that it fetches from others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from condiff.distributed.group import Ranks
from condiff.errors import InvalidInputError
from condiff.graph import Laplacian
from condiff.graph.sparse import Pattern, SparseMatrix


class Exchange:
    """Fetch the rows of ``u`` that this rank's Laplacian rows refer to and other ranks hold.

    Parameters
    ----------
    ranks
        The processes of the job.
    send_rows
        Own rows that others need, grouped by the rank that needs them; a row may be needed by several.
    send, receive
        How many rows go to and come from each rank.
    """

    def __init__(self, ranks: Ranks, send_rows: Tensor, send: Sequence[int], receive: Sequence[int]) -> None:
        self.ranks = ranks
        self.send_rows = send_rows
        self.send, self.receive = list(send), list(receive)

    @property
    def n_border(self) -> int:
        """How many rows come from others."""
        return sum(self.receive)

    def gather(self, u: Tensor) -> Tensor:
        """Others' rows that are needed here, outside of autograd."""
        return self.ranks.swap(u.index_select(0, self.send_rows), self.send, self.receive)

    def scatter(self, gradient: Tensor, n_rows: int) -> Tensor:
        """The transpose of :meth:`gather`: what others found for rows of this rank, added up; ``n_rows`` in all."""
        came = self.ranks.swap(gradient, self.receive, self.send)
        return came.new_zeros(n_rows, came.shape[1]).index_add_(0, self.send_rows, came)

    def border(self, u: Tensor) -> Tensor:
        """Others' rows that are needed here; gradients go back the way the rows came.

        Every rank of the job must call this the same number of times, in the forward and in the backward pass.
        """
        return _Border.apply(u, self)  # type: ignore[no-any-return, no-untyped-call]


class _Border(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, u: Tensor, exchange: Exchange) -> Tensor:
        ctx.exchange, ctx.n_rows = exchange, u.shape[0]
        return exchange.gather(u)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return ctx.exchange.scatter(gradient, ctx.n_rows), None


class ShardedLaplacian(Laplacian):
    r"""Own rows of :math:`L u`: the degree times own rows, less the weights times own and border rows.

    Each product exchanges the border rows once. A symmetric Laplacian is its own adjoint, so its backward pass is the
    same product of the gradient; otherwise the transposed weights are applied and the border's part is sent back.
    Neither keeps ``u``: a chain of explicit layers needs no more memory in training than one of them.

    Parameters
    ----------
    pattern, weights
        The weights of own rows; columns are own nodes, then border nodes in the order in which they come.
    degree
        Row sums of the weights.
    exchange
        What fetches the border rows.
    symmetric
        Whether the whole graph is.
    """

    def __init__(
        self, pattern: Pattern, weights: Tensor, degree: Tensor, exchange: Exchange, *, symmetric: bool
    ) -> None:
        rows, columns = pattern.shape
        if columns != rows + exchange.n_border:
            raise InvalidInputError(
                f"the weights have {columns} columns, but there are {rows} own and {exchange.n_border} border nodes"
            )
        self.pattern, self.weights, self.degree = pattern, weights, degree
        self.exchange, self.symmetric = exchange, symmetric

    def __call__(self, u: Tensor) -> Tensor:
        self._check(u)
        if self.symmetric:
            return _Symmetric.apply(u, self)  # type: ignore[no-any-return, no-untyped-call]
        around = torch.cat([u, self.exchange.border(u)])
        return self.degree[:, None] * u - SparseMatrix(self.pattern, self.weights) @ around

    def product(self, u: Tensor) -> Tensor:
        """Own rows of ``L u``, outside of autograd."""
        around = torch.cat([u, self.exchange.gather(u)])
        return self.degree[:, None] * u - self.pattern.product(self.weights, around)

    @property
    def n_nodes(self) -> int:
        """Number of own nodes."""
        return self.pattern.shape[0]

    @property
    def diagonal(self) -> Tensor:
        own = self.pattern.rows == self.pattern.columns
        loops = self.weights.new_zeros(self.n_nodes).index_add_(0, self.pattern.rows[own], self.weights[own])
        return self.degree - loops

    @property
    def transposed(self) -> Laplacian:
        if self.symmetric:
            return self
        raise InvalidInputError("the transpose of a directed graph's sharded Laplacian is there for gradients only")

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> ShardedLaplacian:
        if torch.device(device or self.device) != self.device:
            raise InvalidInputError("a sharded Laplacian stays on the processor: gloo exchanges rows there")
        if (dtype or self.dtype) == self.dtype:
            return self
        weights, degree = self.weights.to(dtype), self.degree.to(dtype)
        return ShardedLaplacian(self.pattern, weights, degree, self.exchange, symmetric=self.symmetric)


class _Symmetric(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, u: Tensor, operator: ShardedLaplacian) -> Tensor:
        ctx.operator = operator
        return operator.product(u)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return ctx.operator.product(gradient), None
