"""Whether edges say anything at all: those dealt at random have no more short cycles than their degrees explain."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

# Random graphs of the same degrees that a graph is compared with, and the fewest cycles that they must have.
_DRAWS, _FEWEST = 10, 20
# Standard deviations and share by which counts must differ: random graphs of many edges are not quite alike.
_CLEARLY, _APART = 4.0, 0.1
# Paths of two edges that are counted at most: those through a hub are as many as the square of its edges.
_MOST_PATHS = 20_000_000


def looks_random(weights: Any) -> bool:
    """Whether triangles and cycles of four are as many as in random graphs with the same degrees.

    Groups of any kind, places and two sides have more of them, or fewer. Where chance has hardly any, as in paths and
    trees, and where there are too many to count, nothing is known, and the answer is no.

    Parameters
    ----------
    weights
        Symmetric, sparse; only which are positive counts.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> looks_random(sp.block_diag([1 - sp.eye_array(6).toarray()] * 20))
    False
    """
    edges = sp.csr_array(weights > 0, dtype=np.float64)
    edges.setdiag(0)
    edges.eliminate_zeros()
    degrees = np.diff(edges.indptr).astype(np.int64)
    if int((degrees**2).sum()) > _MOST_PATHS:
        return False
    stubs = np.repeat(np.arange(edges.shape[0]), degrees)
    generator = np.random.default_rng(0)
    dealt = [_dealt(generator.permutation(stubs), edges.shape[0]) for _ in range(_DRAWS)]
    # Second edges were dropped there: counts go by the third and fourth power of the number of edges.
    drawn = np.array([_cycles(each) * (edges.nnz / max(each.nnz, 1)) ** np.array([3, 4]) for each in dealt])
    by_chance, spread = drawn.mean(axis=0), drawn.std(axis=0, ddof=1)
    if by_chance[1] < _FEWEST:
        return False
    # Counts of rare cycles vary at least as those of independent ones.
    apart = np.abs(_cycles(edges) - by_chance)
    return bool((apart <= np.maximum(_APART * by_chance, _CLEARLY * np.maximum(spread, np.sqrt(by_chance)))).all())


def _dealt(stubs: NDArray[np.int64], n_nodes: int) -> sp.csr_array:
    """Ends of edges joined in pairs; loops and second edges are dropped."""
    one, other = stubs[: len(stubs) // 2], stubs[len(stubs) - len(stubs) // 2 :]
    edges = sp.csr_array((np.ones(len(one)), (one, other)), shape=(n_nodes, n_nodes))
    edges = sp.csr_array((edges + edges.T) > 0, dtype=np.float64)
    edges.setdiag(0)
    edges.eliminate_zeros()
    return edges


def _cycles(edges: sp.csr_array) -> NDArray[np.float64]:
    """The numbers of triangles and of cycles of four nodes."""
    paths = sp.csr_array(edges @ edges)
    triangles = float(paths.multiply(edges).sum()) / 6
    paths.setdiag(0)
    return np.array([triangles, float((paths.data * (paths.data - 1)).sum()) / 8])
