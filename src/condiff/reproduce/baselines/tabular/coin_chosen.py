"""COIN with the graph and the diffusion time that do best on the validation patients."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import NamedTuple

import torch
from sklearn.metrics import average_precision_score

from condiff.diffusion.stability import max_diagonal
from condiff.errors import InvalidInputError
from condiff.graph import Graph
from condiff.reproduce.baselines.method import check_counts
from condiff.reproduce.baselines.tabular.method import Outcome, TabularMethod
from condiff.reproduce.baselines.tabular.networks import answers, fit_all, gene_network, solved
from condiff.reproduce.baselines.tabular.patient_graph import GraphKind, check_graph, patient_graph
from condiff.reproduce.baselines.tabular.problem import TabularProblem
from condiff.training import PROSTATE, Training


@dataclass(frozen=True)
class ChosenCOIN(TabularMethod):
    """COIN that tries every combination of the settings below once, and takes the best on the validation patients.

    These are joined to the others here, because their answers must be diffused to be judged; no label of a test patient
    is looked at. A candidate is fitted from the seed 0 and judged by its average precision, and the choice holds for
    all initialisations of a split. A time is divided into as many layers as keep each within the positivity limit of
    the graph. The validation patients do not train.

    Parameters
    ----------
    graphs
        Distances between patients: see :func:`condiff.reproduce.baselines.tabular.patient_graph.patient_graph`.
    n_neighbors
        Ranks at which a patient's weights are cut; their bandwidth is the distance of half that rank.
    times
        Total diffusion, K times sigma squared; 0 is the base network alone.
    pretrainings, training
        As in COIN.
    """

    graphs: tuple[GraphKind, ...] = ("averaged", "features", "jaccard")
    n_neighbors: tuple[int, ...] = (40, 80)
    times: tuple[float, ...] = (0.5, 8.0)
    pretrainings: int = 10
    training: Training = PROSTATE

    def __post_init__(self) -> None:
        for kind in self.graphs:
            check_graph(kind)
        check_counts(pretrainings=self.pretrainings)
        if not (self.graphs and self.n_neighbors and self.times) or min(self.times) < 0:
            raise InvalidInputError("give at least one graph, one number of neighbours, and one time that is 0 or more")

    def solve(self, problem: TabularProblem, seed: int) -> Outcome:
        chosen = choose(problem, self)
        network = gene_network(problem, seed, layers=chosen.layers, strength=chosen.strength)
        return solved(network, problem, chosen.graph, self.training)


class Candidate(NamedTuple):
    """One choice: the kind of graph, its neighbours, the diffusion time, and how well they do."""

    kind: GraphKind
    n_neighbors: int
    time: float
    graph: Graph
    layers: int
    strength: float


# Initialisations of one problem come one after another.
@lru_cache(maxsize=2)
def choose(problem: TabularProblem, settings: ChosenCOIN) -> Candidate:
    """The candidate of the highest average precision on the validation patients; the first of equals."""
    candidates = [
        _candidate(problem, settings, *each) for each in product(settings.graphs, settings.n_neighbors, settings.times)
    ]
    networks = [gene_network(problem, 0, layers=each.layers, strength=each.strength) for each in candidates]
    fit_all(networks, problem, [each.graph for each in candidates], settings.training)
    truth = problem.labels[problem.validation].numpy()
    found = [answers(network, problem, each.graph) for network, each in zip(networks, candidates, strict=True)]
    scores = [average_precision_score(truth, answer[problem.validation].numpy()) for answer in found]
    return candidates[scores.index(max(scores))]


def _candidate(
    problem: TabularProblem, settings: ChosenCOIN, kind: GraphKind, n_neighbors: int, time: float
) -> Candidate:
    graph = patient_graph(
        problem,
        kind,
        n_neighbors,
        max(2, n_neighbors // 2),
        pretrainings=settings.pretrainings,
        training=settings.training,
        with_validation=True,
    )
    layers = math.ceil(time * max_diagonal(graph.laplacian(torch.float64)))
    return Candidate(kind, n_neighbors, time, graph, layers, time / layers if layers else 1.0)
