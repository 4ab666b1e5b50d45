"""The rows at the border between parts: what a diffusion step has to fetch from other ranks, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from condiff.distributed.group import Ranks


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
