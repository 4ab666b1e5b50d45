"""COIN on tables of patients, on the paper's graph and on one that does not depend on a single seed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from condiff.graph import Graph
from condiff.model import COIN as Network
from condiff.reproduce.baselines.method import check_counts
from condiff.reproduce.baselines.tabular.method import Outcome, TabularMethod
from condiff.reproduce.baselines.tabular.networks import answers, fit_all, gene_network
from condiff.reproduce.baselines.tabular.patient_graph import GraphKind, check_graph, patient_graph
from condiff.reproduce.baselines.tabular.problem import TabularProblem
from condiff.training import PROSTATE, Training


@dataclass(frozen=True)
class COIN(TabularMethod):
    """The gene-wise residual network, then ``layers`` Euler steps of diffusion between training and test patients.

    The paper's settings; 73,840 parameters on the prostate data. The strength is past the positivity limit of these
    graphs (about 0.14) and within the stability limit (about 0.28).

    Parameters
    ----------
    layers, strength
        The diffusion: K and sigma squared.
    n_neighbors, bandwidth_rank
        The ranks at which a patient's weights are cut and whose distance is their bandwidth.
    graph
        What the distance between patients is: see :func:`.patient_graph.patient_graph`.
    pretrainings, pretraining_seed
        For the graph ``averaged``, how many pretrained networks it is made of; the seed of the only or first one.
    hidden
        Hidden units.
    training
        Optimiser and schedule, of the pretraining too.
    """

    layers: int = 40
    strength: float = 0.2
    n_neighbors: int = 40
    bandwidth_rank: int = 20
    graph: GraphKind = "pretrained"
    pretrainings: int = 10
    pretraining_seed: int = 0
    hidden: int = 3
    training: Training = PROSTATE

    def __post_init__(self) -> None:
        check_graph(self.graph)
        check_counts(n_neighbors=self.n_neighbors, pretrainings=self.pretrainings, hidden=self.hidden)

    def fit(self, problem: TabularProblem, seed: int) -> Fitted:
        """The network that :meth:`solve` asks, and its graph: to be explained, or asked about others."""
        graph = patient_graph(
            problem,
            self.graph,
            self.n_neighbors,
            self.bandwidth_rank,
            pretrainings=self.pretrainings,
            first_seed=self.pretraining_seed,
            training=self.training,
        )
        network = gene_network(problem, seed, hidden=self.hidden, layers=self.layers, strength=self.strength)
        return Fitted(network, graph, fit_all([network], problem, [graph], self.training))

    def solve(self, problem: TabularProblem, seed: int) -> Outcome:
        fitted = self.fit(problem, seed)
        return Outcome(answers(fitted.network, problem, fitted.graph), self.training.epochs, fitted.seconds)


class Fitted(NamedTuple):
    """A fitted network, the graph that it was fitted on, and the seconds of the fit."""

    network: Network
    graph: Graph
    seconds: float


@dataclass(frozen=True)
class AveragedCOIN(COIN):
    """COIN on the graph of ten pretrained networks in place of one, whose seed would decide how good it is."""

    graph: GraphKind = "averaged"
