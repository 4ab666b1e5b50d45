from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch.nn.functional import log_softmax, softplus

from condiff.errors import InvalidInputError
from condiff.graph import Graph
from condiff.reproduce.baselines.node.gcde import GCDE, _dropped
from condiff.reproduce.baselines.node.problem import NodeProblem

SMALL = GCDE(hidden=5)


def layers(network):
    return [(layer.weight.T, layer.bias) for layer in (network.first, network.inner, network.outer, network.last)]


def propagation(problem: NodeProblem) -> torch.Tensor:
    edges = torch.from_numpy(problem.graph.weights.toarray()) + torch.eye(problem.n_nodes)
    scale = edges.sum(1) ** -0.5
    return (scale[:, None] * edges * scale).float()


@pytest.mark.parametrize("solver", ["rk4", "dopri5"])
def test_it_integrates_the_equation(tiny_problem: NodeProblem, solver: str) -> None:
    torch.manual_seed(0)
    settings = replace(SMALL, solver=solver, relative_tolerance=1e-6, absolute_tolerance=1e-7, time=0.3)
    network = settings.network(tiny_problem).eval()
    matrix = propagation(tiny_problem)
    (w1, b1), (w2, b2), (w3, b3), (w4, b4) = layers(network)
    state = torch.relu(matrix @ tiny_problem.x_dense @ w1 + b1)
    # Euler with tiny steps needs nothing of Runge and Kutta.
    steps = 3000
    for _ in range(steps):
        state = state + settings.time / steps * (matrix @ softplus(matrix @ state @ w2 + b2) @ w3 + b3)
    expected = log_softmax(matrix @ state @ w4 + b4, -1)
    torch.testing.assert_close(network(), expected, rtol=0, atol=5e-4)
    assert network.solver.evaluations == 4 if solver == "rk4" else network.solver.evaluations > 4


def test_at_time_zero_it_is_two_convolutions(tiny_problem: NodeProblem) -> None:
    network = replace(SMALL, time=0.0).network(tiny_problem).eval()
    matrix = propagation(tiny_problem)
    (w1, b1), _, _, (w4, b4) = layers(network)
    hidden = torch.relu(matrix @ tiny_problem.x_dense @ w1 + b1)
    torch.testing.assert_close(network(), log_softmax(matrix @ hidden @ w4 + b4, -1))


def test_without_edges_nodes_do_not_see_each_other(tiny_problem: NodeProblem) -> None:
    lonely = replace(tiny_problem, graph=Graph.of(sp.csr_array((12, 12))))
    torch.manual_seed(0)
    everywhere = SMALL.network(lonely).eval()()
    changed = lonely.features.toarray()
    changed[3] = np.roll(changed[3], 1)
    torch.manual_seed(0)
    moved = SMALL.network(replace(lonely, features=sp.csr_array(changed))).eval()()
    same = (everywhere == moved).all(-1)
    assert same.sum() == 11 and not same[3]


def test_dropout_drops_that_share_and_keeps_the_mean() -> None:
    torch.manual_seed(0)
    state = torch.ones(501, 401, requires_grad=True)
    dropped = _dropped(state, 0.9)
    assert dropped.unique().tolist() == [0.0, pytest.approx(10, rel=1e-3)]
    assert float(dropped.detach().mean()) == pytest.approx(1, abs=0.03)
    # Neighbours in memory come from one word; they must still be independent.
    kept = (dropped.detach().flatten()[:200_000] > 0).float().reshape(-1, 4)
    assert torch.corrcoef(kept.T).fill_diagonal_(0).abs().max() < 0.03
    dropped.sum().backward()
    assert torch.equal(state.grad, dropped.detach())


def test_every_parameter_learns_and_a_seed_repeats_the_bytes(tiny_problem: NodeProblem) -> None:
    network = replace(SMALL, dropout=0.0).network(tiny_problem)
    network()[tiny_problem.train].sum().backward()
    assert all(parameter.grad is not None and parameter.grad.abs().sum() > 0 for parameter in network.parameters())
    short = replace(SMALL, training=replace(SMALL.training, epochs=5))
    first, second, other = (short.solve(tiny_problem, seed).scores for seed in (1, 1, 2))
    assert torch.equal(first, second)
    assert not torch.equal(first, other)


def test_bad_settings_are_refused(tiny_problem: NodeProblem) -> None:
    with pytest.raises(InvalidInputError, match="dropout must be from 0"):
        GCDE(dropout=1)
    with pytest.raises(InvalidInputError, match="solver"):
        GCDE(solver="heun").network(tiny_problem)  # type: ignore[arg-type]
