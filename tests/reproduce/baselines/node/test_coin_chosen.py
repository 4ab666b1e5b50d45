import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from condiff.diffusion import Diffusion, certify
from condiff.errors import InvalidInputError
from condiff.graph import Graph
from condiff.reproduce.baselines.node import coin_chosen
from condiff.reproduce.baselines.node.coin import COIN
from condiff.reproduce.baselines.node.coin_chosen import DECAYS, SMOOTHED, TIMES, ChosenCOIN
from condiff.reproduce.baselines.node.problem import NodeProblem
from condiff.training import Training

QUICK = Training(learning_rate=0.3, epochs=30)


def test_other_graphs_get_settings_of_their_own(tiny_problem):
    assert isinstance(COIN.recommended("cora"), COIN)
    method = dataclasses.replace(COIN.recommended("rings"), training=QUICK)
    assert isinstance(method, ChosenCOIN)
    outcome = method.solve(tiny_problem, 0)
    chosen = outcome.chosen
    assert chosen["time"] in TIMES and chosen["smoothed"] in SMOOTHED and chosen["weight_decay"] in DECAYS
    assert torch.equal(outcome.scores, method.solve(tiny_problem, 0).scores)
    # What counts most, asked for by name, is the whole answer, and gives the same classes here.
    given = ChosenCOIN(**chosen, training=QUICK).solve(tiny_problem, 0)
    assert torch.equal(outcome.scores.argmax(1), given.scores.argmax(1))
    assert not torch.allclose(outcome.scores, given.scores)
    known = tiny_problem.labels >= 0
    assert (outcome.scores.argmax(1)[known] == tiny_problem.labels[known]).all()
    torch.testing.assert_close(outcome.scores.exp().sum(1), torch.ones(tiny_problem.n_nodes))


@pytest.mark.parametrize("diffusion", [9.0, Diffusion(4, 0.2)])
def test_without_room_for_rows_the_diffusion_is_made_anew(tiny_problem, monkeypatch, diffusion):
    inputs = coin_chosen._Inputs.of(tiny_problem, tiny_problem.features, 2)

    def answer_and_gradient():
        [flow] = coin_chosen._flows(tiny_problem, [diffusion])
        network = coin_chosen._Network(tiny_problem, inputs, flow)
        torch.manual_seed(0)
        torch.nn.init.normal_(network.weight)
        answer = network.at(tiny_problem.train)
        (answer * torch.randn(answer.shape)).sum().backward()
        return network.rows, answer.detach(), network.weight.grad

    rows, answer, gradient = answer_and_gradient()
    monkeypatch.setattr(coin_chosen, "LARGEST_ROWS", 0)
    none, again, same = answer_and_gradient()
    assert (rows is None, none is None) == (False, True)
    torch.testing.assert_close(again, answer, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(same, gradient, rtol=1e-4, atol=1e-5)


def test_an_implicit_step_is_the_resolvent(tiny_problem, monkeypatch):
    monkeypatch.setattr(coin_chosen, "_HOPS", 400)
    walk = tiny_problem.graph.normalised("random_walk", self_loops="add").weights
    u = np.random.default_rng(0).random((tiny_problem.n_nodes, 2))
    for time, found in zip((0.0, 9.0), coin_chosen._series(walk, u, (0.0, 9.0)), strict=True):
        identity = np.eye(tiny_problem.n_nodes)
        np.testing.assert_allclose(found, np.linalg.solve(identity + time * (identity - walk), u), rtol=1e-5)


@pytest.mark.parametrize(("times", "edges"), [(0, False), (2, False), (2, True)])
def test_averaging_after_the_map_is_averaging_the_features(tiny_problem, times, edges):
    columns = np.eye(tiny_problem.n_nodes) if edges else tiny_problem.features.toarray()
    inputs = coin_chosen._Inputs.of(tiny_problem, None if edges else tiny_problem.features, times)
    x = columns - columns.mean(0)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    walk = tiny_problem.graph.normalised("random_walk", self_loops="add").weights.toarray()
    x = np.linalg.matrix_power(walk, times) @ x
    known = (tiny_problem.labels >= 0).numpy()
    x /= np.sqrt((x[known] ** 2).sum(1).mean())
    found = inputs.mapped(torch.eye(columns.shape[1])).numpy()
    np.testing.assert_allclose(found, x, atol=1e-5)


def test_edges_are_read_where_features_know_nothing():
    chance, truth = np.random.default_rng(0), np.arange(240) % 3
    links = np.triu(chance.random((240, 240)) < np.where(truth[:, None] == truth, 0.1, 0.01), 1)
    noise = sp.csr_array(chance.random((240, 2)))
    labels = torch.from_numpy(np.where(np.arange(240) < 90, truth, -1))
    parts = torch.arange(30), torch.arange(30, 90)
    blind = NodeProblem("blocks", Graph.of((links | links.T).astype(float)), noise, labels, 3, *parts)
    outcome = dataclasses.replace(COIN.recommended("blocks"), training=QUICK).solve(blind, 0)
    assert outcome.chosen["edges"]
    assert (outcome.scores.argmax(1).numpy() == truth)[90:].mean() > 0.9
    assert not ChosenCOIN(edges=False, training=QUICK).solve(blind, 0).chosen["edges"]


def test_what_is_given_is_not_chosen(tiny_problem):
    limit = certify(tiny_problem.graph.normalised(self_loops="add")).positivity_limit

    def tried(**settings):
        return [(each.layers, float(each.strength)) for each in ChosenCOIN(**settings).diffusions(tiny_problem)]

    assert tried(layers=3) == [(3, pytest.approx(limit))]
    assert tried(strength=0.5) == [(8, 0.5), (4, 0.5), (16, 0.5)]
    assert tried(layers=4, time=2.0) == [(4, 0.5)]
    assert ChosenCOIN(time=3.0).diffusions(tiny_problem) == [3.0]
    chosen = ChosenCOIN(layers=4, strength=0.25, training=QUICK).solve(tiny_problem, 0).chosen
    assert (chosen["layers"], chosen["strength"], chosen["time"]) == (4, 0.25, 1.0)


@pytest.mark.parametrize(
    "settings",
    [
        {"smoothed": -1},
        {"layers": 0},
        {"strength": "much"},
        {"weight_decay": -1.0},
        {"time": -1.0},
        {"time": 1.0, "layers": 2, "strength": 0.5},
    ],
)
def test_settings_that_mean_nothing_are_refused(settings):
    with pytest.raises(InvalidInputError, match="must be"):
        ChosenCOIN(**settings)
