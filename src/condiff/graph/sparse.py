"""A sparse matrix that multiplies dense ones, differentiable in both, with its transpose sorted only once.

Indices are checked once, where they enter: the compiled code behind every product reads wherever they point.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from condiff.errors import InvalidInputError
from condiff.graph.valid import check_pointers, check_range, valid_csr

# torch notes once a process that its CSR tensors are in beta, at the first one made; that is not the user's concern.
with warnings.catch_warnings():
    warnings.simplefilter("ignore", UserWarning)
    torch.sparse_csr_tensor(torch.tensor([0, 1]), torch.tensor([0]), torch.tensor([1.0]))

# What int32 can count.
_MOST_ENTRIES = np.iinfo(np.int32).max
# Values that a quarter of a random number takes.
_LEVELS = 1 << 16
# Entries of a block of rows.
_BLOCK = 1 << 22


class Pattern:
    """Where the entries of a CSR matrix stand; matrices that differ only in their values share it.

    Parameters
    ----------
    crow_indices, col_indices
        The CSR structure; it is kept as int32.
    n_columns
        The number of columns.

    Raises
    ------
    InvalidInputError
        If the indices are no CSR structure of such a matrix.
    """

    def __init__(self, crow_indices: Tensor, col_indices: Tensor, n_columns: int) -> None:
        check_pointers(crow_indices, crow_indices.shape[0] - 1, col_indices.shape[0], exactly=True)
        check_range(col_indices, n_columns)
        if col_indices.shape[0] > _MOST_ENTRIES:
            raise InvalidInputError(
                f"a sparse matrix holds up to {_MOST_ENTRIES:,} entries, not {col_indices.shape[0]:,}; "
                "condiff.distributed cuts a larger graph into parts"
            )
        self.crow_indices = crow_indices.to(torch.int32).contiguous()
        self.col_indices = col_indices.to(torch.int32).contiguous()
        self.shape = (crow_indices.shape[0] - 1, n_columns)

    @cached_property
    def rows(self) -> Tensor:
        """The row of every entry, as int64."""
        counts = self.crow_indices.diff().long()
        return torch.repeat_interleave(torch.arange(self.shape[0], device=counts.device), counts)

    def row_blocks(self) -> Iterator[tuple[Tensor, slice]]:
        """The rows of some entries at a time, and which entries they are: for graphs whose ``rows`` take gigabytes."""
        last = 0
        while last < self.shape[0]:
            first, start = last, int(self.crow_indices[last])
            last = int(torch.searchsorted(self.crow_indices, start + _BLOCK, right=True)) - 1
            last = min(max(last, first + 1), self.shape[0])
            counts = self.crow_indices[first : last + 1].diff().long()
            rows = torch.repeat_interleave(torch.arange(first, last, device=counts.device), counts)
            yield rows, slice(start, int(self.crow_indices[last]))

    @cached_property
    def columns(self) -> Tensor:
        """The column of every entry, as int64."""
        return self.col_indices.long()

    @cached_property
    def mirror(self) -> tuple[Tensor, Tensor, Tensor]:
        """The CSR structure of the transpose, and where each of its entries stands here."""
        order = torch.argsort(self.columns * self.shape[0] + self.rows, stable=True)
        crow = torch.zeros(self.shape[1] + 1, dtype=torch.int32, device=order.device)
        crow[1:] = torch.cumsum(torch.bincount(self.columns, minlength=self.shape[1]), 0)
        return crow, self.rows[order].to(torch.int32), order

    def to(self, device: torch.device | str | None) -> Pattern:
        """The same pattern on another device; itself if it is there."""
        if device is None or torch.device(device) == self.col_indices.device:
            return self
        other = object.__new__(Pattern)  # checked already
        other.crow_indices, other.col_indices = self.crow_indices.to(device), self.col_indices.to(device)
        other.shape = self.shape
        return other

    def product(self, values: Tensor, dense: Tensor, *, transpose: bool = False) -> Tensor:
        """The matrix with these values, or its transpose, times a dense one, outside of autograd."""
        if not transpose:
            return self._csr(values) @ dense
        shape = (self.shape[1], self.shape[0])
        if self.shape[0] > 4 * self.shape[1] and values.device.type == "cpu":
            # The result of a tall matrix's transpose is small and stays in the cache while the entries are added to it
            # in the order in which they stand: three times as fast as to gather them, and nothing is sorted.
            parts = (each.detach().numpy() for each in (values, self.col_indices, self.crow_indices))
            return torch.from_numpy(sp.csc_array(tuple(parts), shape=shape) @ dense.detach().numpy())
        crow, col, order = self.mirror
        return torch.sparse_csr_tensor(crow, col, values.index_select(0, order), shape, check_invariants=False) @ dense

    def outer(self, left: Tensor, right: Tensor) -> Tensor:
        """The entries of ``left right^T`` in the places of this pattern, outside of autograd."""
        if left.shape[1] < 8:
            # torch's kernel is several times slower on rows that do not fill a vector register.
            left, right = (torch.nn.functional.pad(each, (0, 8 - each.shape[1])) for each in (left, right))
        zeros = self._csr(left.new_zeros(self.col_indices.shape[0]))
        sampled: Tensor = torch.sparse.sampled_addmm(zeros, left, right.mT)
        return sampled.values()

    def _csr(self, values: Tensor) -> Tensor:
        # Made each time: it only wraps the arrays, and a CSR tensor kept here could not be deep-copied.
        return torch.sparse_csr_tensor(self.crow_indices, self.col_indices, values, self.shape, check_invariants=False)


class SparseMatrix:
    """A CSR matrix; ``matrix @ dense`` is differentiable in ``dense`` and in ``values``.

    torch's own CSR product sorts the transpose again in every backward pass, about ten times the cost of the product.

    Parameters
    ----------
    pattern
        Where the entries stand.
    values
        One number for each of them.
    """

    def __init__(self, pattern: Pattern, values: Tensor) -> None:
        if values.shape != pattern.col_indices.shape:
            raise InvalidInputError(
                f"there are {pattern.col_indices.shape[0]} entries but the values have the shape {tuple(values.shape)}"
            )
        self.pattern = pattern
        self.values = values

    @classmethod
    def of(cls, matrix: Any, dtype: torch.dtype = torch.float32) -> SparseMatrix:
        """A SciPy sparse matrix or a dense array as one of these."""
        csr = valid_csr(matrix)
        csr.sum_duplicates()
        pattern = Pattern(torch.from_numpy(csr.indptr), torch.from_numpy(csr.indices), csr.shape[1])
        return cls(pattern, torch.from_numpy(csr.data).to(dtype))

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.pattern.shape

    def with_values(self, values: Tensor) -> SparseMatrix:
        """Other values in the same places; what is known about the places is shared."""
        return SparseMatrix(self.pattern, values)

    def dropped(self, probability: float, training: bool = True) -> SparseMatrix:
        """Dropout: on zeros it does nothing, so it need only see the stored entries."""
        values = dropout(self.values, probability, training)
        return self if values is self.values else self.with_values(values)

    def __matmul__(self, dense: Tensor) -> Tensor:
        return _Product.apply(self.values, dense, self.pattern)  # type: ignore[no-any-return, no-untyped-call]

    def to_dense(self) -> Tensor:
        """The same as a dense tensor, differentiable in the values."""
        dense = self.values.new_zeros(self.shape)
        return dense.index_put((self.pattern.rows, self.pattern.columns), self.values, accumulate=True)


def valid_coo(tensor: Tensor) -> Tensor:
    """A sparse tensor as coalesced coordinates; raises InvalidInputError where its indices point outside."""
    shape, layout = tensor.shape, tensor.layout
    try:
        if layout == torch.sparse_coo:
            valid = torch.sparse_coo_tensor(tensor._indices(), tensor._values(), shape, check_invariants=True)
        else:
            by_row = layout in (torch.sparse_csr, torch.sparse_bsr)
            pointers = tensor.crow_indices() if by_row else tensor.ccol_indices()
            indices = tensor.col_indices() if by_row else tensor.row_indices()
            valid = torch.sparse_compressed_tensor(
                pointers, indices, tensor.values(), shape, layout=layout, check_invariants=True
            )
    except RuntimeError as error:
        raise InvalidInputError(f"the indices of this sparse tensor are not valid: {error}") from error
    coordinates: Tensor = valid.to_sparse_coo().coalesce()
    return coordinates


def dropout(values: Tensor, probability: float, training: bool = True) -> Tensor:
    """Set each element to zero with a probability and scale the others so that the mean stays.

    torch's own draws one Bernoulli variable an element, which on a CPU takes longer than most layers that follow. Here
    four elements share a random number of 64 bits, ten times as fast; the probability is rounded to 16 of them.
    """
    if not 0.0 <= probability < 1.0:
        raise InvalidInputError(f"the probability of dropout must be at least 0 and below 1, not {probability}")
    if probability == 0.0 or not training:
        return values
    dropped = min(round(probability * _LEVELS), _LEVELS - 1)
    count = values.numel()
    numbers = torch.empty(-(-count // 4), dtype=torch.int64, device=values.device).random_(-(2**63), None)
    lanes = numbers.view(torch.int16)[:count].view(values.shape)
    # Written as numbers at once: to convert truth values costs several times the comparison.
    factors = torch.ge(lanes, dropped - _LEVELS // 2, out=torch.empty_like(lanes, dtype=values.dtype))
    return values * factors.mul_(_LEVELS / (_LEVELS - dropped))


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, dense: Tensor, pattern: Pattern) -> Tensor:
        ctx.pattern = pattern
        ctx.save_for_backward(values, *((dense,) if ctx.needs_input_grad[0] else ()))
        return pattern.product(values, dense)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        pattern: Pattern = ctx.pattern
        values = ctx.saved_tensors[0]
        to_values = pattern.outer(gradient, ctx.saved_tensors[1]) if ctx.needs_input_grad[0] else None
        to_dense = pattern.product(values, gradient, transpose=True) if ctx.needs_input_grad[1] else None
        return to_values, to_dense, None
