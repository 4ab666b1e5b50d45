"""Sparse products under autograd; those with 64 columns, which many networks are wide, by a compiled loop."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from condiff import kernels
from condiff.graph.sparse import Pattern, SparseMatrix

#: The columns that the compiled loop takes.
WIDTH = 64


def product(matrix: SparseMatrix, dense: Tensor) -> Tensor:
    """The same as ``matrix @ dense``, digit for digit, where the matrix needs no gradient."""
    return _Product.apply(dense, matrix)  # type: ignore[no-any-return, no-untyped-call]


def symmetric_product(matrix: SparseMatrix, dense: Tensor) -> Tensor:
    """The same for a symmetric matrix, whose gradient then needs no second copy of it."""
    return _SymmetricProduct.apply(dense, matrix)  # type: ignore[no-any-return, no-untyped-call]


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, dense: Tensor, matrix: SparseMatrix) -> Tensor:
        ctx.matrix = matrix
        return _multiplied(matrix.pattern, matrix.values, dense)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        pattern, values = ctx.matrix.pattern, ctx.matrix.values
        if not _compiled(values, gradient):
            return pattern.product(values, gradient.contiguous(), transpose=True), None
        crow, columns, order = pattern.mirror
        return _looped(crow, columns, values.index_select(0, order), gradient.contiguous()), None


class _SymmetricProduct(_Product):
    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return _multiplied(ctx.matrix.pattern, ctx.matrix.values, gradient.contiguous()), None


def _multiplied(pattern: Pattern, values: Tensor, dense: Tensor) -> Tensor:
    if not _compiled(values, dense):
        return pattern.product(values, dense)
    return _looped(pattern.crow_indices, pattern.col_indices, values, dense.contiguous())


def _compiled(values: Tensor, dense: Tensor) -> bool:
    return (
        dense.shape[1] == WIDTH and values.dtype == dense.dtype and dense.device.type == "cpu" and kernels.available()
    )


def _looped(crow: Tensor, columns: Tensor, values: Tensor, dense: Tensor) -> Tensor:
    from condiff.kernels.product import product

    out = dense.new_empty(crow.shape[0] - 1, WIDTH)
    product(*(each.detach().numpy() for each in (crow, columns, values, dense, out)))
    return out
