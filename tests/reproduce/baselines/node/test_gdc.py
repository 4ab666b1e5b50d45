"""Graph diffusion convolution against a dense recomputation."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from condiff.errors import InvalidInputError
from condiff.graph import Graph
from condiff.reproduce.baselines.node.gdc import GDC, diffusion_graph
from condiff.reproduce.baselines.node.problem import NodeProblem


def dense_edges(problem: NodeProblem, method: GDC) -> NDArray[np.float64]:
    n = problem.n_nodes
    looped = problem.graph.weights.toarray() + np.eye(n)
    step = looped / np.sqrt(np.outer(looped.sum(1), looped.sum(1)))
    if method.kernel == "pagerank":
        kernel = method.teleport * np.linalg.inv(np.eye(n) - (1 - method.teleport) * step)
    else:
        kernel = scipy.linalg.expm(-method.heat_time * (np.eye(n) - step))
    if method.neighbours is None:
        kernel[kernel < method.threshold] = 0
    else:
        for column in range(n):
            kernel[np.argsort(kernel[:, column])[: n - method.neighbours], column] = 0
    kernel /= np.maximum(kernel.sum(0), 1e-300)
    out = np.maximum(kernel.sum(1), 1e-300)
    return np.asarray((kernel / np.sqrt(np.outer(out, out))).T)


# The rings are symmetric, so their kernels have ties; weights without symmetry leave no choice among the largest.
@pytest.fixture
def uneven_problem(tiny_problem: NodeProblem) -> NodeProblem:
    upper = sp.triu(tiny_problem.graph.weights).tocsr()
    upper.data = np.linspace(0.5, 2.0, upper.nnz)
    return dataclasses.replace(tiny_problem, graph=Graph.of(sp.csr_array(upper + upper.T)))


METHODS = [
    GDC(neighbours=4),
    GDC(neighbours=3, teleport=0.3),
    GDC(neighbours=None, threshold=0.05, teleport=0.2),
    GDC(kernel="heat", heat_time=3.0, neighbours=None, threshold=0.04),
]


@pytest.mark.parametrize("method", METHODS)
def test_scores_are_those_of_the_equation(uneven_problem: NodeProblem, method: GDC) -> None:
    network = method.network(uneven_problem).eval()
    for bias in list(network.parameters())[1::2]:
        torch.nn.init.normal_(bias)
    first, first_bias, second, second_bias = (value.detach().double().numpy() for value in network.parameters())
    edges = dense_edges(uneven_problem, method)
    hidden = np.maximum(edges @ uneven_problem.features.toarray() @ first + first_bias, 0)
    outputs = np.exp(edges @ hidden @ second + second_bias)
    expected = outputs / outputs.sum(1, keepdims=True)
    np.testing.assert_allclose(network().exp().detach(), expected, rtol=1e-4)
    part = uneven_problem.validation
    np.testing.assert_allclose(network.at(part).exp().detach(), expected[part.numpy()], rtol=1e-4)


def test_a_certain_teleport_leaves_every_node_alone(tiny_problem: NodeProblem) -> None:
    edges = diffusion_graph(tiny_problem.graph, "pagerank", 1.0, 1, 0.0)
    np.testing.assert_allclose(edges.toarray(), np.eye(12), atol=1e-6)


def test_heat_of_no_time_leaves_every_node_alone(tiny_problem: NodeProblem) -> None:
    edges = diffusion_graph(tiny_problem.graph, "heat", 0.0, None, 0.5)
    np.testing.assert_allclose(edges.toarray(), np.eye(12), atol=1e-6)


def test_a_threshold_above_everything_leaves_no_edges(tiny_problem: NodeProblem) -> None:
    assert diffusion_graph(tiny_problem.graph, "pagerank", 0.05, None, 2.0).count_nonzero() == 0


def test_more_neighbours_than_nodes_are_all_nodes(tiny_problem: NodeProblem) -> None:
    assert diffusion_graph(tiny_problem.graph, "pagerank", 0.05, 128, 0.0).count_nonzero() == 144


def test_solves_the_same_with_the_same_seed(tiny_problem: NodeProblem) -> None:
    method = GDC(neighbours=4, training=dataclasses.replace(GDC().training, weight_decay=5e-4, epochs=60))
    one, again, other = (method.solve(tiny_problem, seed) for seed in (5, 5, 6))
    assert one.scores.numpy().tobytes() == again.scores.numpy().tobytes() != other.scores.numpy().tobytes()
    assert one.scores.argmax(-1).tolist() == [0] * 6 + [1] * 6


def test_gradients_reach_every_parameter_and_the_first_layer_decays(tiny_problem: NodeProblem) -> None:
    torch.manual_seed(0)
    network = GDC(neighbours=4).network(tiny_problem)
    network.at(tiny_problem.train)[:, 0].sum().backward()
    assert all(parameter.grad is not None and parameter.grad.abs().sum() > 0 for parameter in network.parameters())
    assert [tuple(parameter.shape) for parameter in network.decayed()] == [(8, 64), (64,)]


def test_recommended() -> None:
    assert GDC.recommended("mine") == GDC() == GDC.recommended("cora")
    assert GDC.recommended("citeseer").neighbours is None
    assert GDC.recommended("pubmed").neighbours == 64


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kernel": "cold"}, "kernel"),
        ({"teleport": 0.0}, "teleport"),
        ({"heat_time": -1.0}, "heat_time"),
        ({"neighbours": None}, "threshold"),
        ({"neighbours": 0}, "neighbours"),
        ({"hidden": 0}, "hidden"),
        ({"dropout": 1.0}, "dropout"),
    ],
)
def test_bad_settings(settings: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        GDC(**settings)  # type: ignore[arg-type]
