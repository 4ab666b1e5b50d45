"""A small network, and a graph for it in every form that it takes, shared by the tests of the model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from condiff.graph import DenseLaplacian, Graph
from condiff.model import COIN

N, FEATURES, CLASSES = 12, 5, 3


def edges_of(n: int = N) -> Tensor:
    """A ring with a few chords, both directions of every edge."""
    pairs = [(i, (i + 1) % n) for i in range(n)] + [(0, n // 2), (1, n // 2), (2, n - 3)]
    return torch.tensor(pairs + [(j, i) for i, j in pairs]).T.contiguous()


def edge_weights(edges: Tensor, dtype: torch.dtype = torch.float64) -> Tensor:
    """Positive, and the same in both directions."""
    half = torch.rand(edges.shape[1] // 2, generator=torch.Generator().manual_seed(7), dtype=dtype) + 0.5
    return torch.cat([half, half])


def normalised_graph(n: int = N) -> Graph:
    edges = edges_of(n)
    return Graph.of(edges, edge_weights(edges), n_nodes=n).normalised(self_loops="add")


def matrix_of(graph: Graph, dtype: torch.dtype = torch.float64) -> Tensor:
    weights = torch.as_tensor(graph.weights.toarray(), dtype=dtype)
    return torch.diag(weights.sum(1)) - weights


def features(n: int = N, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(n, FEATURES, generator=torch.Generator().manual_seed(1), dtype=torch.float64).to(dtype)


def network(dtype: torch.dtype = torch.float64, **changes: Any) -> COIN:
    torch.manual_seed(0)
    arguments = {"layers": 6, "strength": "auto"} | changes
    return COIN.build(FEATURES, CLASSES, **arguments).to(dtype)


GRAPHS: dict[str, Callable[[Graph], Any]] = {
    "sparse operator": lambda g: g.laplacian(torch.float64),
    "single precision operator": lambda g: Graph.of(g.weights.astype("float32")).laplacian(torch.float32),
    "dense operator": lambda g: DenseLaplacian(torch.as_tensor(g.weights.toarray())),
    "graph": lambda g: g,
    "matrix": matrix_of,
    "coo matrix": lambda g: matrix_of(g).to_sparse_coo(),
    "csr matrix": lambda g: matrix_of(g).to_sparse_csr(),
}
