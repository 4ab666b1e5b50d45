"""Distances between patients and who is joined."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist

from condiff.errors import InvalidInputError
from condiff.graph.weights import distance_graph
from condiff.reproduce.baselines.tabular import patient_graph as module
from condiff.reproduce.baselines.tabular.patient_graph import GraphKind, patient_graph
from condiff.reproduce.baselines.tabular.problem import TabularProblem
from condiff.reproduce.baselines.tabular.resnet import ResNet
from condiff.training import PROSTATE

SHORT = replace(PROSTATE, epochs=20)


def first_layer(problem: TabularProblem, seed: int) -> np.ndarray:
    """The first layer's outputs of a ResNet that was fitted by plain autograd."""
    torch.manual_seed(seed)
    from condiff.bases.genewise import GeneWise

    base = GeneWise(problem.n_genes, problem.kinds)
    x = torch.from_numpy(problem.features.toarray()).float()
    optimiser = torch.optim.SGD(base.parameters(), lr=1.0, weight_decay=5e-4)
    for _ in range(SHORT.epochs):
        optimiser.zero_grad()
        truth = problem.labels[problem.train].float()
        torch.nn.functional.binary_cross_entropy(torch.sigmoid(base(x[problem.train]))[:, 0], truth).backward()
        optimiser.step()
    return base.first_layer(x).detach().double().numpy()


def expected(problem: TabularProblem, kind: GraphKind) -> np.ndarray:
    dense = problem.features.toarray()
    if kind == "features":
        return cdist(dense, dense)
    if kind == "jaccard":
        return cdist(dense > 0, dense > 0, "jaccard")
    seeds = [4] if kind == "pretrained" else [4, 5, 6]
    outputs = np.concatenate([first_layer(problem, seed) for seed in seeds], axis=1) / np.sqrt(len(seeds))
    distances = cdist(outputs, outputs)
    np.fill_diagonal(distances, 0)
    return distances


@pytest.mark.parametrize("kind", get_args(GraphKind))
def test_distances_are_what_they_are_called(kind: GraphKind, tiny_problem: TabularProblem) -> None:
    graph = patient_graph(tiny_problem, kind, 8, 4, pretrainings=3, first_seed=4, training=SHORT)
    joined = np.concatenate([np.arange(10), np.arange(20, 60)])
    reference = distance_graph(expected(tiny_problem, kind), 8, 4, among=joined)
    np.testing.assert_allclose(graph.weights.toarray(), reference.weights.toarray(), atol=2e-4)


def test_validation_patients_are_joined_only_where_asked_for(tiny_problem: TabularProblem) -> None:
    without = patient_graph(tiny_problem, "jaccard", 8, 4).weights.toarray()
    assert not without[10:20].any()
    assert without[np.r_[:10, 20:60]].any(axis=1).all()
    assert patient_graph(tiny_problem, "jaccard", 8, 4, with_validation=True).weights.toarray().any(axis=1).all()


@pytest.mark.parametrize("kind", get_args(GraphKind))
def test_no_label_of_others_than_training_patients_reaches_the_graph(
    kind: GraphKind, tiny_problem: TabularProblem
) -> None:
    def graph(problem: TabularProblem) -> bytes:
        return patient_graph(problem, kind, 8, 4, pretrainings=2, training=SHORT).weights.toarray().tobytes()

    labels = tiny_problem.labels.clone()
    labels[10:] = torch.arange(50) % 3 % 2
    assert graph(replace(tiny_problem, labels=labels)) == graph(tiny_problem)
    labels[:10] = 1 - labels[:10]
    changed = graph(replace(tiny_problem, labels=labels)) != graph(tiny_problem)
    assert changed == (kind in ("pretrained", "averaged"))


def test_patients_without_alterations_are_alike(tiny_problem: TabularProblem) -> None:
    dense = tiny_problem.features.toarray()
    dense[[7, 30]] = 0
    problem = replace(tiny_problem, features=type(tiny_problem.features)(dense))
    assert module._jaccard(problem)[7, 30] == 0
    assert module._jaccard(problem)[7, 31] == 1
    assert not module._jaccard(problem).diagonal().any()


def test_a_problem_is_pretrained_for_once(tiny_problem: TabularProblem, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    before = module.fit_all
    monkeypatch.setattr(module, "fit_all", lambda *a: calls.append(None) or before(*a))
    for neighbours in (8, 9, 10):
        patient_graph(tiny_problem, "pretrained", neighbours, 4, training=SHORT)
    assert len(calls) == 1


def test_an_unknown_graph_is_refused(tiny_problem: TabularProblem) -> None:
    with pytest.raises(InvalidInputError, match=r"unknown graph 'jacard' \(did you mean 'jaccard'\?\)"):
        patient_graph(tiny_problem, "jacard", 8, 4)  # type: ignore[arg-type]


def test_resnet_is_what_is_pretrained(tiny_problem: TabularProblem) -> None:
    # One seed gives the graph of the very network that the method ResNet fits.
    from condiff.reproduce.baselines.tabular.networks import answers, fit_all, gene_network

    network = gene_network(tiny_problem, 0)
    fit_all([network], tiny_problem, None, SHORT)
    assert torch.equal(answers(network, tiny_problem, None), ResNet(training=SHORT).solve(tiny_problem, 0).scores)
