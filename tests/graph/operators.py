"""The same Laplacian in each of its forms, for the tests of operators and of what reads them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from tests.diffusion.problems import dense_laplacian, random_weights
from torch import Tensor

from condiff.graph import DenseLaplacian, Graph, Laplacian, SparseLaplacian

N = 9
WEIGHTS = {"undirected": random_weights(N, 0), "directed": random_weights(N, 1, directed=True)}
KINDS = ["dense", "sparse", "edges"]


def edge_list(weights: np.ndarray) -> tuple[Tensor, Tensor]:
    target, source = np.nonzero(weights)
    return torch.tensor(np.stack([source, target])), torch.tensor(weights[target, source])


def build(kind: str, weights: np.ndarray, dtype: torch.dtype = torch.float64) -> Laplacian:
    if kind == "dense":
        return DenseLaplacian(torch.tensor(weights, dtype=dtype))
    if kind == "edges":
        edges, values = edge_list(weights)
        return SparseLaplacian.from_edges(
            edges, values.to(dtype), n_nodes=len(weights), normalisation="none", self_loops=False
        )
    return Graph.of(weights).laplacian(dtype)


def laplacian_of(weights: Any) -> Tensor:
    return torch.tensor(dense_laplacian(np.array(weights, dtype=np.float64)))
