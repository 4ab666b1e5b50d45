"""COIN on hidden features that are spread with signs."""

from __future__ import annotations

import pytest
import torch

from condiff.errors import InvalidInputError
from condiff.reproduce.baselines.beyond.reaction import ReactionCOIN
from condiff.reproduce.baselines.node.problem import NodeProblem


def made(problem: NodeProblem) -> torch.nn.Module:
    torch.manual_seed(0)
    return ReactionCOIN(hidden=8).network(problem).eval()


def test_against_its_formula_on_dense_matrices(tiny_problem: NodeProblem) -> None:
    network = made(tiny_problem)
    with torch.no_grad():
        x = tiny_problem.x_dense / tiny_problem.x_dense.max(1, keepdim=True).values
        walk, start = tiny_problem.propagation.to_dense(), x @ network.first + network.first_bias
        shares = network.spread.weights / network.spread.weights.abs().sum(0)
        hidden = torch.relu(shares[0] * start + shares[1] * (walk @ start) + shares[2] * (walk @ walk @ start))
        hidden = hidden + torch.relu(network.block(hidden))
        torch.testing.assert_close(network(), torch.log_softmax(network.last(hidden), -1))


def test_without_hops_it_sees_no_neighbour(tiny_problem: NodeProblem) -> None:
    network = made(tiny_problem)
    with torch.no_grad():
        network.spread.weights[1:] = 0
        alone = network()
        network.walk = network.walk.with_values(torch.zeros_like(network.walk.values))
        torch.testing.assert_close(network(), alone)
    with pytest.raises(InvalidInputError, match="hops must be a whole number"):
        ReactionCOIN(hops=0)
