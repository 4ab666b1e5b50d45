from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from condiff.diffusion import SOLVERS, Diffusion
from condiff.estimators.induction import follow
from condiff.graph import Graph

solvers = pytest.mark.parametrize("solver", sorted(SOLVERS))


def setting(n: int = 12):
    rng = np.random.default_rng(0)
    weights = np.triu(rng.random((n, n)) * (rng.random((n, n)) < 0.5), 1)
    graph = Graph.of(weights + weights.T).normalised("symmetric", self_loops="add")
    return graph.laplacian(torch.float64), rng.dirichlet(np.ones(3), n), rng


@solvers
def test_a_point_without_neighbours_keeps_its_own_answer(solver: str) -> None:
    operator, at_nodes, rng = setting()
    at_new = rng.dirichlet(np.ones(3), 2)
    found = follow(Diffusion(5, 0.3, solver=solver), operator, at_nodes, at_new, sp.csr_array((2, 12)))
    np.testing.assert_array_equal(found, at_new)


@solvers
def test_without_layers_the_base_answers(solver: str) -> None:
    operator, at_nodes, rng = setting()
    at_new = rng.dirichlet(np.ones(3), 2)
    found = follow(Diffusion(0, 0.3, solver=solver), operator, at_nodes, at_new, sp.csr_array(np.ones((2, 12))))
    np.testing.assert_array_equal(found, at_new)


@solvers
def test_answers_stay_probabilities(solver: str) -> None:
    operator, at_nodes, rng = setting()
    weights = sp.csr_array(rng.random((4, 12)) * 5)
    found = follow(Diffusion(8, 0.2, solver=solver), operator, at_nodes, rng.dirichlet(np.ones(3), 4), weights)
    np.testing.assert_allclose(found.sum(axis=1), 1, atol=1e-6)
    assert (found >= -1e-9).all()


def test_explicit_layers_are_those_that_a_node_would_take() -> None:
    """A node whose edges the others do not feel, in one matrix with them."""
    operator, at_nodes, rng = setting()
    at_new, weights = rng.dirichlet(np.ones(3), 1), rng.random((1, 12)) / 12
    L = operator(torch.eye(12, dtype=torch.float64)).numpy()
    joint = np.block([[L, np.zeros((12, 1))], [-weights, weights.sum(axis=1, keepdims=True)]])
    expected = np.linalg.matrix_power(np.eye(13) - 0.2 * joint, 6) @ np.vstack([at_nodes, at_new])
    found = follow(Diffusion(6, 0.2), operator, at_nodes, at_new, sp.csr_array(weights))
    np.testing.assert_allclose(found, expected[12:], atol=1e-12)


@pytest.mark.parametrize("solver", ["exact", "chebyshev"])
def test_the_other_solvers_come_close_to_the_joint_heat_flow(solver: str) -> None:
    operator, at_nodes, rng = setting()
    at_new, weights = rng.dirichlet(np.ones(3), 1), rng.random((1, 12)) / 12
    L = operator(torch.eye(12, dtype=torch.float64)).numpy()
    joint = np.block([[L, np.zeros((12, 1))], [-weights, weights.sum(axis=1, keepdims=True)]])
    expected = torch.linalg.matrix_exp(torch.as_tensor(-2.0 * joint)).numpy() @ np.vstack([at_nodes, at_new])
    found = follow(Diffusion(10, 0.2, solver=solver), operator, at_nodes, at_new, sp.csr_array(weights))
    np.testing.assert_allclose(found, expected[12:], atol=2e-3)


def test_a_point_on_top_of_settled_neighbours_takes_their_value() -> None:
    operator, _, rng = setting()
    settled = np.tile([0.2, 0.3, 0.5], (12, 1))
    weights = sp.csr_array(np.full((2, 12), 1.0))
    found = follow(Diffusion(60, 0.3), operator, settled, rng.dirichlet(np.ones(3), 2), weights)
    np.testing.assert_allclose(found, settled[:2], atol=1e-6)


def test_the_base_outputs_are_left_as_they_were() -> None:
    operator, at_nodes, rng = setting()
    at_new = rng.dirichlet(np.ones(3), 2)
    nodes_before, new_before = at_nodes.copy(), at_new.copy()
    follow(Diffusion(3, 0.2), operator, at_nodes, at_new, sp.csr_array(np.ones((2, 12))))
    np.testing.assert_array_equal(at_nodes, nodes_before)
    np.testing.assert_array_equal(at_new, new_before)
