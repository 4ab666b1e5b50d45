"""Whether edges look like those dealt at random."""

from __future__ import annotations

import networkx as nx
import pytest
import scipy.sparse as sp

from condiff.graph import chance
from condiff.graph.chance import looks_random


@pytest.mark.parametrize("degree", [4, 10, 40])
def test_random_edges_look_random(degree: int) -> None:
    graph = nx.gnm_random_graph(1000, 500 * degree, seed=1)
    assert looks_random(sp.csr_array(nx.to_scipy_sparse_array(graph)))


@pytest.mark.parametrize(
    "graph",
    [
        nx.random_partition_graph([200] * 5, 0.04, 0.002, seed=1),
        nx.bipartite.random_graph(300, 300, 0.02, seed=1),
        nx.grid_2d_graph(30, 30),
        nx.path_graph(500),
        nx.empty_graph(10),
        nx.barbell_graph(30, 5),
    ],
    ids=["groups", "two sides", "grid", "path", "none", "barbell"],
)
def test_others_do_not(graph: nx.Graph) -> None:
    weights = sp.csr_array(nx.to_scipy_sparse_array(graph, dtype=float))
    assert not looks_random(weights)
    weights.setdiag(0.5)
    weights.data *= 0.3
    assert not looks_random(weights)


def test_hubs_of_too_many_paths_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chance, "_cycles", None)
    assert not looks_random(sp.csr_array(nx.to_scipy_sparse_array(nx.star_graph(5000))))
