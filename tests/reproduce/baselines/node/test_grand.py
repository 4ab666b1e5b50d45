from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch.nn.functional import log_softmax

from condiff.errors import InvalidInputError
from condiff.graph import Graph
from condiff.reproduce.baselines.node.grand import GRAND
from condiff.reproduce.baselines.node.problem import NodeProblem

SMALL = GRAND(hidden=6, heads=2, attention_width=4, time=3.0, tolerance=1e-8)


def roused(problem: NodeProblem, settings: GRAND):
    """A network whose attention and source differ from their idle start."""
    torch.manual_seed(0)
    network = settings.network(problem).eval()
    with torch.no_grad():
        for layer in (network.attention.query, network.attention.key):
            layer.weight.normal_()
        network.source.fill_(0.3)
        network.diffusivity.fill_(0.4)
    return network


def dense_attention(problem: NodeProblem, network, state: torch.Tensor) -> torch.Tensor:
    """Head by head, over all pairs, with those that are no edge struck out."""
    settings, n = network.settings, problem.n_nodes
    edges = torch.from_numpy(problem.graph.weights.toarray() > 0) | torch.eye(n, dtype=torch.bool)
    width = settings.attention_width // settings.heads
    scores = []
    for head in range(settings.heads):
        part = slice(head * width, (head + 1) * width)
        query, key = network.attention.query(state)[:, part], network.attention.key(state)[:, part]
        if settings.attention == "scaled_dot":
            scores.append(query @ key.T / width**0.5)
        elif settings.attention == "cosine":
            scores.append((query / query.norm(dim=1, keepdim=True)) @ (key / key.norm(dim=1, keepdim=True)).T)
        else:
            scores.append(
                network.attention.height**2
                * torch.exp(-(torch.cdist(query, key) ** 2) / (2 * network.attention.length**2))
            )
    top = max(score[edges].max() for score in scores)
    total = torch.zeros(n, n)
    for score in scores:
        positive = edges * (score - top + torch.sqrt((score - top) ** 2 + 4)) / 2
        total += positive / positive.sum(1 if settings.normalise == "rows" else 0, keepdim=True)
    return total / settings.heads


@pytest.mark.parametrize("normalise", ["rows", "columns"])
@pytest.mark.parametrize("attention", ["scaled_dot", "cosine", "exponential"])
def test_it_is_the_solution_of_the_equation(tiny_problem: NodeProblem, attention: str, normalise: str) -> None:
    network = roused(tiny_problem, replace(SMALL, attention=attention, normalise=normalise))
    features = tiny_problem.x_dense / tiny_problem.x_dense.amax(1, keepdim=True)
    start = network.encoder(features)
    alpha, beta = torch.sigmoid(torch.tensor(0.4)), 0.3
    field = alpha * (dense_attention(tiny_problem, network, start) - torch.eye(12))
    # exp of ((L, I), (0, 0)) gives exp(L t) and its integral.
    block = torch.zeros(24, 24)
    block[:12, :12], block[:12, 12:] = field, torch.eye(12)
    flow = torch.linalg.matrix_exp(3.0 * block)
    end = flow[:12, :12] @ start + beta * flow[:12, 12:] @ start
    expected = log_softmax(network.decoder(torch.relu(end)), -1)
    torch.testing.assert_close(network(), expected, rtol=0, atol=1e-5)
    assert network.solver.evaluations > 10


def test_gradients_of_rate_and_source_are_those_of_differences(tiny_problem: NodeProblem) -> None:
    network = roused(tiny_problem, SMALL)
    network()[tiny_problem.train, 0].sum().backward()
    for parameter in (network.diffusivity, network.source):
        sides = []
        for step in (0.05, -0.1):
            with torch.no_grad():
                parameter += step
                sides.append(float(network()[tiny_problem.train, 0].sum()))
        with torch.no_grad():
            parameter += 0.05
        assert float(parameter.grad) == pytest.approx((sides[0] - sides[1]) / 0.1, rel=0.02)


def test_without_edges_it_is_a_perceptron(tiny_problem: NodeProblem) -> None:
    lonely = replace(tiny_problem, graph=Graph.of(sp.csr_array((12, 12))))
    network = roused(lonely, replace(SMALL, rescale=False))
    start = network.encoder(tiny_problem.x_dense)
    # A lone node keeps its state and only the source adds to it.
    expected = log_softmax(network.decoder(torch.relu(start * (1 + 0.3 * 3.0))), -1)
    torch.testing.assert_close(network(), expected, rtol=0, atol=1e-5)


def test_at_the_start_attention_is_even(tiny_problem: NodeProblem) -> None:
    network = SMALL.network(tiny_problem)
    with torch.no_grad():
        values = network.attention(network.encoder(tiny_problem.x_dense))
    degree = tiny_problem.graph.weights.toarray().sum(0) + 1
    expected = torch.from_numpy(1 / degree).float()[network.pattern.columns]
    torch.testing.assert_close(values, expected, rtol=0, atol=1e-3)


def test_every_parameter_learns_and_a_seed_repeats_the_bytes(tiny_problem: NodeProblem) -> None:
    for attention in ("scaled_dot", "cosine", "exponential"):
        network = roused(tiny_problem, replace(SMALL, attention=attention))
        network()[tiny_problem.train, 0].sum().backward()
        assert all(parameter.grad is not None and parameter.grad.abs().sum() > 0 for parameter in network.parameters())
    short = replace(SMALL, training=replace(SMALL.training, epochs=5))
    first, second, other = (short.solve(tiny_problem, seed).scores for seed in (1, 1, 2))
    assert torch.equal(first, second)
    assert not torch.equal(first, other)


def test_a_node_without_features_stays_finite(tiny_problem: NodeProblem) -> None:
    features = tiny_problem.features.toarray()
    features[5] = 0
    network = SMALL.network(replace(tiny_problem, features=sp.csr_array(features))).eval()
    assert network().isfinite().all()
    assert np.allclose(network.x.to_dense().amax(1), features.max(1) > 0)


def test_bad_settings_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="3 heads do not divide attention_width 16"):
        GRAND(heads=3, attention_width=16)
    with pytest.raises(InvalidInputError, match="attention must be"):
        GRAND(attention="pearson")  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="normalise must be"):
        GRAND(normalise="both")  # type: ignore[arg-type]
