"""COIN with the resolvent against its equation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from condiff.errors import InvalidInputError
from condiff.graph import Graph
from condiff.reproduce.baselines.beyond.resolvent import ResolventCOIN, of_length_one
from condiff.reproduce.baselines.node.problem import NodeProblem


def resolvent(problem: NodeProblem, teleport: float) -> np.ndarray:
    looped = problem.graph.weights.toarray() + np.eye(problem.n_nodes)
    walk = looped / np.sqrt(np.outer(looped.sum(1), looped.sum(1)))
    return teleport * np.linalg.inv(np.eye(problem.n_nodes) - (1 - teleport) * walk)


def test_many_steps_reach_the_resolvent(tiny_problem: NodeProblem) -> None:
    network = ResolventCOIN(steps=300).network(tiny_problem)
    network.eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_(generator=torch.Generator().manual_seed(0))
    weight, bias = (parameter.detach().double().numpy() for parameter in network.parameters())
    base = np.exp(of_length_one(tiny_problem.features) @ weight + bias)
    u = resolvent(tiny_problem, 0.1) @ (base / base.sum(1, keepdims=True))
    expected = u / u.sum(1, keepdims=True)
    np.testing.assert_allclose(network().exp(), expected, rtol=1e-4)
    # The rows that training uses are those of all nodes.
    np.testing.assert_allclose(network.at(tiny_problem.train).detach().exp(), expected[tiny_problem.train], rtol=1e-4)


def test_where_rows_would_be_too_many_the_whole_is_diffused(
    tiny_problem: NodeProblem, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for most in (10**6, 0):
        monkeypatch.setattr("condiff.reproduce.baselines.beyond.resolvent._MOST_ENTRIES", most)
        network = ResolventCOIN().network(tiny_problem)
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.normal_(generator=torch.Generator().manual_seed(0))
        at = network.at(tiny_problem.train)
        (at[:, 0] * torch.arange(4.0)).sum().backward()
        found.append((at.detach(), *(parameter.grad for parameter in network.parameters())))
    for by_rows, whole in zip(*found, strict=True):
        torch.testing.assert_close(by_rows, whole)


def test_nodes_are_left_out_in_training_only(tiny_problem: NodeProblem) -> None:
    network = ResolventCOIN(node_dropout=0.5).network(tiny_problem)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_(generator=torch.Generator().manual_seed(0))
    network.train()
    drawn = [network.at(tiny_problem.train) for _ in range(2)]
    assert not torch.equal(*drawn)
    assert all(torch.allclose(each.exp().sum(-1), torch.ones(4)) for each in drawn)
    network.eval()
    torch.testing.assert_close(network.at(tiny_problem.train), network.at(tiny_problem.train), rtol=0, atol=0)


def test_the_same_seed_gives_the_same_bytes_and_rings_are_told_apart(tiny_problem: NodeProblem) -> None:
    one, two = (ResolventCOIN().solve(tiny_problem, 3) for _ in range(2))
    assert torch.equal(one.scores, two.scores)
    assert one.scores.argmax(-1).tolist() == [0] * 6 + [1] * 6


def test_uneven_training_nodes_leave_the_output_as_it_is(tiny_problem: NodeProblem) -> None:
    uneven = replace(tiny_problem, train=tiny_problem.train[:3])
    plain, corrected = (ResolventCOIN(shares=shares).solve(uneven, 0).scores for shares in (False, True))
    assert torch.equal(plain, corrected)
    assert not torch.equal(*(ResolventCOIN(shares=shares).solve(tiny_problem, 0).scores for shares in (False, True)))


def test_a_row_without_features_stays_zero(tiny_problem: NodeProblem) -> None:
    features = tiny_problem.features.tolil()
    features[5] = 0.0
    scaled = of_length_one(features.tocsr()).toarray()
    np.testing.assert_allclose(np.linalg.norm(scaled, axis=1), [1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 1])


@pytest.mark.parametrize("settings", [{"teleport": 0.0}, {"steps": 0}, {"node_dropout": 1.0}])
def test_settings_out_of_range_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(InvalidInputError, match=next(iter(settings))):
        ResolventCOIN(**settings)  # type: ignore[arg-type]


def test_the_order_of_the_nodes_does_not_matter() -> None:
    """Sums in another order round otherwise, which early stopping must not make another answer of."""
    chance, n, n_classes = np.random.default_rng(0), 400, 5
    classes = np.arange(n) % n_classes
    near = (classes[:, None] == classes) & (chance.random((n, n)) < 0.04) | (chance.random((n, n)) < 0.002)
    edges = np.triu(near, 1)
    words = (chance.random((n, 60)) < 0.1) | (chance.random((n, 60)) < 0.3) & (
        np.arange(60) % n_classes == classes[:, None]
    )
    labelled = np.concatenate([np.flatnonzero(classes == each)[:16] for each in range(n_classes)])
    labels = np.full(n, -1)
    labels[labelled] = classes[labelled]

    def scores(order: np.ndarray) -> torch.Tensor:
        place = np.argsort(order)
        parts = [torch.from_numpy(np.sort(place[np.sort(labelled)[start::2]])) for start in range(2)]
        graph = Graph.of(sp.csr_array((edges | edges.T)[order][:, order].astype(float)))
        features = sp.csr_array(words[order].astype(float))
        problem = NodeProblem("drawn", graph, features, torch.from_numpy(labels[order]), n_classes, *parts)
        return ResolventCOIN().solve(problem, 0).scores[place]

    torch.testing.assert_close(scores(np.arange(n)), scores(chance.permutation(n)), rtol=0, atol=1e-3)
