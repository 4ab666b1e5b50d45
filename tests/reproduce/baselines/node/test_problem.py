from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.sparse as sp
import torch

from condiff.reproduce.baselines.node.problem import NodeProblem


def test_sizes_and_views_of_the_features(tiny_problem: NodeProblem) -> None:
    assert (tiny_problem.n_nodes, tiny_problem.n_features) == (12, 8)
    expected = torch.from_numpy(tiny_problem.features.toarray()).float()
    assert torch.equal(tiny_problem.x_dense, expected)
    assert torch.equal(tiny_problem.x.to_dense(), expected)
    assert torch.equal(tiny_problem.x_csr.to_dense(), expected)
    assert tiny_problem.x.values.dtype == torch.float32
    assert tiny_problem.x is tiny_problem.x


def test_propagation_is_the_normalised_adjacency_with_self_loops(tiny_problem: NodeProblem) -> None:
    with_loops = tiny_problem.graph.weights.toarray() + np.eye(12)
    root = np.sqrt(with_loops.sum(1))
    expected = torch.from_numpy(with_loops / np.outer(root, root)).float()
    torch.testing.assert_close(tiny_problem.propagation.to_dense(), expected)
    assert float(torch.linalg.eigvalsh(tiny_problem.propagation.to_dense()).max()) < 1 + 1e-6


def test_a_changed_problem_does_not_keep_the_old_views(tiny_problem: NodeProblem) -> None:
    assert tiny_problem.x.shape == (12, 8)
    narrow = replace(tiny_problem, features=sp.csr_array(np.ones((12, 1))))
    assert narrow.x.shape == (12, 1)
    assert narrow.propagation is not tiny_problem.propagation
