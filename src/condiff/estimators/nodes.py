"""From rows of data to nodes of a graph: equal rows are one node, rows of weight zero are none.

So a sample weight of two means the same as giving the row twice, and a prediction is a function of the row alone.
Nodes are in the order of their fingerprints, which does not depend on the order of the rows.
"""

from __future__ import annotations

import hashlib
import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from condiff.estimators.blocks import slices

#: One 128-bit digest a row, as a structured scalar that NumPy can sort.
_DIGEST = np.dtype([("high", ">u8"), ("low", ">u8")])


@dataclass(frozen=True)
class Nodes:
    """The nodes made of the rows of a data set.

    Attributes
    ----------
    points
        One row for each node, dense or CSR.
    fingerprints
        Their digests.
    of_row
        The node of every row of the data, -1 for a row that was left out.
    """

    points: Any
    fingerprints: NDArray[Any]
    of_row: NDArray[np.int64]

    @classmethod
    def merged(cls, rows: Any, keep: NDArray[np.bool_]) -> Nodes:
        """Join the equal ones among the rows to keep."""
        digests = fingerprints(rows)
        kept = np.flatnonzero(keep)
        distinct, first, inverse = np.unique(digests[kept], return_index=True, return_inverse=True)
        of_row = np.full(len(digests), -1, dtype=np.int64)
        of_row[kept] = inverse.ravel()
        return cls(rows[kept[first]], distinct, of_row)

    @classmethod
    def separate(cls, rows: Any) -> Nodes:
        """Every row is a node of its own, in its own place; for graphs that were given."""
        return cls(rows, fingerprints(rows), np.arange(rows.shape[0], dtype=np.int64))


def find_rows(rows: Any, known: NDArray[Any]) -> NDArray[np.int64]:
    """The index of every row's fingerprint among the known ones, or -1.

    Where a fingerprint is known several times it is the first, unless the rows are all the known ones in their order.
    """
    digests = fingerprints(rows)
    if np.array_equal(digests, known):
        return np.arange(len(known), dtype=np.int64)
    order = np.argsort(known, kind="stable")
    at = order[np.minimum(np.searchsorted(known, digests, sorter=order), len(known) - 1)]
    return np.where(known[at] == digests, at, -1).astype(np.int64)


def fingerprints(rows: Any) -> NDArray[Any]:
    """A digest of every row's values."""
    if sp.issparse(rows):
        matrix = sp.csr_array(rows, copy=True)
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        indices, data = matrix.indices.astype(np.int64), matrix.data.astype(np.float64)
        parts = (
            indices[start:stop].tobytes() + data[start:stop].tobytes()
            for start, stop in itertools.pairwise(matrix.indptr)
        )
    else:
        # Adding zero makes -0.0 and 0.0 the same bytes.
        parts = (
            row.tobytes()
            for here in slices(rows.shape[0])
            for row in np.ascontiguousarray(rows[here], dtype=np.float64) + 0.0
        )
    joined = b"".join(hashlib.blake2b(part, digest_size=16).digest() for part in parts)
    return np.frombuffer(joined, dtype=_DIGEST)
