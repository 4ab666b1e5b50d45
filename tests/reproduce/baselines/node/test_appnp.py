"""APPNP against its equation and its limit of many steps."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from condiff.errors import InvalidInputError
from condiff.reproduce.baselines.node.appnp import APPNP
from condiff.reproduce.baselines.node.problem import NodeProblem


def parts(network: torch.nn.Module, problem: NodeProblem) -> tuple[np.ndarray, np.ndarray]:
    """The perceptron's outputs and the propagation matrix."""
    first, second = (parameter.detach().double().numpy() for parameter in network.parameters())
    looped = problem.graph.weights.toarray() + np.eye(12)
    step = looped / np.sqrt(np.outer(looped.sum(1), looped.sum(1)))
    return np.maximum(problem.features.toarray() @ first, 0) @ second, step


def softmax(scores: np.ndarray) -> np.ndarray:
    return np.exp(scores) / np.exp(scores).sum(1, keepdims=True)


def test_scores_are_those_of_the_equation(tiny_problem: NodeProblem) -> None:
    network = APPNP(hidden=5, steps=3, teleport=0.2).network(tiny_problem)
    network.eval()
    start, step = parts(network, tiny_problem)
    scores = start
    for _ in range(3):
        scores = 0.8 * step @ scores + 0.2 * start
    np.testing.assert_allclose(network().exp().detach(), softmax(scores), rtol=1e-5)


def test_many_steps_reach_personalised_pagerank(tiny_problem: NodeProblem) -> None:
    network = APPNP(hidden=5, steps=200, teleport=0.1).network(tiny_problem)
    network.eval()
    start, step = parts(network, tiny_problem)
    scores = 0.1 * np.linalg.solve(np.eye(12) - 0.9 * step, start)
    np.testing.assert_allclose(network().exp().detach(), softmax(scores), rtol=1e-5)


def test_teleport_one_leaves_the_perceptron(tiny_problem: NodeProblem) -> None:
    network = APPNP(teleport=1.0).network(tiny_problem)
    network.eval()
    np.testing.assert_allclose(network().exp().detach(), softmax(parts(network, tiny_problem)[0]), rtol=1e-5)


def test_edges_are_dropped_in_training_only(tiny_problem: NodeProblem) -> None:
    network = APPNP(dropout=0.0, edge_dropout=0.5).network(tiny_problem)
    network.train()
    assert not torch.equal(network(), network())
    network.eval()
    assert torch.equal(network(), network())
    still = APPNP(dropout=0.0, edge_dropout=0.0).network(tiny_problem)
    still.train()
    assert torch.equal(still(), still())


def test_decays_the_first_layer_only(tiny_problem: NodeProblem) -> None:
    method = APPNP()
    assert [parameter.shape for parameter in method.network(tiny_problem).decayed()] == [(8, 64)]
    assert method.training.weight_decay == 5e-3


def test_learns_the_rings(tiny_problem: NodeProblem) -> None:
    method = APPNP(training=dataclasses.replace(APPNP().training, epochs=100, weight_decay=0.0))
    predicted = method.solve(tiny_problem, 0).scores.argmax(-1)
    assert predicted.tolist() == [0] * 6 + [1] * 6


@pytest.mark.parametrize("bad", [{"hidden": 0}, {"steps": 0}, {"teleport": 0.0}, {"edge_dropout": 1.0}])
def test_bad_settings(bad: dict[str, float]) -> None:
    with pytest.raises(InvalidInputError):
        APPNP(**bad)  # type: ignore[arg-type]
