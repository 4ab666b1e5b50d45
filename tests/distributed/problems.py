"""Graphs with labels for sharded fits, and what a single process makes of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from condiff import COIN
from condiff.distributed import Description, Fit, Labels, Network, write_shards
from condiff.graph import Graph
from condiff.training import Fitted, Training, fit
from condiff.training import Problem as Task


@dataclass(frozen=True, eq=False)
class Problem:
    graph: Graph
    x: Any
    classes: Any
    train: Any
    validation: Any

    @property
    def labels(self) -> Labels:
        return Labels(self.classes, self.train, self.validation)

    def write(self, folder: Path, ranks: int, **options: Any) -> Description:
        return write_shards(folder, self.graph, self.x, self.labels, ranks=ranks, **options)


@cache
def problem(n_nodes: int = 400, *, directed: bool = False, seed: int = 0) -> Problem:
    """Three classes whose nodes mostly link to their own class, and features that tell little."""
    rng = np.random.default_rng(seed)
    classes = rng.integers(0, 3, n_nodes)
    x = rng.normal(size=(n_nodes, 6))
    x[np.arange(n_nodes), classes] += 1.0
    source = rng.integers(0, n_nodes, 5 * n_nodes)
    target = (source + rng.integers(1, 20, source.size)) % n_nodes
    kept = (classes[source] == classes[target]) | (rng.random(source.size) < 0.2)
    weights = rng.uniform(0.5, 1.5, int(kept.sum()))
    graph = Graph.of(sp.csr_array((weights, (source[kept], target[kept])), shape=(n_nodes, n_nodes)))
    order = rng.permutation(n_nodes)
    return Problem(graph if directed else graph.symmetrised(), x, classes, order[:30], order[30:75])


def settings(epochs: int = 12, *, dtype: str = "float64", patience: int | None = 50, **options: Any) -> Fit:
    network = Network(layers=5, dtype=dtype, seed=3)
    # A momentum of its own makes the optimiser's state matter.
    return Fit(network, Training("adam", 0.05, epochs=epochs, patience=patience), block_rows=64, **options)


def single(problem: Problem, fit_settings: Fit) -> tuple[Tensor, Fitted]:
    """The plain fit of one process on the whole graph."""
    network = fit_settings.network
    torch.manual_seed(network.seed)
    model = COIN.build(problem.x.shape[1], 3, layers=network.layers).to(network.torch_dtype)
    x = torch.as_tensor(problem.x).to(network.torch_dtype)
    graph = problem.graph.normalised(self_loops="add")
    validation = problem.validation if len(problem.validation) else None
    task = Task(model, x, graph, problem.classes, problem.train, validation=validation, settings=fit_settings.training)
    fitted = fit(task, "reference")
    return fitted.diffused, fitted
