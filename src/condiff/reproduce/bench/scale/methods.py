"""Methods to run on the synthetic points: COIN from the points alone, and others that spread labels over a graph.

COIN and scikit-learn's label spreading find the neighbours themselves; the others are given COIN's graph, whose making
counts as theirs.
"""

from __future__ import annotations

import importlib
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from condiff import estimators, graph
from condiff.errors import MissingDependencyError
from condiff.graph import Graph, PointGraph
from condiff.reproduce.bench.scale.points import CLASSES, Points, make_points

Answers = NDArray[np.int64]
#: As many neighbours as the fits have.
N_NEIGHBORS, BANDWIDTH_RANK = 12, 6
# Points outside the graph that are answered after the fit.
_NEW = 10_000


def coin(points: Points, base: str = "auto") -> dict[str, Any]:
    """Neighbours, graph, fit and answers for new points, each with its time."""
    seconds: dict[str, float] = {}
    model = estimators.COINClassifier(base=base, n_neighbors=N_NEIGHBORS, bandwidth_rank=BANDWIDTH_RANK)
    fresh = make_points(len(points.x) + _NEW)
    new_x, new_labels = fresh.x[-_NEW:].copy(), fresh.labels[-_NEW:]
    del fresh
    started = time.perf_counter()
    with (
        _watched(graph.weights, "nearest", seconds, "neighbours"),
        _watched(PointGraph, "build", seconds, "graph"),
    ):
        model.fit(points.x, points.shown)
    fitted = time.perf_counter()
    answers = model.predict(new_x)
    done = time.perf_counter()
    return {
        "accuracy": points.accuracy(model.transduction_),
        "new_accuracy": float((answers == new_labels).mean()),
        "held_out_accuracy": model.cv_score_,
        "recall": model._domain.recall,
        "seconds": done - started,
        "seconds_neighbours": seconds["neighbours"],
        "seconds_graph": seconds["graph"] - seconds["neighbours"],
        "seconds_fit": fitted - started - seconds["graph"],
        "seconds_predict": done - fitted,
        "edges": model.graph_.n_edges,
        "choice": str(model.choice_),
    }


def perceptron(points: Points) -> dict[str, Any]:
    """scikit-learn's perceptron on the labelled points alone."""
    return _timed(points, lambda: _perceptron(points).argmax(axis=1))


def label_spreading(points: Points) -> dict[str, Any]:
    """scikit-learn's, on its own graph of nearest neighbours."""
    from sklearn.semi_supervised import LabelSpreading

    model = LabelSpreading(kernel="knn", n_neighbors=N_NEIGHBORS, n_jobs=torch.get_num_threads())
    return _timed(points, lambda: model.fit(points.x, points.shown).transduction_)


def poisson_learning(points: Points, given: Graph) -> dict[str, Any]:
    """Poisson learning of the package graphlearning."""
    try:
        graphlearning: Any = importlib.import_module("graphlearning")
    except ImportError as error:
        raise MissingDependencyError("Poisson learning needs graphlearning: pip install 'condiff[bench]'") from error
    known = np.flatnonzero(points.shown >= 0)

    def run() -> Answers:
        # Its default, conjugate gradients, stops long before the answer on these graphs.
        model = graphlearning.ssl.poisson(sp.csr_matrix(given.weights), solver="gradient_descent")
        return np.asarray(model.fit_predict(known, points.shown[known]))

    return _timed(points, run)


def label_propagation(points: Points, given: Graph) -> dict[str, Any]:
    """torch_geometric's label propagation, 50 layers."""
    geometric = _geometric()

    def run() -> Answers:
        known = torch.from_numpy(points.shown >= 0)
        labels = torch.from_numpy(np.maximum(points.shown, 0))
        scores = geometric.LabelPropagation(num_layers=50, alpha=0.9)(labels, _adjacency(given), mask=known)
        return np.asarray(scores.argmax(dim=1).numpy())

    return _timed(points, run)


def correct_and_smooth(points: Points, given: Graph) -> dict[str, Any]:
    """torch_geometric's Correct and Smooth on a perceptron, 50 layers each."""
    geometric = _geometric()

    def run() -> Answers:
        known = torch.from_numpy(points.shown >= 0)
        truth = torch.from_numpy(points.shown)[known]
        model = geometric.CorrectAndSmooth(50, 0.9, 50, 0.8)
        soft = torch.from_numpy(_perceptron(points)).float()
        soft = model.correct(soft, truth, known, _adjacency(given))
        soft = model.smooth(soft, truth, known, _adjacency(given))
        return np.asarray(soft.argmax(dim=1).numpy())

    return _timed(points, run)


#: Every method by its name, and whether it is given the graph.
METHODS: dict[str, tuple[Callable[..., dict[str, Any]], bool]] = {
    "COIN": (coin, False),
    "COIN-residual": (partial(coin, base="residual"), False),
    "perceptron": (perceptron, False),
    "LabelSpreading": (label_spreading, False),
    "Poisson learning": (poisson_learning, True),
    "LabelPropagation": (label_propagation, True),
    "CorrectAndSmooth": (correct_and_smooth, True),
}


def shared_graph(points: Points) -> Graph:
    """The graph that COIN makes of the points; what it subtracts and divides by leaves their distances' order."""
    build = partial(PointGraph.build, points.x, N_NEIGHBORS, BANDWIDTH_RANK, tuning="pair")
    return build().graph


@contextmanager
def _watched(owner: Any, name: str, seconds: dict[str, float], step: str) -> Iterator[None]:
    """While the block runs, add the time of every call of ``owner.name`` to ``seconds[step]``."""
    work: Callable[..., Any] = getattr(owner, name)
    seconds.setdefault(step, 0.0)

    def timed(*arguments: Any, **options: Any) -> Any:
        started = time.perf_counter()
        try:
            return work(*arguments, **options)
        finally:
            seconds[step] += time.perf_counter() - started

    setattr(owner, name, timed)
    try:
        yield
    finally:
        setattr(owner, name, work)


def _timed(points: Points, run: Callable[[], Answers]) -> dict[str, Any]:
    started = time.perf_counter()
    answers = run()
    return {"seconds": time.perf_counter() - started, "accuracy": points.accuracy(answers)}


def _perceptron(points: Points) -> NDArray[np.float64]:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPClassifier

    known = points.shown >= 0
    model = MLPClassifier((64,), max_iter=100, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # more steps would only fit the labels more closely
        model.fit(points.x[known], points.shown[known])
    assert len(model.classes_) == CLASSES
    return np.asarray(model.predict_proba(points.x))


def _geometric() -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of torch, at the import
            return importlib.import_module("torch_geometric.nn")
    except ImportError as error:
        raise MissingDependencyError("this method needs torch_geometric: pip install 'condiff[bench]'") from error


def _adjacency(given: Graph) -> torch.Tensor:
    weights = given.weights
    parts = (weights.indptr, weights.indices, weights.data.astype(np.float32, copy=False))
    starts, columns, values = (torch.from_numpy(part) for part in parts)
    return torch.sparse_csr_tensor(starts, columns, values, weights.shape, check_invariants=False)
