"""Functions of a graph's normalised adjacency matrix, by few sparse products, worked out once for each graph."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from scipy.fft import dct
from torch import Tensor

from condiff.errors import InvalidInputError
from condiff.graph import Graph
from condiff.graph.sparse import SparseMatrix

_MOST_TERMS = 2048
# Columns that are worked on together: wide enough to vectorise, narrow enough to stay in the processor's cache.
_BLOCK = 64

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class Filter:
    r"""A function :math:`f(S)` of a symmetric matrix with its spectrum in [-1, 1], as its Chebyshev series.

    The series ends where its terms are below the rounding of float32, for the functions of diffusion after a few dozen
    terms, so that hundreds of Euler steps or of power iterations are never taken one by one.

    Parameters
    ----------
    matrix
        :math:`S`.
    response
        :math:`f`, of an array of eigenvalues.
    """

    def __init__(self, matrix: sp.csr_array, response: Callable[[NDArray[np.float64]], NDArray[np.float64]]) -> None:
        self.matrix = SparseMatrix.of(matrix)
        self.coefficients = _series(response)

    def __call__(self, signal: Tensor) -> Tensor:
        """:math:`f(S)` times the signal, (n, columns)."""
        first, second, *rest = self.coefficients
        previous, current = signal.clone(), self.matrix @ signal
        result = first * signal + second * current
        for coefficient in rest:
            previous.neg_().add_(self.matrix @ current, alpha=2.0)
            previous, current = current, previous
            result.add_(current, alpha=coefficient)
        return result

    def columns(self) -> Iterator[tuple[slice, Tensor]]:
        """The dense columns of :math:`f(S)`, a block of them at a time."""
        n = self.matrix.shape[0]
        for block in blocks(n):
            unit = torch.zeros(n, block.stop - block.start)
            unit[torch.arange(block.start, block.stop), torch.arange(block.stop - block.start)] = 1.0
            yield block, self(unit)

    def of_sparse(self, signal: sp.csr_array) -> Tensor:
        """:math:`f(S)` times a sparse signal, which is made dense in blocks of columns."""
        by_column = sp.csc_array(signal)
        result = torch.empty(signal.shape, dtype=torch.float32)
        for block in blocks(signal.shape[1]):
            result[:, block] = self(torch.from_numpy(by_column[:, block].toarray()).float())
        return result


def blocks(n_columns: int, width: int = _BLOCK) -> Iterator[slice]:
    """Consecutive ranges of columns."""
    for start in range(0, n_columns, width):
        yield slice(start, min(start + width, n_columns))


def _series(response: Callable[[NDArray[np.float64]], NDArray[np.float64]]) -> list[float]:
    degree = 16
    while degree <= _MOST_TERMS:
        nodes = np.cos(np.pi * (np.arange(degree + 1) + 0.5) / (degree + 1))
        coefficients = dct(response(nodes)) / (degree + 1)
        coefficients[0] /= 2
        needed = np.flatnonzero(np.abs(coefficients) > 1e-7 * np.abs(coefficients).max())
        if needed.size and needed[-1] < degree - 4:
            return [float(each) for each in coefficients[: max(int(needed[-1]) + 1, 2)]]
        degree *= 2
    raise InvalidInputError(
        f"this diffusion is too sharp a function of the graph's spectrum: {_MOST_TERMS} terms do not resolve it"
    )


def once_per_graph(build: Callable[Arguments, Result], kept: int = 3) -> Callable[Arguments, Result]:
    """Remember the latest results of a function of graphs, sparse matrices and plain values.

    Graphs and matrices count as the same if their numbers are: each split of a data set may bring its own copy.
    """
    known: OrderedDict[tuple[Any, ...], Result] = OrderedDict()

    @wraps(build)
    def remembered(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        key = tuple(_identity(each) for each in (*args, *sorted(kwargs.items())))
        if key not in known:
            known[key] = build(*args, **kwargs)
        known.move_to_end(key)
        while len(known) > kept:
            known.popitem(last=False)
        return known[key]

    return remembered


def _identity(value: Any) -> Any:
    if isinstance(value, Graph):
        value = value.weights
    if not sp.issparse(value):
        return value
    digest = hashlib.blake2b(repr(value.shape).encode())
    for part in (value.indptr, value.indices, value.data):
        digest.update(np.ascontiguousarray(part).data)
    return digest.hexdigest()
