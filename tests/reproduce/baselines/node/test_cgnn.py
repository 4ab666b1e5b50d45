from dataclasses import replace

import pytest
import scipy.sparse as sp
import torch
from torch.nn.functional import log_softmax

from condiff.errors import InvalidInputError
from condiff.graph import Graph
from condiff.reproduce.baselines.node.cgnn import CGNN
from condiff.reproduce.baselines.node.problem import NodeProblem

SMALL = CGNN(hidden=5)


def roused(problem: NodeProblem, settings: CGNN):
    """A network whose nodes have rates of their own."""
    torch.manual_seed(0)
    network = settings.network(problem).eval()
    with torch.no_grad():
        network.rates.normal_()
    return network


def solution(problem: NodeProblem, network) -> torch.Tensor:
    """The state at the end as exponentials of dense matrices; no gradient through the source."""
    settings, n = network.settings, problem.n_nodes
    edges = torch.from_numpy(problem.graph.weights.toarray()).float() + settings.self_weight * torch.eye(n)
    scale = edges.sum(1) ** -0.5
    field = torch.sigmoid(network.rates)[:, None] / 2 * (scale[:, None] * edges * scale - torch.eye(n))
    block = torch.cat((torch.cat((field, torch.eye(n)), 1), torch.zeros(n, 2 * n)))
    flow = torch.linalg.matrix_exp(settings.time * block)
    start = network.encoder(problem.x_dense)
    return flow[:n, :n] @ start + flow[:n, n:] @ start.detach()


@pytest.mark.parametrize("time", [1.0, 23.9])
def test_it_and_its_gradients_are_those_of_the_equation(tiny_problem: NodeProblem, time: float) -> None:
    network = roused(tiny_problem, replace(SMALL, time=time))
    ours = network()
    expected = log_softmax(network.decoder(torch.relu(solution(tiny_problem, network))), -1)
    torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-5)
    parameters = list(network.parameters())
    for own, other in zip(
        torch.autograd.grad(ours[tiny_problem.train, 0].sum(), parameters),
        torch.autograd.grad(expected[tiny_problem.train, 0].sum(), parameters),
        strict=True,
    ):
        torch.testing.assert_close(own, other, rtol=1e-4, atol=1e-5)
    assert network.solver.evaluations > 10


def test_at_time_zero_it_is_a_perceptron(tiny_problem: NodeProblem) -> None:
    network = roused(tiny_problem, replace(SMALL, time=0.0))
    expected = log_softmax(network.decoder(torch.relu(network.encoder(tiny_problem.x_dense))), -1)
    torch.testing.assert_close(network(), expected)


def test_without_edges_the_source_only_scales(tiny_problem: NodeProblem) -> None:
    lonely = replace(tiny_problem, graph=Graph.of(sp.csr_array((12, 12))))
    network = roused(lonely, replace(SMALL, time=2.0))
    expected = log_softmax(network.decoder(torch.relu(3 * network.encoder(tiny_problem.x_dense))), -1)
    torch.testing.assert_close(network(), expected, rtol=0, atol=1e-5)


def test_it_takes_weighted_edges(tiny_problem: NodeProblem) -> None:
    weighted = replace(tiny_problem, graph=Graph(tiny_problem.graph.weights * 3.5))
    network = roused(weighted, SMALL)
    expected = log_softmax(network.decoder(torch.relu(solution(weighted, network))), -1)
    torch.testing.assert_close(network(), expected, rtol=1e-5, atol=1e-5)


def test_every_parameter_learns_and_a_seed_repeats_the_bytes(tiny_problem: NodeProblem) -> None:
    network = roused(tiny_problem, SMALL)
    network()[tiny_problem.train, 0].sum().backward()
    assert all(parameter.grad is not None and parameter.grad.abs().sum() > 0 for parameter in network.parameters())
    short = replace(SMALL, training=replace(SMALL.training, epochs=5))
    first, second, other = (short.solve(tiny_problem, seed).scores for seed in (1, 1, 2))
    assert torch.equal(first, second)
    assert not torch.equal(first, other)


def test_each_data_set_has_its_settings() -> None:
    cora, citeseer, pubmed, other = map(CGNN.recommended, ("cora", "citeseer", "pubmed", "roads"))
    assert cora == other == CGNN()
    assert (citeseer.time, citeseer.training.optimiser) == (17.1, "rmsprop")
    assert (pubmed.time, pubmed.training.optimiser) == (22.0, "adam")


def test_a_loop_without_weight_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="self_weight must be positive, not 0"):
        CGNN(self_weight=0)
