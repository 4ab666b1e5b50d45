"""The choice on the validation patients."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score

from condiff.diffusion import certify
from condiff.errors import InvalidInputError
from condiff.reproduce.baselines.tabular.coin_chosen import ChosenCOIN, choose
from condiff.reproduce.baselines.tabular.networks import answers, fit_all, gene_network
from condiff.reproduce.baselines.tabular.patient_graph import patient_graph
from condiff.reproduce.baselines.tabular.problem import TabularProblem
from condiff.reproduce.baselines.tabular.resnet import ResNet
from condiff.training import PROSTATE

SHORT = replace(PROSTATE, epochs=15)
METHOD = ChosenCOIN(n_neighbors=(6, 12), times=(0.0, 1.0, 6.0), pretrainings=2, training=SHORT)


def test_it_takes_the_best_average_precision_on_the_validation_patients(tiny_problem: TabularProblem) -> None:
    scores = {}
    truth = tiny_problem.labels[tiny_problem.validation].numpy()
    for kind, neighbours, time in product(METHOD.graphs, METHOD.n_neighbors, METHOD.times):
        graph = patient_graph(
            tiny_problem, kind, neighbours, neighbours // 2, pretrainings=2, training=SHORT, with_validation=True
        )
        layers = int(np.ceil(time / certify(graph).positivity_limit))
        network = gene_network(tiny_problem, 0, layers=layers, strength=time / layers if layers else 1.0)
        fit_all([network], tiny_problem, [graph], SHORT)
        found = answers(network, tiny_problem, graph)[tiny_problem.validation].numpy()
        scores[kind, neighbours, time] = average_precision_score(truth, found)
    assert len(set(scores.values())) > 3
    chosen = choose(tiny_problem, METHOD)
    assert scores[chosen.kind, chosen.n_neighbors, chosen.time] == max(scores.values())


def test_the_validation_labels_decide_and_no_others(tiny_problem: TabularProblem) -> None:
    def chosen(labels: torch.Tensor) -> tuple[str, int, float]:
        return choose(replace(tiny_problem, labels=labels), METHOD)[:3]

    first = chosen(tiny_problem.labels)
    labels = tiny_problem.labels.clone()
    labels[tiny_problem.test] = torch.arange(40) % 2
    assert chosen(labels) == first
    turned = tiny_problem.labels.clone()
    turned[tiny_problem.validation] = 1 - turned[tiny_problem.validation]
    assert chosen(turned) != first


def test_every_candidate_is_within_the_positivity_limit(tiny_problem: TabularProblem) -> None:
    for kind in METHOD.graphs:
        one = replace(METHOD, graphs=(kind,), n_neighbors=(6,), times=(6.0,))
        found = choose(tiny_problem, one)
        assert found.layers * found.strength == pytest.approx(6.0)
        assert found.strength <= certify(found.graph).positivity_limit * (1 + 1e-9)


def test_without_diffusion_it_is_the_base_network(tiny_problem: TabularProblem) -> None:
    alone = replace(METHOD, times=(0.0,))
    for seed in (0, 4):
        expected = ResNet(training=SHORT).solve(tiny_problem, seed).scores
        torch.testing.assert_close(alone.solve(tiny_problem, seed).scores, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    "bad", [{"graphs": ()}, {"times": ()}, {"times": (1.0, -1.0)}, {"n_neighbors": ()}, {"graphs": ("euclid",)}]
)
def test_bad_settings(bad: dict[str, tuple[object, ...]]) -> None:
    with pytest.raises(InvalidInputError):
        ChosenCOIN(**bad)  # type: ignore[arg-type]
