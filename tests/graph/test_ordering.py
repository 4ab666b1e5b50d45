from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from condiff.errors import InvalidInputError
from condiff.graph import Graph, SparseLaplacian
from condiff.graph.ordering import locality_order, permuted


def ring(n: int, seed: int = 0) -> tuple[SparseLaplacian, np.ndarray]:
    """A ring whose nodes were shuffled, with different weights: its order has been lost."""
    rng = np.random.default_rng(seed)
    names = rng.permutation(n)
    ends = names, np.roll(names, 1)
    weights = sp.coo_array((rng.random(n) + 0.5, ends), shape=(n, n))
    return Graph.of(sp.csr_array(weights + weights.T)).laplacian(torch.float64), names


def spread(operator: SparseLaplacian) -> float:
    return float((operator.row_indices - operator.col_indices).abs().double().mean())


def test_an_order_of_locality_brings_neighbours_together() -> None:
    operator, _ = ring(500)
    order = locality_order(operator)
    assert sorted(order.tolist()) == list(range(500))
    assert spread(operator) > 100
    assert spread(permuted(operator, order)) <= 2.0


def test_a_permuted_operator_acts_as_the_given_one() -> None:
    operator, names = ring(60)
    order = torch.from_numpy(names)
    moved = permuted(operator, order)
    u = torch.randn(60, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    torch.testing.assert_close(moved(u[order]), operator(u)[order])
    assert moved.symmetric
    assert moved.col_indices.dtype == moved.crow_indices.dtype == torch.int32
    assert bool((moved.row_indices.diff() >= 0).all())
    same_row = moved.row_indices.diff() == 0
    assert bool((moved.col_indices.diff()[same_row] > 0).all())


def test_bad_orders_and_graphs_are_named() -> None:
    operator, _ = ring(5)
    for order in (torch.tensor([0, 1, 2, 3, 3]), torch.tensor([0, 1])):
        with pytest.raises(InvalidInputError, match="an order of 5 nodes must name each of them once"):
            permuted(operator, order)
    directed = Graph.of(np.triu(np.ones((4, 4)), 1)).laplacian()
    with pytest.raises(InvalidInputError, match="symmetric"):
        locality_order(directed)
