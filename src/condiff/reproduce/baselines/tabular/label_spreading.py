"""Label spreading (Zhou, Bousquet, Lal, Weston and Schölkopf, NIPS 2003) between patients with similar alterations."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
from scipy.sparse.linalg import splu

from condiff.errors import InvalidInputError
from condiff.reproduce.baselines.tabular.method import Outcome, TabularMethod
from condiff.reproduce.baselines.tabular.patient_graph import GraphKind, check_graph, patient_graph
from condiff.reproduce.baselines.tabular.problem import TabularProblem


@dataclass(frozen=True)
class LabelSpreading(TabularMethod):
    r"""The limit of :math:`F \leftarrow \alpha S F + (1 - \alpha) Y` with :math:`S = D^{-1/2} W D^{-1/2}`.

    That limit is solved for; it is not in the paper. The score is the share of class 1 in what reaches a patient, or in
    the training patients where nothing does.

    Parameters
    ----------
    alpha
        How much a patient takes from its neighbours; the authors use 0.99 throughout.
    graph
        What the distance between patients is: see :func:`.patient_graph.patient_graph`.
    n_neighbors, bandwidth_rank
        The ranks at which a patient's weights are cut and whose distance is their bandwidth.
    """

    alpha: float = 0.99
    graph: GraphKind = "jaccard"
    n_neighbors: int = 10
    bandwidth_rank: int = 5

    def __post_init__(self) -> None:
        check_graph(self.graph)
        if not 0 <= self.alpha < 1:
            raise InvalidInputError(f"alpha must be at least 0 and below 1, not {self.alpha!r}")

    def solve(self, problem: TabularProblem, seed: int) -> Outcome:
        graph = patient_graph(problem, self.graph, self.n_neighbors, self.bandwidth_rank, with_validation=True)
        train = problem.train.numpy()
        known = np.zeros((problem.n_patients, 2))
        known[train, problem.labels.numpy()[train]] = 1.0
        started = time.perf_counter()
        weights = graph.weights - sp.diags_array(graph.weights.diagonal())
        degree = np.asarray(weights.sum(axis=1)).ravel()
        scale = sp.diags_array(np.divide(1.0, np.sqrt(degree), out=np.zeros_like(degree), where=degree > 0))
        system = sp.eye_array(problem.n_patients) - self.alpha * (scale @ weights @ scale)
        reached = splu(sp.csc_array(system)).solve(known)
        total = reached.sum(axis=1)
        prior = known[train, 1].mean()
        scores = np.divide(reached[:, 1], total, out=np.full_like(total, prior), where=total > 0)
        return Outcome(torch.from_numpy(scores).float(), 0, time.perf_counter() - started)
