"""Weights of a graph's edges by how alike the states at their ends are, as graph neural diffusion has them."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn

from condiff.errors import InvalidInputError
from condiff.graph.sparse import Pattern

Comparison = Literal["scaled_dot", "cosine", "exponential"]
Normalised = Literal["rows", "columns"]


def check_attention(kind: str, normalise: str, heads: int, width: int) -> None:
    """Raise InvalidInputError unless such an attention exists."""
    if kind not in ("scaled_dot", "cosine", "exponential"):
        raise InvalidInputError(f"attention must be 'scaled_dot', 'cosine' or 'exponential', not {kind!r}")
    if normalise not in ("rows", "columns"):
        raise InvalidInputError(f"normalise must be 'rows' or 'columns', not {normalise!r}")
    if heads < 1 or width % heads:
        raise InvalidInputError(f"{heads} heads do not divide attention_width {width}")


class SoftAdjacency(nn.Module):
    """Attention over the entries of a pattern, the mean of its heads, with a squareplus in place of a softmax.

    Parameters
    ----------
    pattern
        The edges.
    inputs, width
        Width of a state, and of the queries and keys of all heads together.
    heads
        How many.
    kind
        How a query and a key are compared; ``exponential`` is of their distance.
    normalise
        Whether ``rows`` or ``columns`` add up to one.
    """

    def __init__(
        self, pattern: Pattern, inputs: int, width: int, heads: int, kind: Comparison, normalise: Normalised
    ) -> None:
        super().__init__()
        self.pattern, self.heads, self.kind, self.normalise = pattern, heads, kind, normalise
        self.query, self.key = nn.Linear(inputs, width), nn.Linear(inputs, width)
        for layer in (self.query, self.key):
            nn.init.constant_(layer.weight, 1e-5)
        if kind == "exponential":
            self.height = nn.Parameter(torch.ones(1))
            self.length = nn.Parameter(torch.ones(1))

    def forward(self, state: Tensor) -> Tensor:
        """The mean of the heads for each entry of the pattern."""
        heads = self.heads
        queries = self.query(state).unflatten(-1, (heads, -1))
        keys = self.key(state).unflatten(-1, (heads, -1))
        if self.kind == "cosine":
            queries = nn.functional.normalize(queries, dim=-1, eps=1e-5)
            keys = nn.functional.normalize(keys, dim=-1, eps=1e-5)
            scores = self._products(queries, keys)
        elif self.kind == "exponential":
            # |q - k|^2 as a product of two longer vectors.
            ones = queries.new_ones(*queries.shape[:-1], 1)
            queries = torch.cat((queries, queries.square().sum(-1, keepdim=True), ones), -1)
            keys = torch.cat((-2 * keys, ones, keys.square().sum(-1, keepdim=True)), -1)
            distances = self._products(queries, keys).clamp_min(0)
            scores = self.height.square() * torch.exp(-distances / (2 * self.length.square()))
        else:
            queries = queries / (self.query.out_features / heads) ** 0.5
            scores = self._products(queries, keys)
        scores = scores - scores.max()
        positive = (scores + torch.sqrt(scores.square() + 4)) / 2
        group = self.pattern.rows if self.normalise == "rows" else self.pattern.columns
        sums = positive.new_zeros(state.shape[0], heads).index_add(0, group, positive)
        return (positive / sums.index_select(0, group)).mean(-1)

    def _products(self, queries: Tensor, keys: Tensor) -> Tensor:
        products: Tensor = _EntryProducts.apply(queries, keys, self.pattern)  # type: ignore[no-untyped-call]
        return products


class _EntryProducts(torch.autograd.Function):
    """``<q_i, k_j>`` of each head for the entries (i, j) of a pattern; q, k are (n, heads, width)."""

    @staticmethod
    def forward(ctx: Any, queries: Tensor, keys: Tensor, pattern: Pattern) -> Tensor:
        ctx.pattern = pattern
        ctx.save_for_backward(queries, keys)
        products = [pattern.outer(query, key) for query, key in zip(_heads(queries), _heads(keys), strict=True)]
        return torch.stack(products, -1)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        queries, keys = ctx.saved_tensors
        values = gradient.T.contiguous()
        to_queries = [ctx.pattern.product(each, key) for each, key in zip(values, _heads(keys), strict=True)]
        to_keys = [
            ctx.pattern.product(each, query, transpose=True)
            for each, query in zip(values, _heads(queries), strict=True)
        ]
        return torch.stack(to_queries, 1), torch.stack(to_keys, 1), None


def _heads(vectors: Tensor) -> Tensor:
    """(heads, n, width), one head after the other in memory."""
    return vectors.transpose(0, 1).contiguous()
