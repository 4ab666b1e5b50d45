"""Simple graph convolution against its equation."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from condiff.errors import InvalidInputError
from condiff.graph import Graph
from condiff.reproduce.baselines.node.problem import NodeProblem
from condiff.reproduce.baselines.node.sgc import SGC


@pytest.mark.parametrize("steps", [1, 2, 5])
def test_scores_are_those_of_the_equation(tiny_problem: NodeProblem, steps: int) -> None:
    network = SGC(steps=steps).network(tiny_problem)
    weight, bias = (parameter.detach().double().numpy() for parameter in network.parameters())
    looped = tiny_problem.graph.weights.toarray() + np.eye(12)
    step = looped / np.sqrt(np.outer(looped.sum(1), looped.sum(1)))
    outputs = np.exp(np.linalg.matrix_power(step, steps) @ tiny_problem.features.toarray() @ weight + bias)
    expected = outputs / outputs.sum(1, keepdims=True)
    np.testing.assert_allclose(network().exp().detach(), expected, rtol=1e-5)
    np.testing.assert_allclose(
        network.at(tiny_problem.train).exp().detach(), expected[tiny_problem.train.numpy()], rtol=1e-5
    )


def test_without_edges_it_is_logistic_regression(tiny_problem: NodeProblem) -> None:
    problem = dataclasses.replace(tiny_problem, graph=Graph.of(sp.csr_array((12, 12))))
    network = SGC(steps=3).network(problem)
    weight, bias = network.parameters()
    torch.testing.assert_close(network(), torch.log_softmax(problem.x_dense @ weight + bias, -1))


def test_recommended_decay_differs_between_data_sets() -> None:
    decays = {name: SGC.recommended(name).training.weight_decay for name in ("cora", "citeseer", "pubmed", "mine")}
    assert decays["cora"] < decays["citeseer"] < decays["pubmed"]
    assert decays["mine"] == SGC().training.weight_decay == 5e-6
    assert SGC.recommended("cora").training.learning_rate == 0.2


def test_learns_the_rings(tiny_problem: NodeProblem) -> None:
    method = SGC(training=dataclasses.replace(SGC().training, epochs=100))
    predicted = method.solve(tiny_problem, 0).scores.argmax(-1)
    assert predicted.tolist() == [0] * 6 + [1] * 6


def test_bad_settings() -> None:
    with pytest.raises(InvalidInputError, match="steps"):
        SGC(steps=0)
