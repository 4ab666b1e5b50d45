"""Decoupled graph convolution against its equation."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from condiff.errors import InvalidInputError
from condiff.reproduce.baselines.node.dgc import DGC
from condiff.reproduce.baselines.node.problem import NodeProblem


@pytest.mark.parametrize(("terminal_time", "steps"), [(1.0, 1), (2.0, 3), (5.27, 250)])
def test_scores_are_those_of_the_equation(tiny_problem: NodeProblem, terminal_time: float, steps: int) -> None:
    network = DGC(terminal_time=terminal_time, steps=steps).network(tiny_problem)
    weight, bias = (parameter.detach().double().numpy() for parameter in network.parameters())
    looped = tiny_problem.graph.weights.toarray() + np.eye(12)
    step = looped / np.sqrt(np.outer(looped.sum(1), looped.sum(1)))
    x = tiny_problem.features.toarray()
    for _ in range(steps):
        x = (1 - terminal_time / steps) * x + terminal_time / steps * step @ x
    outputs = np.exp(x @ weight.T + bias)
    expected = outputs / outputs.sum(1, keepdims=True)
    np.testing.assert_allclose(network().exp().detach(), expected, rtol=1e-5)
    part = tiny_problem.validation
    np.testing.assert_allclose(network.at(part).exp().detach(), expected[part.numpy()], rtol=1e-5)


def test_without_time_it_is_logistic_regression(tiny_problem: NodeProblem) -> None:
    network = DGC(terminal_time=0.0).network(tiny_problem)
    weight, bias = network.parameters()
    expected = torch.log_softmax(tiny_problem.x_dense @ weight.T + bias, -1)
    torch.testing.assert_close(network(), expected, rtol=1e-5, atol=1e-5)


def test_solves_the_same_with_the_same_seed(tiny_problem: NodeProblem) -> None:
    method = dataclasses.replace(DGC(), training=dataclasses.replace(DGC().training, epochs=60))
    one, again, other = (method.solve(tiny_problem, seed) for seed in (5, 5, 6))
    assert one.scores.numpy().tobytes() == again.scores.numpy().tobytes() != other.scores.numpy().tobytes()
    assert one.scores.argmax(-1).tolist() == [0] * 6 + [1] * 6


def test_gradients_reach_every_parameter(tiny_problem: NodeProblem) -> None:
    network = DGC().network(tiny_problem)
    network.at(tiny_problem.train)[:, 0].sum().backward()
    assert all(parameter.grad is not None and parameter.grad.abs().sum() > 0 for parameter in network.parameters())


def test_recommended() -> None:
    assert {DGC.recommended(name).steps for name in ("cora", "citeseer", "pubmed", "mine")} == {250, 300, 900}
    assert DGC.recommended("mine") == DGC() == DGC.recommended("cora")
    assert DGC.recommended("citeseer").training.learning_rate == 1.39


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"steps": 0}, "steps"), ({"terminal_time": -1.0}, "terminal_time"), ({"steps": 5}, "unstable")],
)
def test_bad_settings(settings: dict[str, float], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        DGC(**settings)  # type: ignore[arg-type]
