"""GraphSAGE against its equation."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from condiff.errors import InvalidInputError
from condiff.graph import Graph
from condiff.reproduce.baselines.node.problem import NodeProblem
from condiff.reproduce.baselines.node.sage import GraphSAGE


def by_hand(network: torch.nn.Module, features: np.ndarray, mean: np.ndarray, normalise: bool) -> np.ndarray:
    hidden = features
    parameters = [parameter.detach().double().numpy() for parameter in network.parameters()]
    for layer in range(2):
        weight, bias = parameters[2 * layer : 2 * layer + 2]
        half = weight.shape[1] // 2
        stacked = np.concatenate([weight[:, :half], weight[:, half:]])
        hidden = np.concatenate([hidden, mean @ hidden], axis=1) @ stacked + bias
        if normalise:
            hidden = hidden / np.linalg.norm(hidden, axis=1, keepdims=True)
        if layer == 0:
            hidden = np.maximum(hidden, 0)
    return np.exp(hidden) / np.exp(hidden).sum(1, keepdims=True)


@pytest.mark.parametrize("normalise", [False, True])
def test_scores_are_those_of_the_concatenation(tiny_problem: NodeProblem, normalise: bool) -> None:
    network = GraphSAGE(hidden=5, normalise=normalise).network(tiny_problem)
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter)
    network.eval()
    weights = tiny_problem.graph.weights.toarray()
    mean = weights / weights.sum(1, keepdims=True)
    expected = by_hand(network, tiny_problem.features.toarray(), mean, normalise)
    np.testing.assert_allclose(network().exp().detach(), expected, rtol=1e-4)


def test_without_edges_it_is_a_perceptron(tiny_problem: NodeProblem) -> None:
    problem = dataclasses.replace(tiny_problem, graph=Graph.of(sp.csr_array((12, 12))))
    network = GraphSAGE(hidden=5).network(problem)
    network.eval()
    first, _, second, _ = network.parameters()
    expected = torch.log_softmax(torch.relu(problem.x_dense @ first[:, :5]) @ second[:, :2], -1)
    torch.testing.assert_close(network(), expected)


def test_loops_of_the_graph_do_not_count(tiny_problem: NodeProblem) -> None:
    looped = dataclasses.replace(tiny_problem, graph=Graph.of(tiny_problem.graph.weights + 3 * sp.eye_array(12)))
    networks = []
    for problem in (tiny_problem, looped):
        torch.manual_seed(0)
        networks.append(GraphSAGE().network(problem).eval())
    torch.testing.assert_close(networks[0](), networks[1]())


def test_learns_the_rings(tiny_problem: NodeProblem) -> None:
    method = GraphSAGE(training=dataclasses.replace(GraphSAGE().training, epochs=100))
    predicted = method.solve(tiny_problem, 0).scores.argmax(-1)
    assert predicted.tolist() == [0] * 6 + [1] * 6


@pytest.mark.parametrize("bad", [{"hidden": 0}, {"dropout": 1.0}])
def test_bad_settings(bad: dict[str, float]) -> None:
    with pytest.raises(InvalidInputError):
        GraphSAGE(**bad)  # type: ignore[arg-type]
