"""A diffusion on a graph of the size of ogbn-products, and how near its traffic comes to what the memory can carry."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from condiff.diffusion import Diffusion
from condiff.diffusion.stability import max_diagonal
from condiff.graph import SparseLaplacian

#: Nodes, undirected edges and classes of ogbn-products.
NODES, EDGES, COLUMNS = 2_449_029, 61_859_140, 47
LAYERS = 20
# The share of nodes with more than d neighbours falls as d to the power of minus 1.5, up to the original's largest.
_TAIL, _LARGEST_DEGREE = 1.5, 17_481
# Numbers of a triad's arrays, past every cache.
_TRIAD = 50_000_000


def make_graph(nodes: int, edges: int, seed: int = 0) -> SparseLaplacian:
    """A random graph with heavy-tailed degrees, normalised symmetrically: no order of its nodes helps the cache.

    Every node gets ends of edges by a power law, and ends are joined at random; a pair that is joined twice is one edge
    of weight two, and a node joined to itself keeps its loop.
    """
    rng = np.random.default_rng(seed)
    degree = np.minimum((1.0 - rng.random(nodes)) ** (-1.0 / _TAIL), _LARGEST_DEGREE)
    ends = np.repeat(np.arange(nodes, dtype=np.int32), _rounded(degree * (2 * edges / degree.sum()), 2 * edges, rng))
    rng.shuffle(ends)
    one, other = ends[:edges], ends[edges:]
    pairs = (np.concatenate([one, other]), np.concatenate([other, one]))
    weights = sp.coo_array((np.ones(2 * edges, np.float32), pairs), shape=(nodes, nodes)).tocsr()
    weights.sum_duplicates()
    degrees = np.asarray(weights.sum(axis=1)).ravel()
    scale = np.divide(1.0, np.sqrt(degrees), out=np.zeros_like(degrees), where=degrees > 0)
    weights.data *= np.repeat(scale, np.diff(weights.indptr))
    weights.data *= scale[weights.indices]
    parts = (weights.indptr.astype(np.int32, copy=False), weights.indices.astype(np.int32, copy=False), weights.data)
    return SparseLaplacian(*(torch.from_numpy(part) for part in parts), symmetric=True)


def _rounded(shares: NDArray[np.float64], total: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Whole numbers near the shares that add up to the total."""
    whole = np.floor(shares).astype(np.int64)
    more = rng.choice(len(shares), total - int(whole.sum()), replace=False)
    whole[more] += 1
    return whole


def diffuse_products(nodes: int = NODES, edges: int = EDGES, seed: int = 0) -> dict[str, Any]:
    """Make the graph, diffuse 47 columns over it by 20 layers, and compare with a triad in the same run."""
    started = time.perf_counter()
    operator = make_graph(nodes, edges, seed)
    made = time.perf_counter()
    u = torch.softmax(torch.randn(nodes, COLUMNS, generator=torch.Generator().manual_seed(seed)), dim=1)
    diffusion = Diffusion(LAYERS, 1.0 / max_diagonal(operator))
    with torch.no_grad():
        before = time.perf_counter()
        diffused = diffusion.solver(operator, u, float(diffusion.strength), LAYERS)
        seconds = time.perf_counter() - before
    entries = operator.col_indices.numel()
    moved = LAYERS * bytes_a_layer(nodes, entries, COLUMNS)
    triad = triad_bytes_a_second()
    return {
        "nodes": nodes,
        "edges": edges,
        "entries": entries,
        "columns": COLUMNS,
        "layers": LAYERS,
        "seconds_graph": made - started,
        "seconds": seconds,
        "bytes_a_second": moved / seconds,
        "triad_bytes_a_second": triad,
        "share_of_triad": moved / seconds / triad,
        "mean_change": float((diffused.double().mean(0) - u.double().mean(0)).abs().max()),
    }


def bytes_a_layer(nodes: int, entries: int, columns: int) -> int:
    """The bytes that a layer reads and writes in single precision.

    For every entry its weight, its column and the row of ``u`` that it points to; for every node its own row, the new
    one, and two numbers. Rows that are still in the cache when they are needed again count as well.
    """
    return entries * (8 + 4 * columns) + nodes * (8 * columns + 8)


def triad_bytes_a_second() -> float:
    """The memory's bandwidth: ``a = b + 2 c`` on all threads, three arrays past every cache, the best of five."""
    first, second, out = torch.ones(_TRIAD), torch.ones(_TRIAD), torch.empty(_TRIAD)
    best = float("inf")
    for _ in range(5):
        started = time.perf_counter()
        torch.add(first, second, alpha=2, out=out)
        best = min(best, time.perf_counter() - started)
    return 3 * 4 * _TRIAD / best
