"""What holds for every method of the registry, whatever it does."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from condiff.errors import InvalidInputError
from condiff.graph import Graph
from condiff.reproduce.baselines.node import METHODS, method
from condiff.reproduce.baselines.node.coin import COIN
from condiff.reproduce.baselines.node.coin_chosen import ChosenCOIN
from condiff.reproduce.baselines.node.method import NodeMethod
from condiff.reproduce.baselines.node.problem import NodeProblem

DATASETS = ["cora", "citeseer", "pubmed", "/home/me/graph.npz"]


def short(made: NodeMethod, epochs: int = 3) -> NodeMethod:
    """The method with few epochs, if it has any."""
    training = getattr(made, "training", None)
    return made if training is None else replace(made, training=replace(training, epochs=epochs))  # type: ignore[call-arg]


@pytest.fixture
def user_problem(tiny_problem: NodeProblem) -> NodeProblem:
    """Weighted edges, a node without features, one without edges and a pair that no label reaches."""
    upper = sp.triu(tiny_problem.graph.weights).tocoo()
    rows, columns = (part.tolist() for part in upper.coords)
    rows, columns = [*rows, 13], [*columns, 14]
    weights = np.random.default_rng(1).uniform(0.1, 3.0, len(rows))
    half = sp.coo_array((weights, (rows, columns)), shape=(15, 15))
    features = np.vstack([tiny_problem.features.toarray(), np.full((3, tiny_problem.n_features), 0.125)])
    features[5] = 0.0
    labels = torch.cat([tiny_problem.labels, torch.full((3,), -1)])
    graph = Graph.of(sp.csr_array(half + half.T))
    return replace(tiny_problem, graph=graph, features=sp.csr_array(features), labels=labels)


@pytest.mark.parametrize("name", METHODS)
def test_a_method_is_a_frozen_dataclass_of_plain_settings(name: str) -> None:
    kind = method(name)
    assert issubclass(kind, NodeMethod)
    for dataset in DATASETS:
        made = kind.recommended(dataset)
        # On graphs of one's own COIN is the one whose settings validation nodes choose.
        assert type(made) is (ChosenCOIN if issubclass(kind, COIN) and dataset == DATASETS[-1] else kind)
        settings = made.settings()
        assert json.loads(json.dumps(settings)) == json.loads(json.dumps(dataclasses.asdict(made)))
        assert made == kind.recommended(dataset)
        hash(made)
    assert kind.recommended(DATASETS[-1]) == (ChosenCOIN if issubclass(kind, COIN) else kind)()
    for field in dataclasses.fields(kind)[:1]:
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(kind(), field.name, None)


@pytest.mark.parametrize("name", METHODS)
def test_a_seed_gives_the_same_finite_scores_again(name: str, user_problem: NodeProblem) -> None:
    made = short(method(name)())
    first, second = made.solve(user_problem, 5), made.solve(user_problem, 5)
    assert first.scores.shape == (15, 2)
    assert first.scores.dtype == torch.float32
    assert not first.scores.requires_grad
    assert torch.isfinite(first.scores).all()
    assert torch.equal(first.scores, second.scores)
    assert first.epochs == second.epochs <= 3
    assert first.seconds > 0


@pytest.mark.parametrize("name", METHODS)
def test_more_than_two_classes_and_features_fewer_than_nodes(name: str, tiny_problem: NodeProblem) -> None:
    labels = torch.where(torch.arange(12) % 6 >= 3, 2, torch.arange(12) // 6)
    train, validation = torch.tensor([1, 2, 4, 7, 8]), torch.tensor([3, 9])
    hidden = torch.full((12,), -1)
    for part in (train, validation):
        hidden[part] = labels[part]
    problem = replace(tiny_problem, labels=hidden, n_classes=3, train=train, validation=validation)
    assert short(method(name)()).solve(problem, 0).scores.shape == (12, 3)


@pytest.mark.parametrize("name", METHODS)
def test_a_few_epochs_are_better_than_chance(name: str, tiny_problem: NodeProblem) -> None:
    right = short(method(name)(), 60).solve(tiny_problem, 0).scores.argmax(1) == torch.arange(12) // 6
    assert right[torch.cat([tiny_problem.train, tiny_problem.validation])].double().mean() >= 0.75


def test_names_are_read_in_any_case_and_unknown_ones_suggest_a_near_one() -> None:
    assert method("gcn") is method("GCN")
    assert method("labelpropagation") is method("LabelPropagation")
    with pytest.raises(InvalidInputError, match=r"unknown method 'GraphSage2' \(did you mean 'GraphSAGE'\?\)"):
        method("GraphSage2")


def test_a_method_is_loaded_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(METHODS, "Broken", ("no_such_module", "Broken"))
    assert method("GCN").__name__ == "GCN"
    with pytest.raises(ModuleNotFoundError):
        method("Broken")
