"""The four additions to COIN-resolvent: each does what it says, and without them nothing is added."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from condiff.errors import InvalidInputError
from condiff.reproduce.baselines.beyond.additions import AdditionsCOIN, feature_graph, self_labelled
from condiff.reproduce.baselines.beyond.resolvent import ResolventCOIN
from condiff.reproduce.baselines.node.problem import NodeProblem

RINGS = [0] * 6 + [1] * 6


def test_without_additions_it_is_the_resolvent_to_the_digit(tiny_problem: NodeProblem) -> None:
    for dropout in (0.0, 0.5):
        plain = ResolventCOIN(node_dropout=dropout).solve(tiny_problem, 3)
        assert torch.equal(AdditionsCOIN(node_dropout=dropout).solve(tiny_problem, 3).scores, plain.scores)


@pytest.mark.parametrize(
    "settings",
    [
        {"consistency": 1.0, "node_dropout": 0.5},
        {"rounds": 1, "certain": 0.6},
        {"neighbours": 2},
        {"reuse": True},
    ],
)
def test_each_addition_changes_the_answer_and_still_tells_the_rings_apart(
    tiny_problem: NodeProblem, settings: dict[str, float]
) -> None:
    found = AdditionsCOIN(**settings).solve(tiny_problem, 0)  # type: ignore[arg-type]
    without = AdditionsCOIN(node_dropout=settings.get("node_dropout", 0.0)).solve(tiny_problem, 0)
    right = found.scores.argmax(-1).numpy() == np.array(RINGS)
    assert right.sum() >= 10
    assert not torch.equal(found.scores, without.scores)


def test_draws_are_asked_to_agree(tiny_problem: NodeProblem) -> None:
    torch.manual_seed(0)
    network = AdditionsCOIN(consistency=2.0, node_dropout=0.5).network(tiny_problem)
    with torch.no_grad():
        network.weight.normal_()
    assert sorted(network.asked.tolist()) == [0, 5, 6, 11]  # type: ignore[union-attr]  # the unlabelled nodes
    assert float(network.train().penalty().detach()) > 0  # type: ignore[union-attr]
    assert AdditionsCOIN().network(tiny_problem).train().penalty() == 0.0
    # Where nothing is dropped all draws are one: what is left is how far it is from certain.
    network.settings = ResolventCOIN()
    u = network.eval()().exp()[network.asked]
    sharp = u**2 / (u**2).sum(-1, keepdim=True)
    torch.testing.assert_close(network.train().penalty(), 2 * (u - sharp).square().sum(-1).mean())


def test_told_labels_start_the_diffusion_and_are_no_loss(tiny_problem: NodeProblem) -> None:
    network = AdditionsCOIN(reuse=True).network(tiny_problem).eval()
    u = torch.full((12, 2), 0.5)
    u[tiny_problem.train] = torch.eye(2)[tiny_problem.labels[tiny_problem.train]]
    weights = tiny_problem.graph.weights.toarray() + np.eye(12)
    walk = torch.from_numpy(weights / np.sqrt(np.outer(weights.sum(1), weights.sum(1)))).float()
    state = u
    for _ in range(20):
        state = 0.9 * walk @ state + 0.1 * u
    expected = torch.log(state / state.sum(-1, keepdim=True))
    torch.testing.assert_close(network(), expected)
    torch.testing.assert_close(network.at(tiny_problem.validation), expected[tiny_problem.validation])
    torch.manual_seed(0)
    at = network.train().at(tiny_problem.train)
    told = (at == 0).all(1)
    assert 0 < int(told.sum()) < 4


def test_certain_answers_become_labels_equally_often(tiny_problem: NodeProblem) -> None:
    u = torch.full((12, 2), 0.01)
    u[:6, 0], u[6:, 1] = 0.99, 0.99
    u[5] = 0.5  # not certain at any temperature
    labelled = self_labelled(u.log(), tiny_problem, 0.6)  # few validation nodes: calibration is cautious
    assert sorted(labelled.train.tolist()) == sorted([*tiny_problem.train.tolist(), 0, 6])
    assert (int(labelled.labels[0]), int(labelled.labels[6]), int(labelled.labels[5])) == (0, 1, -1)
    assert labelled.validation.tolist() == tiny_problem.validation.tolist()
    assert len(self_labelled(torch.full((12, 2), 0.5).log(), tiny_problem, 0.6).train) == 4


def test_similar_features_are_joined(tiny_problem: NodeProblem) -> None:
    joined = feature_graph(tiny_problem, 3).weights.toarray()
    x = tiny_problem.features.toarray()
    cosines = x @ x.T / np.outer(np.linalg.norm(x, axis=1), np.linalg.norm(x, axis=1))
    np.fill_diagonal(cosines, -1)
    assert (joined == joined.T).all() and not joined.diagonal().any()
    for node in range(12):
        own = np.sort(cosines[node])[-3]
        assert all(joined[node, other] for other in np.flatnonzero(cosines[node] > own + 1e-12))
    assert (joined.sum(1) >= 3).all()


@pytest.mark.parametrize(
    ("settings", "said"),
    [({"consistency": 1.0}, "node_dropout"), ({"rounds": -1}, "negative"), ({"certain": 1.0}, "certain")],
)
def test_what_cannot_be_added_is_refused(settings: dict[str, float], said: str) -> None:
    with pytest.raises(InvalidInputError, match=said):
        AdditionsCOIN(**settings)  # type: ignore[arg-type]
