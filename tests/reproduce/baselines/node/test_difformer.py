"""DIFFormer against a dense recomputation with the attention between every pair of nodes."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from condiff.errors import InvalidInputError
from condiff.reproduce.baselines.node.difformer import Difformer
from condiff.reproduce.baselines.node.problem import NodeProblem


def test_scores_are_those_of_the_equation(tiny_problem: NodeProblem) -> None:
    torch.manual_seed(0)
    network = Difformer(layers=3, hidden=5, alpha=0.3).network(tiny_problem).eval()
    values = {name: value.detach().double() for name, value in network.named_parameters()}
    looped = tiny_problem.graph.weights.toarray() + np.eye(12)
    edges = torch.from_numpy(looped / np.sqrt(np.outer(looped.sum(1), looped.sum(1))))

    def linear(x: torch.Tensor, name: str) -> torch.Tensor:
        return x @ values[f"{name}.weight"].T + values[f"{name}.bias"]

    def norm(x: torch.Tensor, name: str) -> torch.Tensor:
        centred = x - x.mean(1, keepdim=True)
        scaled = centred / (centred.square().mean(1, keepdim=True) + 1e-5).sqrt()
        return scaled * values[f"{name}.weight"] + values[f"{name}.bias"]

    x = torch.relu(norm(linear(torch.from_numpy(tiny_problem.features.toarray()), "first"), "norm"))
    for layer in range(3):
        query, key = (linear(x, f"layers.{layer}.{which}") for which in ("query", "key"))
        pairs = 1 + (query / query.square().sum().sqrt()) @ (key / key.square().sum().sqrt()).T
        attention = pairs / pairs.sum(1, keepdim=True)
        x = norm(0.3 * (attention @ x + edges @ x) + 0.7 * x, f"layers.{layer}.norm")
    expected = torch.log_softmax(linear(x, "last"), -1)
    torch.testing.assert_close(network().double(), expected, rtol=1e-4, atol=1e-4)


def test_without_update_it_is_a_perceptron(tiny_problem: NodeProblem) -> None:
    network = Difformer(layers=1, hidden=5, alpha=0.0).network(tiny_problem).eval()
    values = dict(network.named_parameters())
    x = tiny_problem.x_dense @ values["first.weight"].T + values["first.bias"]
    x = torch.relu(torch.nn.functional.layer_norm(x, (5,)))
    x = torch.nn.functional.layer_norm(x, (5,))
    expected = torch.log_softmax(x @ values["last.weight"].T + values["last.bias"], -1)
    torch.testing.assert_close(network(), expected)


def test_solves_the_same_with_the_same_seed(tiny_problem: NodeProblem) -> None:
    method = Difformer(layers=2, training=dataclasses.replace(Difformer().training, epochs=60))
    one, again, other = (method.solve(tiny_problem, seed) for seed in (5, 5, 6))
    assert one.scores.numpy().tobytes() == again.scores.numpy().tobytes() != other.scores.numpy().tobytes()
    assert one.scores.argmax(-1).tolist() == [0] * 6 + [1] * 6


def test_gradients_reach_every_parameter(tiny_problem: NodeProblem) -> None:
    torch.manual_seed(0)
    network = Difformer(layers=2).network(tiny_problem)
    network.at(tiny_problem.train)[:, 0].sum().backward()
    assert all(parameter.grad is not None and parameter.grad.abs().sum() > 0 for parameter in network.parameters())


def test_recommended() -> None:
    layers = {name: Difformer.recommended(name).layers for name in ("cora", "citeseer", "pubmed", "mine")}
    assert layers == {"cora": 8, "citeseer": 4, "pubmed": 8, "mine": 8}
    assert Difformer.recommended("citeseer").training.weight_decay == 0.1


@pytest.mark.parametrize("settings", [{"alpha": 1.5}, {"layers": 0}, {"hidden": 0}, {"dropout": 1.0}])
def test_bad_settings(settings: dict[str, float]) -> None:
    with pytest.raises(InvalidInputError, match=next(iter(settings))):
        Difformer(**settings)  # type: ignore[arg-type]
