"""The graph that joins similar patients: what their distance is, and who is joined."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal, get_args

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from condiff.bases.genewise import GeneWise, first_layer_distances
from condiff.errors import InvalidInputError, did_you_mean
from condiff.graph import Graph
from condiff.graph.weights import distance_graph
from condiff.reproduce.baselines.tabular.networks import fit_all, gene_network
from condiff.reproduce.baselines.tabular.problem import TabularProblem
from condiff.training import PROSTATE, Training

GraphKind = Literal["pretrained", "averaged", "features", "jaccard"]
GRAPHS: tuple[GraphKind, ...] = get_args(GraphKind)


def check_graph(kind: str) -> None:
    """Refuse a graph that is none of :data:`GRAPHS`."""
    if kind not in GRAPHS:
        raise InvalidInputError(f"unknown graph {kind!r}{did_you_mean(kind, GRAPHS)}; known are {', '.join(GRAPHS)}")


def patient_graph(
    problem: TabularProblem,
    kind: GraphKind,
    n_neighbors: int,
    bandwidth_rank: int,
    *,
    pretrainings: int = 10,
    first_seed: int = 0,
    training: Training = PROSTATE,
    with_validation: bool = False,
) -> Graph:
    """Join training and test patients, and with ``with_validation`` those too, by the paper's Gaussian weights.

    Parameters
    ----------
    problem
        Whose patients to join; of the labels, only those of training patients are read.
    kind
        ``pretrained``, the paper's: the distance of the first layer's outputs of a ResNet that was fitted before.
        ``averaged``: the same for several ResNets that differ in their seed, their outputs side by side.
        ``features``: the distance of the 0/1 features themselves. ``jaccard``: the part of what either patient has
        that they do not share. The last two need no label.
    n_neighbors, bandwidth_rank
        As in :func:`condiff.graph.weights.kernel_graph`.
    pretrainings, first_seed
        ResNets of ``averaged``, with seeds counted from the first; ``pretrained`` takes that one alone.
    training
        How the ResNets are fitted.
    with_validation
        Whether to join the validation patients as well.
    """
    check_graph(kind)
    joined = [problem.train, problem.test, *([problem.validation] if with_validation else [])]
    if kind in ("features", "jaccard"):
        distances = (_euclidean if kind == "features" else _jaccard)(problem)
    else:
        seeds = range(first_seed, first_seed + (1 if kind == "pretrained" else pretrainings))
        distances = _pretrained(problem, seeds, training)
    return distance_graph(distances, n_neighbors, bandwidth_rank, among=torch.cat(joined).numpy())


# Initialisations of one problem come one after another, and its graph is the same for all of them.
@lru_cache(maxsize=2)
def _pretrained(problem: TabularProblem, seeds: range, training: Training) -> NDArray[np.float64]:
    """Root mean square, over the seeds, of the distances between the first layer's outputs."""
    networks = [gene_network(problem, seed) for seed in seeds]
    fit_all(networks, problem, None, training)
    squares = np.zeros((problem.n_patients, problem.n_patients))
    for network in networks:
        assert isinstance(network.convection, GeneWise)
        squares += first_layer_distances(network.convection, problem.features) ** 2
    return np.sqrt(squares / len(seeds))


def _euclidean(problem: TabularProblem) -> NDArray[np.float64]:
    shared, sizes = _shared(problem.features)
    return np.sqrt(sizes[:, None] + sizes - 2 * shared)


def _jaccard(problem: TabularProblem) -> NDArray[np.float64]:
    shared, sizes = _shared(problem.features)
    either = sizes[:, None] + sizes - shared
    # Two patients without any alteration are alike.
    return 1 - np.divide(shared, either, out=np.ones_like(shared), where=either > 0)


def _shared(features: sp.csr_array) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """How many features each two patients share, and how many each has; whole numbers, so nothing is rounded."""
    shared = (features @ features.T).toarray()
    return shared, shared.diagonal()
