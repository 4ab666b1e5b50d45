"""Indices of sparse matrices, checked where they enter: compiled code reads wherever they point."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from condiff.errors import InvalidInputError


def valid_csr(source: Any) -> sp.csr_array:
    """A SciPy sparse matrix or a dense array as CSR; raises InvalidInputError where its indices point outside."""
    if sp.issparse(source):
        if source.format not in ("coo", "csr", "csc", "bsr"):
            source = sp.csr_array(source)
        _check_matrix(source)
    matrix = sp.csr_array(source)
    matrix.prune()
    return matrix


def _check_matrix(matrix: Any) -> None:
    rows, columns = matrix.shape
    if matrix.format == "coo":
        for indices, bound in zip(matrix.coords, (rows, columns), strict=True):
            check_range(indices, bound)
        return
    if matrix.format == "bsr":
        rows, columns = rows // matrix.blocksize[0], columns // matrix.blocksize[1]
    major, minor = (columns, rows) if matrix.format == "csc" else (rows, columns)
    check_pointers(matrix.indptr, major, min(len(matrix.indices), len(matrix.data)))
    check_range(matrix.indices[: matrix.indptr[-1]], minor)


def check_pointers(pointers: Any, rows: int, entries: int, *, exactly: bool = False) -> None:
    """Refuse row pointers, an array or a tensor, that are not those of so many rows and entries."""
    whole = _is_whole(pointers)
    falls = whole and len(pointers) > 1 and bool((pointers[1:] < pointers[:-1]).any())
    if not whole or len(pointers) != rows + 1 or rows < 0 or falls or int(pointers[0]) != 0:
        raise InvalidInputError(
            "the row pointers of a sparse matrix must be whole numbers, one more than rows, that begin at 0 and never "
            f"decrease; these are {len(pointers)} numbers of {pointers.dtype}"
        )
    if int(pointers[-1]) > entries or (exactly and int(pointers[-1]) != entries):
        raise InvalidInputError(f"the row pointers end at {int(pointers[-1])}, but there are {entries} entries")


def check_range(indices: Any, bound: int) -> None:
    """Refuse indices, an array or a tensor, that point outside of what they number."""
    if not _is_whole(indices):
        raise InvalidInputError(f"the indices of a sparse matrix must be whole numbers in a row, not {indices.dtype}")
    if len(indices) and (int(indices.min()) < 0 or int(indices.max()) >= bound):
        raise InvalidInputError(
            f"the indices of a sparse matrix go from {int(indices.min())} to {int(indices.max())}, but must be from 0 "
            f"to {bound - 1}"
        )


def _is_whole(indices: Any) -> bool:
    if isinstance(indices, np.ndarray):
        return indices.ndim == 1 and indices.dtype.kind in "iu"
    return indices.ndim == 1 and str(indices.dtype) in ("torch.int32", "torch.int64")
