"""Whatever holds a Laplacian, read as an operator: an operator itself, a graph, or the matrix ``L``."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from condiff.errors import InvalidInputError
from condiff.graph.laplacian import DenseLaplacian, Laplacian, SparseLaplacian


def laplacian(source: Any, dtype: torch.dtype | None = None, device: torch.device | str | None = None) -> Laplacian:
    """Read a Laplacian: a :class:`Laplacian`, a :class:`Graph`, or a tensor that holds the matrix ``L`` itself.

    A tensor may be dense, of shape (..., n, n), or sparse; its rows must sum to zero and its off-diagonal entries
    must not be positive, or it is no Laplacian and the error says so.
    """
    if isinstance(source, Laplacian):
        return source.to(device, dtype)
    if hasattr(source, "laplacian"):
        made: Laplacian = source.laplacian(dtype or torch.get_default_dtype(), device)
        return made
    if not isinstance(source, Tensor):
        raise InvalidInputError(
            f"cannot read a Laplacian from {type(source).__name__}; use Graph.of(...).normalised().laplacian()"
        )
    if source.ndim < 2 or source.shape[-1] != source.shape[-2]:
        raise InvalidInputError(f"a Laplacian is a square matrix, but this tensor has the shape {tuple(source.shape)}")
    matrix = source.to(
        device=device, dtype=dtype or (None if source.is_floating_point() else torch.get_default_dtype())
    )
    if matrix.layout != torch.strided:
        coordinates = matrix.to_sparse_coo().coalesce()
        (rows, columns), values = coordinates.indices(), coordinates.values()
        between = rows != columns
        sums = values.new_zeros(matrix.shape[0]).index_add(0, rows, values)
        _check_rows(sums, -values[between], values)
        edges = torch.stack([columns[between], rows[between]])
        return SparseLaplacian.from_edges(
            edges, -values[between], n_nodes=matrix.shape[0], normalisation="none", self_loops=False
        )
    weights = torch.diag_embed(matrix.diagonal(dim1=-2, dim2=-1)) - matrix
    _check_rows(matrix.sum(-1), weights, matrix)
    return DenseLaplacian(weights)


def _check_rows(sums: Tensor, weights: Tensor, entries: Tensor) -> None:
    scale = float(entries.detach().abs().max()) if entries.numel() else 1.0
    tolerance = 1e-4 * max(scale, 1e-30) if entries.dtype != torch.float64 else 1e-8 * max(scale, 1e-30)
    if not bool(torch.isfinite(entries.detach()).all()):
        raise InvalidInputError("this matrix has NaN or infinite entries, so it is no Laplacian")
    if weights.numel() and float(weights.detach().min()) < -tolerance:
        raise InvalidInputError(
            "this matrix has positive off-diagonal entries, so it is no Laplacian; for an adjacency use "
            "Graph.of(adjacency).normalised().laplacian()"
        )
    if float(sums.detach().abs().max()) > tolerance:
        raise InvalidInputError(
            f"the rows of a Laplacian sum to zero, but one of these sums to {float(sums.detach().abs().max()):.3g}"
        )
