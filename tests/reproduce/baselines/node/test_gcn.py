"""The graph convolutional network against its equation."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from condiff.errors import InvalidInputError
from condiff.graph import Graph
from condiff.reproduce.baselines.node.gcn import GCN
from condiff.reproduce.baselines.node.problem import NodeProblem


def softmax(scores: np.ndarray) -> np.ndarray:
    return np.exp(scores) / np.exp(scores).sum(1, keepdims=True)


def test_scores_are_those_of_the_equation(tiny_problem: NodeProblem) -> None:
    weights = tiny_problem.graph.weights.toarray() * np.linspace(1, 2, 12) * np.linspace(1, 2, 12)[:, None]
    problem = dataclasses.replace(tiny_problem, graph=Graph.of(weights))
    network = GCN(hidden=5).network(problem)
    network.eval()
    first, second = (parameter.detach().double().numpy() for parameter in network.parameters())
    looped = weights + np.eye(12)
    step = looped / np.sqrt(np.outer(looped.sum(1), looped.sum(1)))
    expected = step @ np.maximum(step @ problem.features.toarray() @ first, 0) @ second
    np.testing.assert_allclose(network().exp().detach(), softmax(expected), rtol=1e-5)


def test_without_edges_it_is_a_perceptron(tiny_problem: NodeProblem) -> None:
    problem = dataclasses.replace(tiny_problem, graph=Graph.of(sp.csr_array((12, 12))))
    network = GCN(hidden=5).network(problem)
    network.eval()
    first, second = network.parameters()
    expected = torch.log_softmax(torch.relu(problem.x_dense @ first) @ second, -1)
    torch.testing.assert_close(network(), expected)


def test_decays_the_first_layer_only(tiny_problem: NodeProblem) -> None:
    network = GCN().network(tiny_problem)
    assert [parameter.shape for parameter in network.decayed()] == [(8, 16)]


def test_learns_the_rings(tiny_problem: NodeProblem) -> None:
    method = GCN(training=dataclasses.replace(GCN().training, epochs=100))
    predicted = method.solve(tiny_problem, 0).scores.argmax(-1)
    assert predicted.tolist() == [0] * 6 + [1] * 6


@pytest.mark.parametrize("bad", [{"hidden": 0}, {"dropout": 1.0}])
def test_bad_settings(bad: dict[str, float]) -> None:
    with pytest.raises(InvalidInputError):
        GCN(**bad)  # type: ignore[arg-type]
