"""The gene-wise networks of the paper: how one is made from a seed, fitted, and asked about every patient."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch

from condiff.bases.genewise import GeneWise
from condiff.diffusion import Diffusion
from condiff.errors import StepSizeWarning
from condiff.graph import Graph
from condiff.model import COIN
from condiff.reproduce.baselines.method import check_counts
from condiff.reproduce.baselines.tabular.method import Outcome, TabularMethod
from condiff.reproduce.baselines.tabular.problem import TabularProblem
from condiff.training import PROSTATE, Problem, Training, fit


def gene_network(
    problem: TabularProblem,
    seed: int,
    *,
    hidden: int = 3,
    shortcut: bool = True,
    layers: int = 0,
    strength: float = 0.2,
) -> COIN:
    """A network for the problem's genes, with its diffusion; the seed alone decides its weights, as for the authors."""
    torch.manual_seed(seed)
    base = GeneWise(problem.n_genes, problem.kinds, hidden_features=hidden, shortcut=shortcut)
    return COIN(base, Diffusion(layers, strength), head="sigmoid")


def fit_all(networks: Sequence[COIN], problem: TabularProblem, graphs: list[Graph] | None, training: Training) -> float:
    """Fit networks of one shape to the training patients, each on its graph; the seconds that this took."""
    with warnings.catch_warnings():
        # The paper's own strength is past the positivity limit on its graphs.
        warnings.simplefilter("ignore", StepSizeWarning)
        started = time.perf_counter()
        each_graph = [None] * len(networks) if graphs is None else graphs
        first = Problem(networks[0], problem.features, each_graph[0], problem.labels, problem.train, settings=training)
        pairs = zip(networks, each_graph, strict=True)
        fit([first.replace(model=network, graph=graph) for network, graph in pairs])
        return time.perf_counter() - started


def answers(network: COIN, problem: TabularProblem, graph: Graph | None) -> torch.Tensor:
    """The output of a fitted network for every patient, (n,)."""
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore", StepSizeWarning)
        found = network.base(problem.x_csr) if graph is None else network(problem.x_csr, graph)
    return found[:, 0]


def solved(network: COIN, problem: TabularProblem, graph: Graph | None, training: Training) -> Outcome:
    """Fit one network and ask it."""
    seconds = fit_all([network], problem, None if graph is None else [graph], training)
    return Outcome(answers(network, problem, graph), training.epochs, seconds)


@dataclass(frozen=True)
class HiddenLayerMethod(TabularMethod):
    """A gene-wise network with one hidden layer and no diffusion.

    Parameters
    ----------
    hidden
        Hidden units.
    training
        Optimiser and schedule.
    """

    #: Whether a linear map leads past the hidden layer.
    shortcut: ClassVar[bool]

    hidden: int = 3
    training: Training = PROSTATE

    def __post_init__(self) -> None:
        check_counts(hidden=self.hidden)

    def solve(self, problem: TabularProblem, seed: int) -> Outcome:
        network = gene_network(problem, seed, hidden=self.hidden, shortcut=self.shortcut)
        return solved(network, problem, None, self.training)
