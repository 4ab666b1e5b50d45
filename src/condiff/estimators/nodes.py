"""From rows of data to nodes of a graph: equal rows are one node, rows of weight zero are none.

So a sample weight of two means the same as giving the row twice, and a prediction is a function of the row alone.
Nodes are in the order of their fingerprints, which does not depend on the order of the rows.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

#: One 128-bit digest a row, as a structured scalar that NumPy can sort.
_DIGEST = np.dtype([("high", ">u8"), ("low", ">u8")])


@dataclass(frozen=True)
class Nodes:
    """The distinct rows of a data set.

    Attributes
    ----------
    points
        One row for each node, dense or CSR.
    fingerprints
        Their digests, in increasing order.
    of_row
        The node of every row of the data, -1 for a row that was left out.
    """

    points: Any
    fingerprints: NDArray[Any]
    of_row: NDArray[np.int64]


def merge_rows(rows: Any, keep: NDArray[np.bool_]) -> Nodes:
    """Join the equal ones among the rows to keep into nodes."""
    digests = fingerprints(rows)
    kept = np.flatnonzero(keep)
    distinct, first, inverse = np.unique(digests[kept], return_index=True, return_inverse=True)
    of_row = np.full(len(digests), -1, dtype=np.int64)
    of_row[kept] = inverse.ravel()
    return Nodes(rows[kept[first]], distinct, of_row)


def one_node_a_row(rows: Any) -> Nodes:
    """Every row is a node of its own, in its own place; for graphs that were given."""
    n = rows.shape[0]
    return Nodes(rows, fingerprints(rows), np.arange(n, dtype=np.int64))


def find_rows(rows: Any, known: NDArray[Any], order: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
    """For every row the index of its fingerprint among ``known``, or -1; ``order`` sorts ``known`` if it is not."""
    digests = fingerprints(rows)
    at = np.searchsorted(known, digests, sorter=order)
    at = np.minimum(at, len(known) - 1)
    at = at if order is None else order[at]
    return np.where(known[at] == digests, at, -1).astype(np.int64)


def fingerprints(rows: Any) -> NDArray[Any]:
    """A digest of every row's values."""
    if sp.issparse(rows):
        matrix = sp.csr_array(rows, copy=True)
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        bounds = matrix.indptr
        indices, data = matrix.indices.astype(np.int64), matrix.data.astype(np.float64)
        parts = (
            indices[start:stop].tobytes() + data[start:stop].tobytes()
            for start, stop in zip(bounds[:-1], bounds[1:], strict=True)
        )
    else:
        dense = np.ascontiguousarray(rows, dtype=np.float64) + 0.0  # makes -0.0 and 0.0 the same bytes
        parts = (row.tobytes() for row in dense)
    joined = b"".join(hashlib.blake2b(part, digest_size=16).digest() for part in parts)
    return np.frombuffer(joined, dtype=_DIGEST)
