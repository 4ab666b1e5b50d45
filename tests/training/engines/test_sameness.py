"""Whole fits, from the same seeds to where they stop: the engine ends where the reference ends."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import Tensor

from condiff.graph import Graph
from condiff.model import COIN
from condiff.reproduce.baselines.node.coin import COIN as Method
from condiff.reproduce.protocols import node
from condiff.reproduce.splits import random_split
from condiff.training import NODE, Problem, Training, fit

SEEDS = range(10)
N, FEATURES, CLASSES = 160, 130, 3


def small_problem() -> tuple[sp.csr_array, Graph, Tensor, Tensor, Tensor]:
    """Words and edges that mostly keep to their class, and labels of which a quarter is wrong.

    The validation loss then has a clear minimum. On a plateau, which epoch is the last to improve would be a matter of
    rounding alone.
    """
    rng = np.random.default_rng(4)
    classes = rng.integers(0, CLASSES, N)
    near = (classes[:, None] == classes) * 0.04 + 0.004 > rng.random((N, N))
    words = rng.random((N, FEATURES)) < 0.02 + 0.08 * (np.arange(FEATURES) % CLASSES == classes[:, None])
    graph = Graph.of(sp.csr_array((near | near.T) * 1.0)).normalised(self_loops="add")
    chosen = torch.from_numpy(rng.permutation(N))
    wrong = rng.random(N) < 0.25
    classes[wrong] = rng.integers(0, CLASSES, wrong.sum())
    scaled = words / np.maximum(words.sum(1, keepdims=True), 1)
    return sp.csr_array(scaled), graph, torch.from_numpy(classes), chosen[:30], chosen[30:80]


def ends(dtype: torch.dtype, seed: int, settings: Training = NODE) -> tuple[list[int], float]:
    """The epochs at which reference and engine stop and which they keep, and the largest difference of the outputs."""
    words, graph, labels, train, validation = small_problem()
    epochs, outputs = [], []
    for engine, x in (("reference", torch.from_numpy(words.toarray()).to(dtype)), ("blocked", words)):
        torch.manual_seed(seed)
        model = COIN.build(FEATURES, CLASSES, layers=10, strength=0.2).to(dtype)
        history = fit(Problem(model, x, graph, labels, train, validation=validation, settings=settings), engine)
        epochs += [len(history.losses), history.best_epoch]
        with torch.no_grad():
            outputs.append(model(torch.from_numpy(words.toarray()).to(dtype), graph))
    return epochs, float((outputs[0] - outputs[1]).abs().max())


@pytest.mark.parametrize(("dtype", "least"), [(torch.float64, 10), (torch.float32, 9)])
def test_ten_seeds_stop_where_the_reference_stops(dtype: torch.dtype, least: int) -> None:
    found = [ends(dtype, seed) for seed in SEEDS]
    same = [(epochs, difference) for epochs, difference in found if epochs[:2] == epochs[2:]]
    assert len(same) >= least
    assert max(difference for _, difference in same) < 1e-4
    assert len({epochs[0] for epochs, _ in found}) > 1  # they do stop early, each in its own time


@pytest.mark.slow
def test_a_long_fit_on_cora(data_root: Path) -> None:
    """Of a fixed length, in double precision: rounding would decide when to stop, and Adam enlarges it."""
    dataset = node.load("cora")
    problem = node.problem(dataset, random_split(dataset.labels, 0))
    graph, method = problem.graph.normalised(self_loops="add"), Method.recommended("cora")
    settings = replace(method.training, epochs=30, patience=31)
    found = []
    for engine in ("reference", "blocked"):
        torch.manual_seed(1)
        model = COIN.build(
            problem.n_features, problem.n_classes, layers=method.layers, strength=method.strength
        ).double()
        given = {"validation": problem.validation, "settings": settings}
        task = Problem(model, problem.x, graph, problem.labels, problem.train, **given)  # type: ignore[arg-type]
        with pytest.warns(UserWarning, match="limit"):
            found.append(fit(task, engine))
    np.testing.assert_allclose(found[0].losses, found[1].losses, rtol=1e-7)
    torch.testing.assert_close(found[0].outputs, found[1].outputs, rtol=0, atol=1e-6)
