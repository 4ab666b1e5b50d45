"""The reference methods against their equations, each written out in dense matrices."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from condiff.reproduce.baselines.beyond.cde import CDE
from condiff.reproduce.baselines.beyond.fagcn import FAGCN
from condiff.reproduce.baselines.beyond.gcnii import GCNII
from condiff.reproduce.baselines.beyond.gprgnn import GPRGNN
from condiff.reproduce.baselines.beyond.grand_random import GRANDRandom
from condiff.reproduce.baselines.beyond.gread import GREAD
from condiff.reproduce.baselines.node.appnp import APPNP
from condiff.reproduce.baselines.node.problem import NodeProblem


def dense(problem: NodeProblem, *, loops: bool = True) -> tuple[Tensor, Tensor]:
    """Features, and the symmetrically normalised adjacency."""
    adjacency = problem.graph.weights.toarray() + loops * np.eye(12)
    walk = adjacency / np.sqrt(np.outer(adjacency.sum(1), adjacency.sum(1)))
    return problem.x_dense, torch.from_numpy(walk).float()


def test_gprgnn_starts_from_pagerank_and_may_turn_its_hops_negative(tiny_problem: NodeProblem) -> None:
    network = GPRGNN(hidden=5, steps=4, teleport=0.2).network(tiny_problem).eval()
    x, walk = dense(tiny_problem)
    start = network.second(torch.relu(network.first(x)))  # type: ignore[operator]
    scores = start
    for _ in range(4):
        scores = 0.8 * walk @ scores + 0.2 * start
    torch.testing.assert_close(network(), torch.log_softmax(scores, -1))
    with torch.no_grad():
        network.hops.copy_(torch.tensor([1.0, -1.0, 0, 0, 0]))  # type: ignore[operator]
    torch.testing.assert_close(network(), torch.log_softmax(start - walk @ start, -1))


def test_fagcn_layers(tiny_problem: NodeProblem) -> None:
    network = FAGCN(hidden=5, layers=2).network(tiny_problem).eval()
    x, walk = dense(tiny_problem, loops=False)
    start = state = torch.relu(network.first(x))  # type: ignore[operator]
    for gate in network.gates:  # type: ignore[union-attr]
        own, other = gate(state).T
        state = 0.3 * start + (walk * torch.tanh(own[:, None] + other)) @ state
    torch.testing.assert_close(network(), torch.log_softmax(network.last(state), -1))  # type: ignore[operator]


def test_gcnii_layers_and_what_is_decayed(tiny_problem: NodeProblem) -> None:
    network = GCNII(hidden=5, layers=3, alpha=0.2, lamda=0.7).network(tiny_problem).eval()
    x, walk = dense(tiny_problem)
    start = state = torch.relu(network.first(x))  # type: ignore[operator]
    for layer in range(3):
        beta = math.log(0.7 / (layer + 1) + 1)
        mixed = 0.8 * walk @ state + 0.2 * start
        state = torch.relu(mixed @ ((1 - beta) * torch.eye(5) + beta * network.weights[layer]))  # type: ignore[index]
    torch.testing.assert_close(network(), torch.log_softmax(network.last(state), -1))  # type: ignore[operator]
    assert list(network.decayed()) == [network.weights]
    outer = [*network.first.parameters(), *network.last.parameters()]  # type: ignore[operator,union-attr]
    expected = 0.5 * 5e-4 * sum(float(each.detach().square().sum()) for each in outer)
    assert network.penalty().item() == pytest.approx(expected, rel=1e-5)


def test_grand_without_dropping_is_a_perceptron_on_mean_features(tiny_problem: NodeProblem) -> None:
    network = GRANDRandom(hidden=5, steps=3).network(tiny_problem).eval()
    x, walk = dense(tiny_problem)
    mean = sum(torch.linalg.matrix_power(walk, k) @ x for k in range(4)) / 4
    scores = network.second(torch.relu(mean @ network.first + network.bias))  # type: ignore[operator]
    torch.testing.assert_close(network(), torch.log_softmax(scores, -1))
    assert network.penalty() == 0.0


def test_grand_asks_draws_to_agree(tiny_problem: NodeProblem) -> None:
    network = GRANDRandom(hidden=5, temperature=0.5).network(tiny_problem).train()
    at = network.at(tiny_problem.train)
    assert at.shape == (4, 2)
    u = network.drawn.detach().exp()  # type: ignore[operator,union-attr]
    sharp = u.mean(1) ** 2 / (u.mean(1) ** 2).sum(-1, keepdim=True)
    expected = float((u - sharp[:, None]).square().sum(-1).mean())
    assert network.penalty().item() == pytest.approx(expected, rel=1e-5) and expected > 0  # type: ignore[union-attr]


def test_grand_normalises_the_features_and_hidden_units_of_each_draw(tiny_problem: NodeProblem) -> None:
    nothing = {"dropout": 0.0, "node_dropout": 0.0, "input_dropout": 0.0}
    settings = GRANDRandom(hidden=5, steps=3, samples=1, normalise=True, **nothing)  # type: ignore[arg-type]
    network = settings.network(tiny_problem)
    x, walk = dense(tiny_problem)
    mean = torch.stack([torch.linalg.matrix_power(walk, k) @ x for k in range(4)]).mean(0)
    first, second = nn.BatchNorm1d(x.shape[1]), nn.BatchNorm1d(5)
    with torch.no_grad():
        for gain in (network.gain, first.weight):
            gain.copy_(torch.linspace(0.5, 2, len(gain)))  # type: ignore[arg-type,operator]
        for shift in (network.shift, first.bias):
            shift.copy_(torch.linspace(-1, 1, len(shift)))  # type: ignore[arg-type,operator]

    def expected() -> Tensor:
        active = torch.relu(first(mean) @ network.first + network.bias)  # type: ignore[operator]
        return torch.log_softmax(network.second(second(active)), -1)  # type: ignore[operator]

    for _ in range(3):
        torch.testing.assert_close(network.train()(), expected())
    for module in (network, first, second):
        module.eval()
    torch.testing.assert_close(network(), expected())


def test_recommended_settings_differ_by_graph() -> None:
    assert GCNII.recommended("citeseer").layers == 32 and GCNII.recommended("pubmed").training.weight_decay == 5e-4
    assert GRANDRandom.recommended("citeseer").steps == 2 and GRANDRandom.recommended("pubmed").temperature == 0.2
    assert APPNP().steps == GPRGNN().steps


@pytest.mark.parametrize("soft", [False, True])
def test_gread_blurs_and_sharpens(tiny_problem: NodeProblem, soft: bool) -> None:
    network = GREAD(hidden=5, heads=2, attention_width=4, soft=soft, time=1.5, step=0.05).network(tiny_problem).eval()
    x = tiny_problem.x_dense / tiny_problem.x_dense.amax(1, keepdim=True)
    start = network.first(x)  # type: ignore[operator]
    adjacency = torch.from_numpy(tiny_problem.graph.weights.toarray() + np.eye(12)).float()
    walk = adjacency / adjacency.sum(1, keepdim=True)
    if soft:
        with torch.no_grad():
            network.attention.query.weight.normal_()  # type: ignore[union-attr]
        network.begin(start)  # type: ignore[operator]
        walk = network.matrix.to_dense()  # type: ignore[operator,union-attr]
        torch.testing.assert_close(walk.sum(1), torch.ones(12))
        assert not walk[adjacency == 0].any()
    # Each column has an equation of its own, solved exactly.
    end = torch.empty_like(start)
    for column in range(5):
        rate, reaction = torch.sigmoid(network.rate[column]), network.reaction[column]  # type: ignore[index]
        field = rate * (walk - torch.eye(12)) + reaction * (walk - walk @ walk)
        end[:, column] = torch.linalg.matrix_exp(1.5 * field) @ start[:, column]
    hidden = torch.relu(end)
    hidden = torch.tanh(hidden + network.between(torch.tanh(hidden)))  # type: ignore[operator]
    expected = torch.log_softmax(network.last(hidden), -1)  # type: ignore[operator]
    torch.testing.assert_close(network(), expected, rtol=0, atol=1e-5)


def test_cde_diffuses_and_convects(tiny_problem: NodeProblem) -> None:
    settings = CDE(hidden=5, heads=2, attention_width=4, deep_encoder=False, time=2.0)
    network = settings.network(tiny_problem).eval()
    with torch.no_grad():
        for parameter in (network.share, network.source):
            parameter.fill_(0.4)  # type: ignore[operator]
    x = tiny_problem.x_dense / tiny_problem.x_dense.amax(1, keepdim=True)
    start = state = network.first(x)  # type: ignore[operator]
    edges = torch.from_numpy(tiny_problem.graph.weights.toarray() > 0)
    looped = edges | torch.eye(12, dtype=torch.bool)
    for _ in range(2):
        keys = network.keys(state).view(12, 2, 2)  # type: ignore[operator]
        attention = torch.zeros(12, 12)
        for head in range(2):
            asks, answers = keys[:, head] @ network.asking[head], keys[:, head] @ network.answering[head]  # type: ignore[index]
            scores = torch.nn.functional.leaky_relu(asks[:, None] + answers, 0.2)
            attention += torch.softmax(scores.masked_fill(~looped, -math.inf), 1) / 2
        push = network.velocity(state)  # type: ignore[operator]
        speed = torch.relu(push[None] - push[:, None]) * edges[:, :, None]
        mixed = 0.4 * network.convected(speed.sum(1) * state) + network.diffused(attention @ state)  # type: ignore[operator]
        target = torch.relu(network.mix(torch.cat((state, mixed), 1)))  # type: ignore[operator]
        state = state + 0.5 * (target - state) + 0.4 * start
    expected = torch.log_softmax(network.last(torch.relu(state)), -1)  # type: ignore[operator]
    torch.testing.assert_close(network(), expected, rtol=0, atol=1e-5)
