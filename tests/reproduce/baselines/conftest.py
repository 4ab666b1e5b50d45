import numpy as np
import pytest
import scipy.sparse as sp
import torch

from condiff.graph import Graph
from condiff.reproduce.baselines.node.problem import NodeProblem


@pytest.fixture
def tiny_problem() -> NodeProblem:
    """Twelve nodes of two classes: two rings of six, each with its own words, joined by one edge."""
    generator = np.random.default_rng(0)
    n, classes = 12, np.repeat([0, 1], 6)
    edges = [(6 * ring + i, 6 * ring + (i + 1) % 6) for ring in range(2) for i in range(6)] + [(0, 6)]
    rows, columns = np.array(edges).T
    half = sp.coo_array((np.ones(len(edges)), (rows, columns)), shape=(n, n))
    words = (generator.random((n, 8)) < 0.25).astype(float)
    words[np.arange(n), classes] = 1.0
    labels = np.full(n, -1)
    train, validation = np.array([1, 2, 7, 8]), np.array([3, 4, 9, 10])
    for part in (train, validation):
        labels[part] = classes[part]
    return NodeProblem(
        "rings",
        Graph.of(sp.csr_array(half + half.T)),
        sp.csr_array(words / words.sum(1, keepdims=True)),
        torch.from_numpy(labels),
        2,
        torch.from_numpy(train),
        torch.from_numpy(validation),
    )
