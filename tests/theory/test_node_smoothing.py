from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import norm

from condiff import COIN, Graph
from condiff.bases import Residual
from condiff.diffusion import Diffusion
from condiff.errors import InvalidInputError
from condiff.theory.node_smoothing import SmoothedNodes

N = 12


def ring(directed: bool = False) -> Graph:
    ahead = np.arange(N)
    forth = np.stack([ahead, (ahead + 1) % N])
    edges = forth if directed else np.hstack([forth, forth[::-1]])
    return Graph.of(torch.as_tensor(edges)).normalised("random_walk" if directed else "symmetric", self_loops="add")


def network(head: Any = "softmax", outputs: int = 3, dropout: float = 0.0) -> COIN:
    torch.manual_seed(0)
    return COIN(Residual(4, outputs), Diffusion(3, 0.2, dropout=dropout), head=head).double()


@pytest.fixture
def x() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(N, 4))


@pytest.mark.parametrize("directed", [False, True])
def test_a_vote_is_the_whole_network_with_one_row_replaced(x: np.ndarray, directed: bool) -> None:
    model, graph = network(), ring(directed)
    smoothed = SmoothedNodes(model, x, graph, 0.7, samples=40)
    nodes = np.array([5, 0, 5])
    points = smoothed._read(nodes)
    np.testing.assert_array_equal(points, x[nodes])
    for rows, owner in smoothed._noisy(points, 20, stream=1):
        votes = smoothed._vote(rows, owner)
        for row, point, vote in zip(rows, owner, votes, strict=True):
            changed = x.copy()
            changed[nodes[point]] = row
            with torch.no_grad():
                u = model(torch.as_tensor(changed), graph.laplacian(torch.float64))
            assert u[nodes[point]].argmax() == vote


def test_the_radius_of_a_network_that_is_linear_in_its_node(x: np.ndarray) -> None:
    """With two classes, a node flips where its own softmax passes a level, which is a hyperplane of its features."""
    model = COIN(torch.nn.Linear(4, 2), Diffusion(3, 0.2)).double()
    torch.manual_seed(1)
    torch.nn.init.normal_(model.convection.weight, std=1.5)
    graph = ring()
    smoothed = SmoothedNodes(model, x, graph, 0.5, samples=30_000, batch_size=2**16)
    found = smoothed.certify([0, 1, 2, 3, 4, 5])
    smoothed._read(np.arange(6))
    # P_ii s(x) + rest_0 = 1/2, solved for the logit difference.
    level = (0.5 - smoothed._others[:, 0]) / smoothed._own[:, 0]
    logit = torch.log(level / (1 - level)).numpy()
    weight = (model.convection.weight[0] - model.convection.weight[1]).detach().numpy()
    bias = float((model.convection.bias[0] - model.convection.bias[1]).detach())
    truth = np.abs(x[:6] @ weight + bias - logit) / np.linalg.norm(weight)
    decided = ~np.isnan(truth) & ~found.abstained
    assert decided.sum() >= 3
    assert (found.radius <= truth)[decided].all()
    near = decided & (truth < 1.0)  # beyond, so few votes differ that the bound is loose
    np.testing.assert_allclose(found.radius[near], truth[near], atol=0.05)
    # Where the neighbours decide alone, no vote differs.
    settled = np.isnan(truth)
    np.testing.assert_allclose(found.radius[settled], 0.5 * norm.ppf(0.001 ** (1 / 30_000)))


def test_all_nodes_by_default_and_an_answer_each(x: np.ndarray) -> None:
    smoothed = SmoothedNodes(network(), torch.as_tensor(x), ring(), 0.01, samples=50)
    with torch.no_grad():
        plain = network()(torch.as_tensor(x), ring().laplacian(torch.float64)).argmax(dim=1).numpy()
    answers = smoothed.predict()
    assert answers.shape == (N,)
    np.testing.assert_array_equal(answers[answers >= 0], plain[answers >= 0])
    assert (answers >= 0).mean() > 0.8
    assert smoothed.predict(3) == answers[3]


def test_a_sigmoid_tells_two_classes_apart(x: np.ndarray) -> None:
    model = network("sigmoid", 1)
    found = SmoothedNodes(model, x, ring(), 0.01, samples=50).certify()
    with torch.no_grad():
        u = model(torch.as_tensor(x), ring().laplacian(torch.float64))[:, 0].numpy()
    kept = ~found.abstained
    np.testing.assert_array_equal(found.labels[kept], (u > 0.5)[kept])


def test_dropout_does_not_vote_and_the_mode_stays(x: np.ndarray) -> None:
    model = network(dropout=0.5).train()
    votes = [SmoothedNodes(model, x, ring(), 0.5, samples=60).certify([1, 2]).votes.tolist() for _ in range(2)]
    assert model.training
    assert votes[0] == votes[1] == SmoothedNodes(network(), x, ring(), 0.5, samples=60).certify([1, 2]).votes.tolist()


@pytest.mark.parametrize("nodes", [[N], [-1], [0.5], [], [[0, 1]], "all"])
def test_nodes_that_are_not_there(x: np.ndarray, nodes: Any) -> None:
    with pytest.raises(InvalidInputError, match="nodes must be whole numbers from 0 to 11"):
        SmoothedNodes(network(), x, ring(), 0.5).certify(nodes)


def test_what_cannot_be_smoothed(x: np.ndarray) -> None:
    with pytest.raises(InvalidInputError, match="model must be a COIN"):
        SmoothedNodes(network("identity"), x, ring(), 0.5)
    with pytest.raises(InvalidInputError, match="model must be a COIN"):
        SmoothedNodes(torch.nn.Linear(4, 2), x, ring(), 0.5)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="one output alone"):
        SmoothedNodes(network("sigmoid", 2), x, ring(), 0.5)
    with pytest.raises(InvalidInputError, match="the graph has 12 nodes"):
        SmoothedNodes(network(), x[:5], ring(), 0.5)
