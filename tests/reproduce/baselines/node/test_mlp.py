"""The perceptron against its equation."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from condiff.errors import InvalidInputError
from condiff.graph import Graph
from condiff.reproduce.baselines.node.mlp import MLP
from condiff.reproduce.baselines.node.problem import NodeProblem


def test_scores_are_those_of_the_equation(tiny_problem: NodeProblem) -> None:
    network = MLP(hidden=5).network(tiny_problem)
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter)
    network.eval()
    first, first_bias, second, second_bias = (parameter.detach().double().numpy() for parameter in network.parameters())
    hidden = np.maximum(tiny_problem.features.toarray() @ first + first_bias, 0)
    outputs = np.exp(hidden @ second + second_bias)
    np.testing.assert_allclose(network().exp().detach(), outputs / outputs.sum(1, keepdims=True), rtol=1e-5)


def test_the_graph_does_not_matter(tiny_problem: NodeProblem) -> None:
    other = dataclasses.replace(tiny_problem, graph=Graph.of(np.ones((12, 12))))
    method = MLP(training=dataclasses.replace(MLP().training, epochs=5))
    assert torch.equal(method.solve(tiny_problem, 0).scores, method.solve(other, 0).scores)


def test_dropout_acts_in_training_only(tiny_problem: NodeProblem) -> None:
    network = MLP(hidden=5, dropout=0.5).network(tiny_problem)
    network.train()
    assert not torch.equal(network(), network())
    network.eval()
    assert torch.equal(network(), network())


def test_learns_the_rings(tiny_problem: NodeProblem) -> None:
    method = MLP(training=dataclasses.replace(MLP().training, epochs=100))
    predicted = method.solve(tiny_problem, 0).scores.argmax(-1)
    known = torch.cat([tiny_problem.train, tiny_problem.validation])
    assert torch.equal(predicted[known], tiny_problem.labels[known])


@pytest.mark.parametrize("bad", [{"hidden": 0}, {"dropout": 1.0}])
def test_bad_settings(bad: dict[str, float]) -> None:
    with pytest.raises(InvalidInputError):
        MLP(**bad)  # type: ignore[arg-type]
