"""GraphHeat against a dense recomputation."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import scipy.linalg
import torch

from condiff.errors import InvalidInputError
from condiff.reproduce.baselines.node.graphheat import GraphHeat, heat_kernel
from condiff.reproduce.baselines.node.problem import NodeProblem


@pytest.mark.parametrize(("heat_time", "threshold"), [(3.5, 0.03), (3.5, 1e-5)])
def test_scores_are_those_of_the_equation(tiny_problem: NodeProblem, heat_time: float, threshold: float) -> None:
    network = GraphHeat(heat_time=heat_time, threshold=threshold).network(tiny_problem).eval()
    first, second = (value.detach().double().numpy() for value in network.parameters())
    adjacency = tiny_problem.graph.weights.toarray()
    laplacian = np.eye(12) - adjacency / np.sqrt(np.outer(adjacency.sum(1), adjacency.sum(1)))
    kernel = scipy.linalg.expm(-heat_time * laplacian)
    assert (kernel < threshold).any() == (threshold == 0.03), "one case drops entries, the other none"
    kernel[kernel < threshold] = 0
    np.fill_diagonal(kernel, 0)
    x = tiny_problem.features.toarray()
    hidden = np.maximum(kernel @ x @ first[:, :16] + x @ first[:, 16:], 0)
    outputs = np.exp(kernel @ hidden @ second[:, :2] + hidden @ second[:, 2:])
    expected = outputs / outputs.sum(1, keepdims=True)
    np.testing.assert_allclose(network().exp().detach(), expected, rtol=1e-4)
    part = tiny_problem.validation
    np.testing.assert_allclose(network.at(part).exp().detach(), expected[part.numpy()], rtol=1e-4)


def test_heat_of_no_time_is_a_perceptron(tiny_problem: NodeProblem) -> None:
    network = GraphHeat(heat_time=0.0).network(tiny_problem).eval()
    first, second = network.parameters()
    expected = torch.log_softmax(torch.relu(tiny_problem.x_dense @ first[:, 16:]) @ second[:, 2:], -1)
    torch.testing.assert_close(network(), expected)


def test_the_kernel_is_symmetric(tiny_problem: NodeProblem) -> None:
    kernel, matrix = heat_kernel(tiny_problem.graph, 3.5, 0.03)
    assert (kernel != kernel.T).nnz == 0
    np.testing.assert_array_equal(matrix.to_dense(), kernel.toarray())


def test_solves_the_same_with_the_same_seed(tiny_problem: NodeProblem) -> None:
    method = GraphHeat(training=dataclasses.replace(GraphHeat().training, epochs=100))
    one, again, other = (method.solve(tiny_problem, seed) for seed in (5, 5, 6))
    assert one.scores.numpy().tobytes() == again.scores.numpy().tobytes() != other.scores.numpy().tobytes()
    assert one.scores.argmax(-1).tolist() == [0] * 6 + [1] * 6


def test_gradients_reach_every_parameter_and_the_first_layer_decays(tiny_problem: NodeProblem) -> None:
    torch.manual_seed(0)
    network = GraphHeat().network(tiny_problem)
    network.at(tiny_problem.train)[:, 0].sum().backward()
    for parameter in network.parameters():
        assert parameter.grad is not None
        assert all(half.abs().sum() > 0 for half in parameter.grad.chunk(2, dim=1))
    assert [tuple(parameter.shape) for parameter in network.decayed()] == [(8, 32)]


def test_recommended() -> None:
    times = {name: GraphHeat.recommended(name).heat_time for name in ("cora", "citeseer", "pubmed", "mine")}
    assert times == {"cora": 3.5, "citeseer": 4.5, "pubmed": 3.0, "mine": 3.5}


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"heat_time": -1.0}, "heat_time"), ({"threshold": 0.0}, "threshold"), ({"dropout": 1.0}, "dropout")],
)
def test_bad_settings(settings: dict[str, float], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        GraphHeat(**settings)  # type: ignore[arg-type]
